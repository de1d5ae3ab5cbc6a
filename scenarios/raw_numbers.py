"""Numbers kept outside of managed keyed state: in raw operator state, in a union list and in raw keyed state.

The subtasks behind the source number the records of each key in a split from a dict, which they write to
a union list: after a restart any of them may own the split. Its elements are whole only if all subtasks end
with one checkpoint, so a checkpoint between the ends of two is refused.

One subtask behind them numbers the records of each split, and writes the numbers as bytes, one partition of
raw operator state for each split. Behind ``key_by`` a function adds up the numbers of each key in a dict,
which it writes as raw keyed state, the bytes of each key group apart.

A function must write all of its raw state again in each checkpoint. Each row holds a number, a count and a
total, which differ from the oracle's when one of the three is lost, doubled, or given to another subtask.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
)
from onceproof.engine.key_groups import key_group_of
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    LabelledSource,
    draw_keyed,
    into_table,
    label_and_key,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Counted: TypeAlias = tuple[str, str, int, int]
"""Split, key, place among the key's records, and a number."""

Placed: TypeAlias = tuple[str, str, int, int, int]
"""Split, key, place in the split, place among the key's records, and a number or a total."""

name = "raw_numbers"
generator_version = 1
tasks: dict[str, Role] = {
    "records -> counted": "source",
    "numbered": "keyed",
    "totals": "keyed",
    "table": "sink",
}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, place BIGINT, count BIGINT, total BIGINT"
oracle_sql = """
SELECT scenario_id, split, key,
  row_number() OVER (PARTITION BY scenario_id, split ORDER BY offset) AS place,
  row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS count,
  sum(number) OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS total
FROM records
"""

KEYS: Final = ("amber", "blue", "coral", "dun", "ecru", "fawn", "gold")


def generate(random: Random) -> Workload:
    """Draw numbers of several keys."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-9, 99)


class Count(MapFunction, CheckpointedFunction):
    """Numbers the records of each key in each split from 1; the counts are a union list.

    Each subtask is restored with the counts of all, because any split may be its own now. What it was given
    for the splits of others grows old, so of two counts of one key the greater is the newer.
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        entry = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
        self._union = context.get_union_list_state(ListStateDescriptor("counts", entry))
        self._counts: dict[tuple[str, str], int] = {}
        for split, key, count in self._union.get():
            self._counts[split, key] = max(count, self._counts.get((split, key), 0))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._union.update([(*key, count) for key, count in self._counts.items()])

    def map(self, value: tuple[str, str, int]) -> Counted:
        split, key, number = value
        self._counts[split, key] = count = self._counts.get((split, key), 0) + 1
        return split, key, count, number


class Place(MapFunction, CheckpointedFunction):
    """Numbers the records of each split from 1; each split is a partition of raw operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        partitions = context.get_raw_operator_state_inputs()
        self._places: dict[str, int] = dict(
            msgspec.json.decode(each.get_stream().read(), type=tuple[str, int]) for each in partitions
        )

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        output = context.get_raw_operator_state_output()
        for entry in self._places.items():
            output.start_new_partition()
            output.write(msgspec.json.encode(entry))

    def map(self, value: Counted) -> Placed:
        split, key, count, number = value
        self._places[split] = place = self._places.get(split, 0) + 1
        return split, key, place, count, number


class Total(KeyedProcessFunction, CheckpointedFunction):
    """Replaces each number by the total of its key so far; the totals are raw keyed state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._totals: dict[tuple[str, str], int] = {}
        for group in context.get_raw_keyed_state_inputs():
            entries = msgspec.json.decode(group.get_stream().read(), type=list[tuple[str, str, int]])
            self._totals.update({(split, key): total for split, key, total in entries})

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        number_of_groups = self.get_runtime_context().get_max_number_of_parallel_subtasks()
        groups = defaultdict(list)
        for key, total in sorted(self._totals.items()):
            groups[key_group_of(key, number_of_groups, LABELLED_KEY)].append((*key, total))
        output = context.get_raw_keyed_operator_state_output()
        for group, entries in groups.items():
            output.start_new_key_group(group)
            output.write(msgspec.json.encode(entries))

    def process_element(self, value: Placed, ctx: KeyedProcessFunction.Context) -> Iterator[Placed]:
        split, key, place, count, number = value
        self._totals[split, key] = total = self._totals.get((split, key), 0) + number
        yield split, key, place, count, total


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build records (and their counts) -> numbered (one subtask) -> totals -> table."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, number, number, number])
    records = env.from_source(LabelledSource(io.source("records")), None, "records").uid("records")
    counted = records.set_parallelism(io.source_parallelism).map(
        Count(), Types.TUPLE([text, text, number, number])
    )
    counted = counted.name("counted").uid("counted").set_parallelism(io.source_parallelism)
    numbered = counted.global_().map(Place(), row)
    numbered = numbered.name("numbered").uid("numbered").force_non_parallel()
    totals = numbered.key_by(label_and_key, LABELLED_KEY).process(Total(), row)
    into_table(named(totals, "totals", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Go through each split once."""
    rows = []
    for split, values in records.items():
        numbers: dict[str, list[int]] = defaultdict(list)
        for place, (_, value) in enumerate(values, start=1):
            assert isinstance(value, tuple)
            key = str(value[0])
            numbers[key].append(int(value[1] or 0))
            rows.append((split, key, place, len(numbers[key]), sum(numbers[key])))
    return rows
