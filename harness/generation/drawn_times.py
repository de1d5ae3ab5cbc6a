"""The time of a scenario: what the wall clock shows at its start, and how long nothing comes in between.

The rules this module lives by:

- The start is a date, and is drawn beside the event times of the records: equal to them, an hour behind, a
  year behind (last year's data), or any date. A job that takes one kind of time for the other shows there.
- Time passes between two records often enough that timers and times to live end in a fair share of the
  scenarios, by up to a minute, an hour or a day: each hides what is shorter. Days are few: a timer that comes
  again every millisecond fires for each of them.
- Where a family says how long its state and its timers wait for the clock, many of these times are just as
  long, or one millisecond shorter or longer.
- Where a family says how long its job may rest, time passes in a share of the scenarios when the job has
  first been restored, and never else.
- All are drawn by chances of their own, which follow from the seed: everything else is as it is without
  them. Built-in families are left as they are: recorded kills and golden hashes pin what their seeds mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import BEHIND_RESTORE, Fault, InputRecord, Scenario

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
YEAR_MS: Final = 365 * DAY_MS
LONGEST_MS: Final = DAY_MS + HOUR_MS
"""For how long nothing comes at most: a day, and what a state may have waited before."""
DATES_MS: Final = (1_577_836_800_000, 2_051_222_400_000)
"""The years from 2020 to 2034."""
LONG_AGO_MS: Final = 946_684_800_000
"""The year 2000: event times before it count from 0, and are no dates."""
PASSING_TIME: Final = 0.3
"""The share of the scenarios in which time passes."""
RESTING: Final = 0.25
"""The share of those in which the job rests behind a restore, if its family says for how long."""
MOST_TIMES: Final = 2
_JUST_AS_LONG: Final = 0.6
"""How many of the times that pass are those for which a job's state or timers wait."""
_LENGTHS: Final = (
    ((1_000, 60_000), 4),
    ((60_001, HOUR_MS), 4),
    ((HOUR_MS + 1, LONGEST_MS), 1),
)


def with_times(scenario: Scenario, seed: int, waits_ms: Sequence[int] = (), rests_ms: int = 0) -> Scenario:
    """Return a drawn scenario with the date at which it starts, and the time that passes in it.

    Args:
        seed: the one from which the scenario was drawn.
        waits_ms: how long the job's state and timers wait.
        rests_ms: how long it may rest when it has been restored.
    """
    start = draw_start(_chance("start of the clock", seed), scenario.records)
    passing = draw_passing_time(_chance("passing time", seed), scenario.record_count(), waits_ms)
    rest = _chance("rest behind a restore", seed)
    if rests_ms and rest.chance(RESTING):
        others = [each for each in scenario.faults if not FAULTS[each.kind].turns_clock]
        passes = replace(BEHIND_RESTORE, delay=rests_ms + rest.integer(0, 1))
        return replace(scenario, started_ms=start, faults=(*others, passes))
    return replace(scenario, started_ms=start, faults=(*scenario.faults, *passing))


def draw_start(chance: Chance, records: Mapping[str, Sequence[InputRecord]]) -> int:
    """Draw what the wall clock shows when a job starts for the first time, in milliseconds."""
    date = chance.integer(*DATES_MS)
    first = min((record[0] for split in records.values() for record in split), default=0)
    behind = chance.choice((0, HOUR_MS, YEAR_MS))
    follows = chance.chance(0.85 if first >= LONG_AGO_MS else 0.3)
    return first + behind if follows and 0 <= first <= DATES_MS[1] else date


def draw_passing_time(chance: Chance, records: int, waits_ms: Sequence[int] = ()) -> tuple[Fault, ...]:
    """Draw, for a share of the scenarios, between which records time passes, and how much."""
    if not chance.chance(PASSING_TIME):
        return ()
    # A record passes about two operators.
    return tuple(
        [
            Fault(
                "clock_ahead",
                "element",
                occurrence=chance.integer(1, 1 + 2 * records),
                delay=_draw_length(chance, waits_ms),
            )
            for _ in range(chance.integer(1, MOST_TIMES))
        ]
    )


def _draw_length(chance: Chance, waits_ms: Sequence[int]) -> int:
    if waits_ms and chance.chance(_JUST_AS_LONG):
        return max(1, chance.choice(waits_ms) + chance.integer(-1, 1))
    return chance.integer(*chance.weighted(_LENGTHS))


def _chance(what: str, seed: int) -> Chance:
    return Chance(Random(derived_seed(what, seed)))
