"""A service that answers at the third attempt is asked again."""

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from pyflink.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from pyflink.datastream.async_retry_strategies import FixedDelayRetryStrategy
from pyflink.datastream.functions import RuntimeContext


class Flaky(AsyncFunction[int, str]):
    def open(self, runtime_context: RuntimeContext):
        self.attempts = {}

    async def async_invoke(self, value: int):
        self.attempts[value] = self.attempts.get(value, 0) + 1
        if self.attempts[value] < 2:
            return []
        if self.attempts[value] < 3:
            raise ConnectionError("the service is busy")
        return [f"{value}: answered"]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = FixedDelayRetryStrategy(5, 5, empty_result_predicate, has_exception_predicate)
    AsyncDataStream.ordered_wait_with_retry(
        env.from_collection(list(range(6)), Types.INT()),
        Flaky(),
        Time.seconds(30),
        strategy,
        capacity=2,
        output_type=Types.STRING(),
    ).print()
    env.execute("retries")
