"""State without a schema: dicts and sets under PICKLED_BYTE_ARRAY."""

import datetime

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

EVENTS = [
    {"user": "ann", "tag": "red", "day": datetime.date(2024, 1, 1)},
    {"user": "bob", "tag": "blue", "day": datetime.date(2024, 1, 2)},
    {"user": "ann", "tag": "blue", "day": datetime.date(2024, 1, 3)},
    {"user": "ann", "tag": "red", "day": datetime.date(2024, 1, 4)},
    {"user": "bob", "tag": "green", "day": datetime.date(2024, 1, 5)},
    {"user": "ann", "tag": "green", "day": datetime.date(2024, 1, 6)},
]


class Collect(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.profile = runtime_context.get_state(ValueStateDescriptor("profile", Types.PICKLED_BYTE_ARRAY()))
        self.days = runtime_context.get_map_state(
            MapStateDescriptor("days", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        profile = self.profile.value() or {"tags": set(), "count": 0}
        profile = {"tags": profile["tags"] | {value["tag"]}, "count": profile["count"] + 1}
        self.profile.update(profile)
        self.days.put((value["tag"], value["user"]), value["day"])
        newest = max(self.days.values())
        yield f"{value['user']} {profile['count']} {sorted(profile['tags'])} {newest.isoformat()}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(EVENTS).key_by(lambda event: event["user"]).process(Collect(), Types.STRING()).print()
    env.execute("profiles without a schema")
