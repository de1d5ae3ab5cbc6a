"""The families of the programs with keyed state: one class, given the program's operators and its rule.

Each program exports ``build``, which takes a stream of tuples and puts the program's operators behind it. A
family reads the drawn records, gives them to ``build``, and writes what the program would print. The rule is
stated twice, apart from the program: in Python for the records of one key, and in SQL.

The first column of a record is the key. Keys of different splits differ, because two splits have no common
order; so the order of a key's records is fixed. In SQL the view ``keyed`` has the records with two more
columns: ``owner``, the key as the program sees it, and ``place``, its number among the records of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LabelledSource, draw_keyed

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.engine.types import TypeInformation
    from onceproof.harness.model.scenario import InputRecord, RecordValue

Build: TypeAlias = Callable[["DataStream"], "DataStream"]
"""Puts the operators of a program behind a stream of its records; returns what the program prints."""
Rule: TypeAlias = Callable[[Any, Sequence[Any]], Iterable[tuple[Any, ...]]]
"""Called with a key and all its records in order; returns the rows."""

KEYS_OF_A_SPLIT: Final = 1000
"""Key 2 of the split ``part-3`` is 3,002."""
MOST_RECORDS: Final = 80
COLUMN_TYPES: Final = {"STRING": Types.STRING(), "BIGINT": Types.LONG(), "DOUBLE": Types.DOUBLE()}
ANY_BACKEND: Final = FamilyOptions(any_backend=True)


@dataclass(frozen=True)
class KeyedProgram:
    """The family of one program.

    Args:
        name: the name of the family.
        build: the operators of the program; its input is keyed by the first column.
        record_type: the type of the records.
        record_schema: their columns as Spark DDL; the key is BIGINT or STRING.
        generate: draws the input, as a function of a family does.
        row_schema: the columns of the rows; one column where the program prints values, not tuples.
        rule: the rows of one key.
        rows_sql: the rows, read from the view ``keyed``.
        options: the options of the family.
    """

    name: str
    build: Build
    record_type: TypeInformation
    record_schema: str
    generate: Callable[[Random], Workload]
    row_schema: str
    rule: Rule
    rows_sql: str
    options: FamilyOptions = ANY_BACKEND
    generator_version: int = 1

    @property
    def tasks(self) -> Mapping[str, Role]:
        """A value becomes a row with one column in an operator that is chained to the program's."""
        program = "program -> row" if self._prints_values else "program"
        return {"records": "source", program: "keyed", "table": "sink"}

    @property
    def oracle_sql(self) -> str:
        key, _, kind = self.record_schema.partition(",")[0].partition(" ")
        number = f"{KEYS_OF_A_SPLIT} * cast(substring_index(split, '-', -1) AS BIGINT) + {key}"
        owner = f"concat(split, '/', {key})" if kind == "STRING" else number
        return f"""
WITH keyed AS (
  SELECT *, {owner} AS owner,
         row_number() OVER (PARTITION BY scenario_id, split, {key} ORDER BY offset) AS place
  FROM records
)
{self.rows_sql}
"""

    @property
    def _prints_values(self) -> bool:
        return "," not in self.row_schema

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build records -> program -> table."""
        source = LabelledSource(io.source("records"), with_owner)
        records = env.from_source(source, None, "records", self.record_type).uid("records")
        rows = self.build(records.set_parallelism(io.source_parallelism)).name("program").uid("program")
        rows = rows.set_parallelism(io.parallelism)
        if self._prints_values:
            kind = COLUMN_TYPES[self.row_schema.split()[1]]
            rows = rows.map(lambda value: (value,), Types.TUPLE([kind])).name("row").uid("row")
            rows = rows.set_parallelism(io.parallelism)
        table = rows.key_by(lambda row: str(row[0]), Types.STRING()).add_sink(io.sink("table"))
        table.name("table").uid("table").set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Apply the rule to the records of each key."""
        return [row for owner, values in by_owner(records).items() for row in self.rule(owner, values)]


def with_owner(label: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a record whose key is one of its split alone."""
    return owner_of(label, value[0]), *value[1:]


def owner_of(split: str, key: Any) -> Any:
    """Return the key as the program sees it: a number for a number, a text for a text."""
    return f"{split}/{key}" if isinstance(key, str) else KEYS_OF_A_SPLIT * int(split.split("-")[-1]) + key


def by_owner(records: Records) -> dict[Any, list[Any]]:
    """Return the records of each key in order, as the program sees them."""
    found: dict[Any, list[Any]] = {}
    for split, values in records.items():
        for _, value in values:
            assert isinstance(value, tuple)
            placed = with_owner(split, value)
            found.setdefault(placed[0], []).append(placed)
    return found


# Pairs of a key and a number: the input of most of the programs.

PAIR_SCHEMA: Final = "key BIGINT, number DOUBLE"
PAIR_KEYS: Final = ("1", "2", "3", "4", "5")


def draw_pairs(random: Random) -> Workload:
    """Draw pairs in up to four splits. Numbers are quarters, so that sums of them are exact in any order."""
    return draw_keyed(random, PAIR_KEYS, _pair)


def draw_pairs_of_one_key(random: Random) -> Workload:
    """Draw pairs of one key in one split: what a program with one plain field for all keys gets right."""
    chance = Chance(random)
    pairs: list[InputRecord] = [
        (time, _pair(chance, "1", time)) for time in range(chance.integer(0, MOST_RECORDS))
    ]
    return Workload({"part-0": tuple(pairs)}, {"records": len(pairs)})


def _pair(chance: Chance, key: str, now: int) -> RecordValue:
    return int(key), chance.integer(-8, 40) / 4
