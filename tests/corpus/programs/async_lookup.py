"""Names of users are asked of a service, several at a time."""

import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment

NAMES = {1: "Ada", 2: "Bob", 3: "Cy"}


class LookUp(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.001 * (value % 3))
        return [f"{value} {NAMES.get(value, 'unknown')}"]

    def timeout(self, value):
        return [f"{value} timed out"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
users = env.from_collection([1, 2, 3, 4, 1, 2, 3, 5], Types.INT())
AsyncDataStream.unordered_wait(
    data_stream=users,
    async_function=LookUp(),
    timeout=Time.seconds(20),
    capacity=3,
    output_type=Types.STRING(),
).print()
env.execute("look-ups")
