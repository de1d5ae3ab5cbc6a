"""The records of a scenario of a script: those of its sources, varied.

Rules:

- The records of a source are drawn in their order: all, a part, some of them twice, or neighbours exchanged.
- A job must outlast several checkpoints, so a few records come several times, one behind the other: event
  time does not go back.
- In some scenarios values are extreme, and times at the boundaries of windows (`special_records.py`).
- A source that runs for real has all of its records in their order.
- Several splits, and records far out of their order, only where runs without faults agree nevertheless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Records
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import source_of, split_name
from onceproof.harness.scripts.records import Pool
from onceproof.harness.scripts.special_records import Specials, with_specials

MOST_RECORDS: Final = 40
"""The most records of a source in a scenario."""
ENOUGH_RECORDS: Final = 24
"""How many a scenario has, in most cases."""


def draw_records(random: Random, pools: Mapping[str, Pool], several_splits: bool, reorders: bool) -> Records:
    """Draw the splits of all sources."""
    chance = Chance(random)
    splits: dict[str, Sequence[InputRecord]] = {}
    for name, pool in pools.items():
        if pool.own_splits:
            splits |= _own_records(name, pool)
            continue
        drawn = _drawn(chance, _timed(pool), reorders)
        count = chance.weighted(((1, 5), (2, 3), (3, 1))) if several_splits and pool.has_splits else 1
        for number in range(count):
            splits[split_name(name, number)] = tuple(drawn[number::count])
    return splits


def draw_special_records(
    random: Random, records: Records, specials: Mapping[str, Specials | None]
) -> Records:
    """Return drawn records, each source in one split, with extreme values and times at boundaries."""
    chance = Chance(random)
    joined: dict[str, list[InputRecord]] = {}
    changed: dict[str, Sequence[InputRecord]] = {}
    for split, own in records.items():
        if specials[source_of(split)] is None:
            changed[split] = own
        else:
            joined.setdefault(source_of(split), []).extend(own)
    for name, joined_records in joined.items():
        special = specials[name]
        assert special is not None, "others are as they were"
        changed[split_name(name, 0)] = tuple(with_specials(chance, joined_records, special))
    return changed


def first_records(pools: Mapping[str, Pool], splits: int = 1, *, repeats: bool = False) -> Records:
    """Return the first records of all sources, each source in a number of splits.

    Args:
        repeats: whether few records come several times, as in most scenarios.
    """
    found: dict[str, Sequence[InputRecord]] = {}
    for name, pool in pools.items():
        if pool.own_splits:
            found |= _own_records(name, pool)
            continue
        count = splits if pool.has_splits else 1
        for number in range(count):
            records = _timed(pool)[:MOST_RECORDS]
            found[split_name(name, number)] = tuple((_enough(records) if repeats else records)[number::count])
    return found


def _own_records(name: str, pool: Pool) -> dict[str, Sequence[InputRecord]]:
    """Return all records of a source that runs for real, which reads what it likes."""
    records = _timed(pool)
    found: dict[str, Sequence[InputRecord]] = {}
    for number, count in enumerate(pool.own_splits.values()):
        found[split_name(name, number)] = tuple(records[:count])
        records = records[count:]
    return found


def _timed(pool: Pool) -> list[InputRecord]:
    """Return the records as a scenario has them; one without a timestamp gets its number."""
    return [
        (number if timestamp is None else timestamp, value)
        for number, (value, (_, timestamp)) in enumerate(zip(pool.held, pool.records, strict=True))
    ]


def _enough(records: list[InputRecord]) -> list[InputRecord]:
    times = -(-ENOUGH_RECORDS // max(1, len(records)))
    return [each for each in records for _ in range(times)]


def _drawn(chance: Chance, records: list[InputRecord], reorders: bool) -> list[InputRecord]:
    if not records:
        return []
    length = min(len(records), MOST_RECORDS)
    begin = chance.integer(0, len(records) - length)
    drawn = records[begin : begin + length]
    match chance.weighted((("all", 5), ("part", 3), ("twice", 2), ("one", 1))):
        case "part":
            drawn = chance.sample(drawn, chance.integer(0, length))
        case "twice":
            drawn = [each for each in drawn for _ in range(chance.weighted(((1, 3), (2, 1))))]
        case "one":
            # All have one key, and a sum gets large.
            drawn = [chance.choice(drawn)]
    if drawn and chance.chance(0.8):
        drawn = _enough(drawn)
    if reorders and chance.chance(0.3):
        for place in range(len(drawn) - 1):
            if chance.chance(0.3):
                drawn[place], drawn[place + 1] = drawn[place + 1], drawn[place]
    return drawn[:MOST_RECORDS]
