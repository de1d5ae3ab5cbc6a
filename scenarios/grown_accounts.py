"""A job in two versions: the new one keeps more of each account, in every kind of state.

Each scenario replaces the job once, from a savepoint. The rows of the new version gain a field, or have their
fields in another order, and one of its states gains a time to live, which is never over. What the rows of the
job say stays the same, so they differ from the oracle's where a state is migrated wrongly, or twice, or not
at all.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

from onceproof.engine.durations import Time
from onceproof.engine.functions import (
    AggregateFunction,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Row, Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
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

name = "grown_accounts"
generator_version = 2
tasks: dict[str, Role] = {
    "records": "source",
    "placed": "keyed",
    "accounts": "keyed",
    "table": "sink",
}
record_schema = "key STRING, number BIGINT"
row_schema = (
    "split STRING, key STRING, place BIGINT, total BIGINT, highest BIGINT, latest STRING, alike BIGINT"
)
oracle_sql = """
SELECT scenario_id, split, key,
  row_number() OVER so_far AS place,
  sum(number) OVER so_far AS total,
  max(number) OVER so_far AS highest,
  array_join(transform(
    collect_list(number) OVER (
      PARTITION BY scenario_id, split, key ORDER BY offset ROWS BETWEEN 2 PRECEDING AND CURRENT ROW),
    each -> CAST(each AS STRING)), ' ') AS latest,
  row_number() OVER (PARTITION BY scenario_id, split, key, pmod(number, 3) ORDER BY offset) AS alike
FROM records
WINDOW so_far AS (PARTITION BY scenario_id, split, key ORDER BY offset)
"""

KEYS: Final = ("ada", "bob", "cy", "dee", "eve")
YEAR: Final = Time.days(365)
LATEST: Final = 3


def generate(random: Random) -> Workload:
    """Draw numbers of several keys."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-9, 99)


def account_type(*names: str) -> Any:
    """Return the type of a row whose fields are numbers, but for a note."""
    text, number = Types.STRING(), Types.LONG()
    return Types.ROW_NAMED([*names], [text if each == "note" else number for each in names])


def higher(one: Row, other: Row) -> Row:
    """Return the row with the higher number, as the job reduces."""
    return one if one["highest"] >= other["highest"] else other


class Sum(AggregateFunction):
    """Adds numbers up in a row of the version's type."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def create_accumulator(self) -> Row:
        return filled(self._names, total=0)

    def add(self, value: int, accumulator: Row) -> Row:
        return filled(self._names, total=accumulator["total"] + value)

    def get_result(self, accumulator: Row) -> int:
        total: int = accumulator["total"]
        return total

    def merge(self, acc_a: Row, acc_b: Row) -> Row:
        return filled(self._names, total=acc_a["total"] + acc_b["total"])


def filled(names: tuple[str, ...], **said: int) -> Row:
    """Return a row with these names; what is not said is None."""
    return Row(**{each: said.get(each) for each in names})


class Place(MapFunction, CheckpointedFunction):
    """Numbers the records of each split and key from 1, in one subtask; the counts are a list of rows."""

    added: ClassVar[tuple[str, ...]] = ()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        names, text = ("split", "key", "count", *self.added), Types.STRING()
        entry = Types.ROW_NAMED([*names], [text, text, Types.LONG(), *[text for _ in self.added]])
        self._stored = context.get_list_state(ListStateDescriptor("counts", entry))
        self._counts = {(row["split"], row["key"]): row["count"] for row in self._stored.get()}

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        rest = dict.fromkeys(self.added)
        self._stored.update(
            [Row(split=split, key=key, count=count, **rest) for (split, key), count in self._counts.items()]
        )

    def map(self, value: tuple[str, str, int]) -> tuple[str, str, int, int]:
        split, key, number = value
        self._counts[split, key] = place = self._counts.get((split, key), 0) + 1
        return split, key, place, number


class NewPlace(Place):
    """Keeps a note with each count."""

    added = ("note",)


class Account(KeyedProcessFunction):
    """Emits at each record what the states of its key say."""

    sums: ClassVar[tuple[str, ...]] = ("total",)
    heights: ClassVar[tuple[str, ...]] = ("highest", "opposite")
    numbers: ClassVar[tuple[str, ...]] = ("number",)
    counts: ClassVar[tuple[str, ...]] = ("count", "number")
    lives_a_year: ClassVar[bool] = False

    def open(self, runtime_context: RuntimeContext) -> None:
        own, sums = runtime_context, account_type(*self.sums)
        self._sum = own.get_aggregating_state(AggregatingStateDescriptor("sum", Sum(self.sums), sums))
        self._highest = own.get_reducing_state(
            ReducingStateDescriptor("highest", higher, account_type(*self.heights))
        )
        self._latest = own.get_list_state(ListStateDescriptor("latest", account_type(*self.numbers)))
        self._alike = own.get_map_state(MapStateDescriptor("alike", Types.LONG(), account_type(*self.counts)))
        checked = ValueStateDescriptor("checked", sums)
        if self.lives_a_year:
            checked.enable_time_to_live(StateTtlConfig.new_builder(YEAR).never_return_expired().build())
        self._checked = own.get_state(checked)

    def process_element(
        self, value: tuple[str, str, int, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int, int, str, int]]:
        split, key, place, number = value
        self._sum.add(number)
        self._highest.add(filled(self.heights, highest=number, opposite=-number))
        latest = [*[row["number"] for row in self._latest.get()][1 - LATEST :], number]
        self._latest.update([filled(self.numbers, number=each) for each in latest])
        before = self._alike.get(number % 3)
        alike = (before["count"] if before else 0) + 1
        self._alike.put(number % 3, filled(self.counts, count=alike, number=number))
        checked = self._checked.value()
        total = (checked["total"] if checked else 0) + number
        self._checked.update(filled(self.sums, total=total))
        # Two states keep the same sum: a row shows it once, unless they differ.
        place = place if total == self._sum.get() else -place
        numbers = " ".join(map(str, latest))
        yield split, key, place, total, self._highest.get()["highest"], numbers, alike


class NewAccount(Account):
    """Keeps more in each row, and one state for a year."""

    sums = ("lent", "total")
    heights = ("opposite", "highest")
    numbers = ("note", "number")
    counts = ("number", "lent", "count")
    lives_a_year = True


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build records -> placed (one subtask) -> accounts -> table."""
    _build(env, io, Place(), Account())


def upgraded(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build the new version."""
    _build(env, io, NewPlace(), NewAccount())


def _build(env: StreamExecutionEnvironment, io: JobIO, place: Place, account: Account) -> None:
    text, number = Types.STRING(), Types.LONG()
    records = env.from_source(LabelledSource(io.source("records")), None, "records").uid("records")
    records.set_parallelism(io.source_parallelism)
    placed = records.global_().map(place, Types.TUPLE([text, text, number, number]))
    placed = placed.name("placed").uid("placed").force_non_parallel()
    accounts = placed.key_by(label_and_key, LABELLED_KEY).process(
        account, Types.TUPLE([text, text, number, number, number, text, number])
    )
    into_table(named(accounts, "accounts", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Go through each split once."""
    rows = []
    for split, values in records.items():
        numbers: dict[str, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            key, number = str(value[0]), int(value[1] or 0)
            so_far = numbers.setdefault(key, [])
            so_far.append(number)
            alike = sum(each % 3 == number % 3 for each in so_far)
            latest = " ".join(map(str, so_far[-LATEST:]))
            rows.append((split, key, len(so_far), sum(so_far), max(so_far), latest, alike))
    return rows


options = FamilyOptions(any_backend=True, upgraded=upgraded)
