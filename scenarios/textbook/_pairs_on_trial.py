"""What the families of the pairing programs share: drawn elements, and the rules of their rows.

Which two elements meet depends on the order of arrival, so each row declares a pair. Each element stands in
at most one row, and each subtask may hold back one at the end, because these programs write only full pairs.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload

if TYPE_CHECKING:
    from onceproof.harness.model.family import Declared, Records, Rows

NAMES: Final = ("spark", "hadoop", "hive", "flume")
RECORD_SCHEMA: Final = "name STRING, number BIGINT"
ROW_SCHEMA: Final = "first_name STRING, first_number BIGINT, second_name STRING, second_number BIGINT"


def draw(random: Random) -> Workload:
    """Draw elements in up to three splits; some repeat, and often there is an odd one."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2)])
    longest = chance.weighted([(4, 1), (20, 3), (40, 3)])
    records = {
        f"elements-{split}": tuple(
            (time, (chance.choice(NAMES), chance.integer(0, 99)))
            for time in range(chance.integer(0, longest))
        )
        for split in range(splits)
    }
    return Workload(records, {"splits": splits})


def expected_pairs(records: Records, declared: Declared, held_back: int) -> Rows:
    """Return the declared pairs of elements of the input, and pair up the others where too many are left."""
    left = Counter(value for split in records.values() for _, value in split)
    rows: list[tuple[object, ...]] = []
    for row in declared.rows:
        pair = Counter([row[:2], row[2:]])
        if pair <= left:
            left -= pair
            rows.append(row)
    if left.total() > held_back:
        elements = [value for value in left.elements() if isinstance(value, tuple)]
        rows += [(*one, *other) for one, other in zip(elements[::2], elements[1::2], strict=False)]
    return rows


def pairs_sql(held_back: int) -> str:
    """Return the same rule in SQL."""
    return f"""
WITH elements AS (
  SELECT scenario_id, name, number, 1 AS balance FROM records
  UNION ALL SELECT scenario_id, first_name, first_number, -1 FROM declared
  UNION ALL SELECT scenario_id, second_name, second_number, -1 FROM declared
), unbalanced AS (
  SELECT scenario_id
  FROM (SELECT scenario_id, sum(balance) AS rest FROM elements GROUP BY scenario_id, name, number)
  GROUP BY scenario_id HAVING min(rest) < 0 OR sum(rest) > {held_back}
)
SELECT scenario_id, first_name, first_number, second_name, second_number
FROM declared LEFT ANTI JOIN unbalanced USING (scenario_id)
UNION ALL
SELECT scenario_id, name, -1L - number, NULL, NULL FROM records LEFT SEMI JOIN unbalanced USING (scenario_id)
"""
