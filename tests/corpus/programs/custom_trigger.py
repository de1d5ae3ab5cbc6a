"""A global window that fires at each third element: a Trigger with a state of its own."""

from pyflink.common import Types
from pyflink.datastream import ReduceFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.state import ReducingStateDescriptor
from pyflink.datastream.window import GlobalWindow, GlobalWindows, Trigger, TriggerResult


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class EveryThird(Trigger[tuple, GlobalWindow]):
    def __init__(self):
        self.descriptor = ReducingStateDescriptor("count", Add(), Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.descriptor)
        count.add(1)
        if count.get() < 3:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.descriptor).clear()


class Join(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key + " " + "+".join(str(each[1]) for each in elements)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = [("even" if n % 2 == 0 else "odd", n) for n in range(14)]
    env.from_collection(numbers, Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
        lambda each: each[0]
    ).window(GlobalWindows.create()).trigger(EveryThird()).process(Join(), Types.STRING()).print()
    env.execute("every third")
