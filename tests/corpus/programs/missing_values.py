"""Rows with missing fields: None in texts, dates, decimals, lists and maps."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

PERSON = Types.ROW_NAMED(
    ["id", "name", "born", "salary", "tags"],
    [Types.INT(), Types.STRING(), Types.SQL_DATE(), Types.BIG_DEC(), Types.LIST(Types.STRING())],
)
PEOPLE = [
    Row(1, "Ann", datetime.date(1990, 5, 1), Decimal("10.5"), ["x", None]),
    Row(2, None, None, None, []),
    Row(1, None, datetime.date(1990, 5, 2), None, [None]),
    Row(2, "Bob", None, Decimal("7"), ["y"]),
    Row(3, "Cy", None, None, ["z", "z"]),
    Row(1, "Anna", None, Decimal("11"), ["x"]),
]


class Latest(KeyedProcessFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.tags = runtime_context.get_map_state(MapStateDescriptor("tags", Types.STRING(), Types.STRING()))

    def process_element(self, value, ctx):
        if value.name is not None:
            self.name.update(value.name)
        for tag in value.tags:
            if tag is not None:
                self.tags.put(tag, value.name)
        tags = sorted(f"{tag}={name}" for tag, name in self.tags.items())
        yield f"{value.id} {self.name.value()} {value.born} {value.salary} {tags}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(PEOPLE, PERSON).key_by(lambda row: row.id).process(Latest(), Types.STRING()).print()
    env.execute("missing values")
