"""What the family of the two-phase commit draws, and the rule of its outcomes, in Python and in SQL.

A record is (number, payer, payee, cents). Its payer is an account of the record's split; its payee has the
split in its name, "transfers-1/Bob". A payer promises what it has in the order of its transfers, and what was
promised for an aborted transfer stays promised. A transfer commits if its payer promises and its payee's
account is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload

if TYPE_CHECKING:
    from onceproof.harness.model.family import Declared, Records, Rows
    from onceproof.harness.model.scenario import InputRecord

RECORD_SCHEMA: Final = "number BIGINT, payer STRING, payee STRING, cents BIGINT"
ROW_SCHEMA: Final = "payer STRING, number BIGINT, payee STRING, outcome STRING, taken BIGINT, given BIGINT"
CLOSED: Final = "Zoe"
MOST_CENTS: Final = 150


def draw(random: Random, names: Sequence[str]) -> Workload:
    """Draw transfers in up to three splits; one payer of a split has most of them, some are ordered twice."""
    chance = Chance(random)
    splits = [f"transfers-{index}" for index in range(chance.integer(1, 3))]
    longest = chance.weighted([(4, 1), (16, 3), (32, 4)])
    pace_ms = chance.choice([2, 8, 24])
    accounts = (*names, CLOSED)
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for split in splits:
        now = 0
        drawn: list[InputRecord] = []
        busiest = chance.choice(names)
        for _ in range(chance.integer(0, longest)):
            now += chance.integer(0, pace_ms)
            if drawn and chance.chance(0.1):
                drawn.append((now, chance.choice(drawn)[1]))
                continue
            number += 1
            payer = busiest if chance.chance(0.7) else chance.choice(accounts)
            payee = chance.choice([name for name in accounts if name != payer])
            cents = chance.integer(1, MOST_CENTS)
            drawn.append((now, (number, payer, f"{chance.choice(splits)}/{payee}", cents)))
        records[split] = tuple(drawn)
    return Workload(records, {"splits": len(splits), "force_ms": chance.choice([2, 10, 40])})


def of_split(label: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a record whose payer is an account of its split."""
    number, payer, payee, cents = value
    return number, f"{label}/{payer}", payee, cents


def expected_outcomes(records: Records, declared: Declared, opening: Mapping[str, int]) -> Rows:
    """Return the outcome of each transfer; before the end, of those that have one."""
    rows: list[tuple[Any, ...]] = []
    for split, transfers in records.items():
        left = dict(opening)
        begun = set()
        for _, value in transfers:
            number, payer, payee, cents = _columns(value)
            if (number, payer) in begun:
                continue
            begun.add((number, payer))
            promises = cents <= left.get(payer, -1)
            if promises:
                left[payer] -= cents
            is_committed = promises and payee.rpartition("/")[2] in opening
            outcome = ("committed", cents, cents) if is_committed else ("aborted", 0, 0)
            rows.append((f"{split}/{payer}", number, payee, *outcome))
    return declared.so_far(rows)


def _columns(value: Any) -> tuple[int, str, str, int]:
    number, payer, payee, cents = value
    return number, payer, payee, cents


def outcomes_sql(opening: Mapping[str, int]) -> str:
    """Return the same rule in SQL."""
    return f"""
WITH accounts AS (
  SELECT name, opening FROM VALUES {", ".join(map(str, opening.items()))} AS opened(name, opening)
), begun AS (
  SELECT scenario_id, split, payer, number, min(offset) AS place,
         min_by(payee, offset) AS payee, min_by(cents, offset) AS cents
  FROM records GROUP BY scenario_id, split, payer, number
), days AS (
  SELECT scenario_id, split, payer,
         aggregate(
           array_sort(collect_list(struct(place, number, payee, cents))),
           named_struct(
             'left', CAST(coalesce(max(opening), -1) AS BIGINT),
             'votes',
             CAST(array() AS ARRAY<STRUCT<number: BIGINT, payee: STRING, cents: BIGINT, yes: BOOLEAN>>)
           ),
           (day, each) -> named_struct(
             'left', day.left - if(each.cents <= day.left, each.cents, 0L),
             'votes', array_append(day.votes, named_struct(
               'number', each.number, 'payee', each.payee, 'cents', each.cents, 'yes', each.cents <= day.left
             ))
           )
         ).votes AS votes
  FROM begun LEFT JOIN accounts ON payer = name
  GROUP BY scenario_id, split, payer
), moves AS (
  SELECT scenario_id, concat(split, '/', payer) AS payer, vote.number, vote.payee, vote.cents,
         vote.yes AND name IS NOT NULL AS is_committed
  FROM (SELECT *, explode(votes) AS vote FROM days)
  LEFT JOIN accounts ON substring_index(vote.payee, '/', -1) = name
)
SELECT scenario_id, payer, number, payee, if(is_committed, 'committed', 'aborted') AS outcome,
       if(is_committed, cents, 0L) AS taken, if(is_committed, cents, 0L) AS given
FROM moves
"""
