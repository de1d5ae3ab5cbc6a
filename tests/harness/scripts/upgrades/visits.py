"""Visits of each page in windows, without the pages that a stream of rules blocks."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows

VISITS = [
    ("home", 1_000),
    ("help", 2_000),
    ("home", 9_000),
    ("home", 12_000),
    ("help", 25_000),
    ("home", 27_000),
]
RULES = ["block ads"]
BLOCKED = MapStateDescriptor("blocked", Types.STRING(), Types.BOOLEAN())
WIDTH_S = 10


class VisitTime(TimestampAssigner):
    def extract_timestamp(self, visit, record_timestamp):
        return visit[1]


class Filter(BroadcastProcessFunction):
    def process_element(self, visit, ctx):
        if not ctx.get_broadcast_state(BLOCKED).contains(visit[0]):
            yield *visit, 1

    def process_broadcast_element(self, rule, ctx):
        ctx.get_broadcast_state(BLOCKED).put(rule.split()[1], True)


env = StreamExecutionEnvironment.get_execution_environment()
in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(VisitTime())
visits = env.from_collection(VISITS).uid("visits")
rules = env.from_collection(RULES, Types.STRING()).uid("rules").broadcast(BLOCKED)
(
    visits.connect(rules)
    .process(Filter(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    .uid("filter")
    .assign_timestamps_and_watermarks(in_order)
    .uid("times")
    .key_by(lambda visit: visit[0], Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(WIDTH_S)))
    .reduce(lambda one, other: (*one[:2], one[2] + other[2]))
    .uid("counts")
    .print()
)
env.execute("visits")
