"""The average of every three values of a key: one family for each kind of state that can keep the values.

The values are kept in a ValueState, a ListState or a MapState. Input, output and oracles are the same, so a
difference between the families is one between the kinds of state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, groups_of, into_table, keyed_records, named

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

KEYS: Final = ("a", "b", "c", "d", "e")
THREE: Final = 3


@dataclass(frozen=True)
class Averages:
    """The family of one kind of state."""

    name: str
    function: type[KeyedProcessFunction]
    generator_version: ClassVar[int] = 1
    options: ClassVar[FamilyOptions] = FamilyOptions(any_backend=True)
    tasks: ClassVar[dict[str, Role]] = {"values": "source", "averages": "keyed", "table": "sink"}
    record_schema: ClassVar[str] = "key STRING, number BIGINT"
    row_schema: ClassVar[str] = "split STRING, key STRING, last BIGINT, average DOUBLE"
    oracle_sql: ClassVar[str] = """
SELECT scenario_id, split, key, max(place) AS last, avg(number) AS average
FROM (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place
  FROM records
)
GROUP BY scenario_id, split, key, ceil(place / 3)
HAVING count(*) = 3
"""

    def generate(self, random: Random) -> Workload:
        """Draw numbers, some of them negative, so that sums do not only grow."""
        return draw_keyed(random, KEYS, _number)

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build values -> averages -> table."""
        row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()])
        averages = keyed_records(env, io, "values").process(self.function(), row)
        into_table(named(averages, "averages", io), io)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Average each three in a row; ``last`` is the number of the third among the values of the key."""
        groups = groups_of(THREE, records)
        return [(split, key, last, sum(numbers) / THREE) for split, key, last, numbers in groups]


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-9, 30)


class AverageByList(KeyedProcessFunction):
    """Keeps the values in a ListState that is cleared when it holds three.

    A restore must keep the order and the number of the list's elements.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the list, and the number of the last value."""
        self._numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        split, key, number = value
        last = (self._last.value() or 0) + 1
        self._last.update(last)
        self._numbers.add(number)
        numbers = list(self._numbers.get())
        if len(numbers) == THREE:
            self._numbers.clear()
            yield split, key, last, sum(numbers) / THREE


class AverageByMap(KeyedProcessFunction):
    """Keeps the values in a MapState by their number among the values of the key; entries are removed singly.

    The keys of the map are not random ids: a job that draws ids gives other output each time it is restored.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the map, and the number of the last value."""
        self._numbers = runtime_context.get_map_state(
            MapStateDescriptor("numbers", Types.LONG(), Types.LONG())
        )
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        split, key, number = value
        last = (self._last.value() or 0) + 1
        self._last.update(last)
        self._numbers.put(last, number)
        numbers = list(self._numbers.items())
        if len(numbers) == THREE:
            for place, _ in numbers:
                self._numbers.remove(place)
            yield split, key, last, sum(each for _, each in numbers) / THREE


class AverageByValue(KeyedProcessFunction):
    """Keeps (number, sum, last) in a ValueState."""

    def open(self, runtime_context: RuntimeContext) -> None:
        number = Types.LONG()
        self._so_far = runtime_context.get_state(
            ValueStateDescriptor("so far", Types.TUPLE([number, number, number]))
        )

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        split, key, number = value
        count, total, last = self._so_far.value() or (0, 0, 0)
        count, total, last = count + 1, total + number, last + 1
        if count == THREE:
            yield split, key, last, total / THREE
            count = total = 0
        self._so_far.update((count, total, last))


average_by_list = Averages("average_by_list", AverageByList)
average_by_map = Averages("average_by_map", AverageByMap)
average_by_value = Averages("average_by_value", AverageByValue)
