"""The most viewed items of each hour: a window, and timers that rank what it has counted."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction, WindowFunction
from pyflink.datastream.state import ListStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows

HOUR = 3_600_000
VIEWS = [
    ("tea", 0),
    ("jam", 1),
    ("tea", 2),
    ("pie", 3),
    ("jam", 4),
    ("tea", 5),
    ("pie", HOUR),
    ("pie", HOUR + 1),
    ("tea", HOUR + 2),
]


class ViewTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountViews(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithEnd(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.end, next(iter(inputs)))]


class TopTwo(KeyedProcessFunction):
    def open(self, runtime_context):
        item = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", item))

    def process_element(self, value, ctx):
        self.items.add(value)
        ctx.timer_service().register_event_time_timer(value[1] + 1)

    def on_timer(self, timestamp, ctx):
        ranked = sorted(self.items.get(), key=lambda item: (-item[2], item[0]))[:2]
        self.items.clear()
        yield f"{(timestamp - 1) // HOUR}: " + ", ".join(f"{name} {views}" for name, _, views in ranked)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(VIEWS, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ViewTime())
    ).key_by(lambda view: view[0], Types.STRING()).window(
        TumblingEventTimeWindows.of(Time.hours(1))
    ).aggregate(
        CountViews(),
        WithEnd(),
        accumulator_type=Types.INT(),
        output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]),
    ).key_by(lambda item: item[1], Types.LONG()).process(TopTwo(), Types.STRING()).print()
    env.execute("hot items")
