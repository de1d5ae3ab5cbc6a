"""Both oracles of flight_delays: the rows that a run may give for the days of its flights.

Which flights are late depends on the watermarks of the run. So a day's row lists its flights and a late
flight gives a row of its own. The oracles accept the lists that are possible and compute the delays from
them. A restored job begins without a watermark and may emit a second row of a day, for flights that came too
late for the first one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.model.family import Declared, Records, Rows
from onceproof.scenarios import _lateness as lateness
from onceproof.scenarios._streams import part_of
from onceproof.scenarios.flights import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_MS: Final = 24 * 60 * MINUTE_MS
BOUND_MS: Final = 120 * MINUTE_MS
"""How many milliseconds late a flight may leave without being late for its day."""

DAY = "day"
FLIGHTS, AIRLINES = "flights", "airlines"

ORIGIN_SQL = "substring(split, length('flights-') + 1)"
DAY_END_SQL = f"(timestamp - timestamp % {DAY_MS} + {DAY_MS})"
oracle_sql = f"""
WITH {lateness.arrivals_sql(f"concat({ORIGIN_SQL}, ' ', carrier)", "string(number)", DAY_END_SQL, BOUND_MS)},
  airlines AS (
    SELECT scenario_id, carrier, airline FROM records WHERE startswith(split, 'airlines-')
  ),
  members AS (
    SELECT scenario_id, concat({ORIGIN_SQL}, ' ', airlines.airline) AS key,
      {DAY_END_SQL} - {DAY_MS} AS at, number, coalesce(delay, 0) AS delay, may_be_late
    FROM arrivals JOIN airlines USING (scenario_id, carrier)
    WHERE startswith(split, 'flights-') AND NOT is_late
  ),
  days AS (
    SELECT scenario_id, key, at, sort_array(collect_list(number)) AS numbers,
      collect_list(number) FILTER (WHERE NOT may_be_late) AS certain
    FROM members GROUP BY ALL
  ),
  said AS (
    SELECT scenario_id, key, at, collect_list(numbers) AS lists,
      sort_array(flatten(collect_list(numbers))) AS numbers
    FROM (
      SELECT *, transform(split(value, ','), each -> try_cast(each AS BIGINT)) AS numbers
      FROM declared WHERE kind = 'day'
    )
    GROUP BY ALL
  ),
  judged AS (
    SELECT days.*, lists, coalesce(
      days.numbers = said.numbers AND exists(lists, each -> size(array_except(certain, each)) = 0), false
    ) AS can_be
    FROM days LEFT JOIN said
    ON days.scenario_id = said.scenario_id AND days.key = said.key AND days.at = said.at
  ),
  rows AS (
    SELECT scenario_id, key, at, explode(if(can_be, lists, array(numbers))) AS flights FROM judged
  )
SELECT scenario_id, '{lateness.LATE}' AS kind, key, timestamp AS at, value, 0L AS delay, 0L AS worst
FROM arrivals WHERE is_late
UNION ALL
SELECT scenario_id, 'day', key, at, concat_ws(',', transform(sort_array(flights), each -> string(each))),
  sum(delay), max(greatest(delay, 0))
FROM rows JOIN members USING (scenario_id, key, at)
WHERE array_contains(flights, number)
GROUP BY scenario_id, key, at, flights
"""


def late_row(origin: str, timestamp: int, value: tuple[Any, ...]) -> tuple[str, str, int, str, int, int]:
    return lateness.LATE, f"{origin} {value[0]}", timestamp, str(value[1]), 0, 0


def _day_end_of(timestamp: int) -> int:
    return timestamp - timestamp % DAY_MS + DAY_MS


def expected(records: Records, declared: Declared) -> Rows:
    """Add up the delays of each airport, airline and day, by the declared lists where possible."""
    airlines: Any = [value for own in part_of(records, AIRLINES).values() for _, value in own]
    names = {carrier: airline for carrier, _, _, airline in airlines}
    said: dict[tuple[Any, Any], list[Any]] = defaultdict(list)
    for kind, key, at, listed, *_ in declared.rows:
        if kind == DAY:
            said[key, at].append(listed)
    rows: list[tuple[Any, ...]] = []
    for split, own in part_of(records, FLIGHTS).items():
        origin = split.removeprefix(f"{FLIGHTS}-")
        kept, late = lateness.in_time(
            {split: own}, declared, _day_end_of, partial(late_row, origin), BOUND_MS
        )
        rows += late
        days: dict[tuple[str, int], list[lateness.Arrival]] = defaultdict(list)
        for flight in kept:
            if flight.value[0] in names:
                days[f"{origin} {names[flight.value[0]]}", _day_end_of(flight.timestamp)].append(flight)
        for (key, day_end), flights in days.items():
            at = day_end - DAY_MS
            for listed in _lists(flights, day_end, said[key, at], declared.is_whole):
                rows.append((DAY, key, at, *_delays(listed, flights)))
    return rows


def _lists(
    flights: Sequence[lateness.Arrival], day_end: int, said: Sequence[Any], is_whole: bool
) -> list[list[str]]:
    """Return the flights of each row of a day by number: as the run declares them if that is possible."""
    numbers = Counter(str(flight.value[1]) for flight in flights)
    certain = Counter(str(flight.value[1]) for flight in flights if not flight.may_miss(day_end))
    lists = [str(listed).split(",") for listed in said]
    stated = Counter(number for listed in lists for number in listed)
    # Flights that cannot have missed the day are in its first row, all of them together.
    first_is_there = any(certain <= Counter(listed) for listed in lists)
    if first_is_there and (stated == numbers if is_whole else stated <= numbers):
        return lists
    return [] if not (is_whole or said) else [list(numbers.elements())]


def _delays(listed: Sequence[str], flights: Sequence[lateness.Arrival]) -> tuple[str, int, int]:
    """Return the columns of a row, computed from the flights that it lists."""
    delay_of = {str(flight.value[1]): flight.value[2] or 0 for flight in flights}
    delays = [delay_of[number] for number in listed]
    return ",".join(sorted(listed, key=int)), sum(delays), max(0, *delays)
