"""Every two elements written together: a buffering sink with a threshold of two.

Which two meet depends on the order of arrival, so each row declares a pair. The oracle requires that every
element stands in exactly one row, and that an element stands alone only where a subtask had one left at the
end. With so short a list a rescale deals out single elements, where the longer lists of buffered_sink leave a
remainder.
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._buffering import MOST_SUBTASKS, BufferingSink, build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "pairs"
generator_version = 1
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"numbers": "source", "table": "sink"}
record_schema = "number BIGINT"
row_schema = "first BIGINT, second BIGINT"
oracle_sql = """
WITH elements AS (
  SELECT scenario_id, number, 1 AS balance FROM records
  UNION ALL SELECT scenario_id, first, -1 FROM declared
  UNION ALL SELECT scenario_id, second, -1 FROM declared WHERE second IS NOT NULL
), unbalanced AS (
  SELECT DISTINCT scenario_id FROM (
    SELECT scenario_id FROM elements GROUP BY scenario_id, number HAVING sum(balance) <> 0
    UNION ALL
    SELECT scenario_id FROM declared WHERE second IS NULL GROUP BY scenario_id HAVING count(*) > 4
  )
)
SELECT scenario_id, first, second FROM declared LEFT ANTI JOIN unbalanced USING (scenario_id)
UNION ALL
SELECT scenario_id, -1L - number, NULL FROM records LEFT SEMI JOIN unbalanced USING (scenario_id)
"""

THRESHOLD = 2


def generate(random: Random) -> Workload:
    """Draw numbers; some repeat, and often there is an odd one."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2)])
    longest = chance.weighted([(4, 1), (20, 3), (40, 3)])
    records = {
        f"numbers-{split}": tuple(
            (place, chance.integer(0, 99)) for place in range(chance.integer(0, longest))
        )
        for split in range(splits)
    }
    return Workload(records, {"splits": splits})


class PairSink(BufferingSink):
    """Writes two numbers as one row."""

    def rows(self, values: Sequence[int]) -> Sequence[tuple[int, int | None]]:
        """Return the pair, or the single element that is left at the end."""
        return [(values[0], values[1] if len(values) > 1 else None)]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build numbers -> table."""
    build(env, io, PairSink(THRESHOLD, io.sink("table")))


def expected(records: Records, declared: Declared) -> Rows:
    """Return the declared pairs whose numbers are in the input, and pair up the remaining numbers."""
    left = Counter(number for split in records.values() for _, number in split)
    alone = 0
    rows: list[tuple[object, ...]] = []
    for first, second in declared.rows:
        numbers = Counter([first] if second is None else [first, second])
        alone += second is None
        if numbers <= left and alone <= MOST_SUBTASKS:
            left -= numbers
            rows.append((first, second))
    if declared.is_whole or left.total() > MOST_SUBTASKS * (THRESHOLD - 1):
        numbers_left = list(left.elements())
        rows += zip_longest(numbers_left[::THRESHOLD], numbers_left[1::THRESHOLD])
    return rows
