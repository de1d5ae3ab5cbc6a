"""Bursts: records of a key that follow each other on the clock, closed by a timer of processing time.

Each record moves the timer of its key: the old one is deleted, a new one registered. When the timer fires,
the records since the last row are a burst. At the end of the input timers of processing time are dropped, as
in Flink, so a timer of event time closes the last burst.

When a record is processed decides in which burst it is, so each row gives its first and last record, the time
at which the last one was processed, and the time of the timer, or -1 at the end. The oracles take that as
declared: the bursts of a key have each record once, in a row, and a timer fires for the time that it was
registered for.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Burst: TypeAlias = tuple[str, str, int, int, int, int, int]
"""Split, key, first place, last place, total, when the last record was processed, time of the timer."""

name = "bursts"
generator_version = 2
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"events": "source", "bursts -> untimed": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = (
    "split STRING, key STRING, first BIGINT, last BIGINT, total BIGINT, latest_ms BIGINT, timer_ms BIGINT"
)
SILENCE_MS: Final = 30
AT_END: Final = -1
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place FROM records
), due AS (
  SELECT scenario_id, split, key, count(*) AS due, sum(number) AS sum FROM placed GROUP BY ALL
), bursts AS (
  SELECT *, lag(last, 1, 0L) OVER (PARTITION BY scenario_id, split, key ORDER BY first, last) AS before
  FROM declared
), totals AS (
  SELECT scenario_id, split, key, first, last, sum(number) AS right_total
  FROM (SELECT DISTINCT scenario_id, split, key, first, last FROM declared)
  JOIN placed USING (scenario_id, split, key) WHERE place BETWEEN first AND last GROUP BY ALL
), judged AS (
  SELECT bursts.scenario_id, bursts.split, bursts.key, max(bursts.last) AS given, bool_and(coalesce(
    bursts.first = before + 1 AND bursts.last >= bursts.first AND total = right_total
      AND latest_ms IS NOT NULL AND timer_ms IN (latest_ms + {SILENCE_MS}, {AT_END}), false
  )) AS is_fit
  FROM bursts LEFT JOIN totals
  ON bursts.scenario_id = totals.scenario_id AND bursts.split = totals.split AND bursts.key = totals.key
    AND bursts.first = totals.first AND bursts.last = totals.last
  GROUP BY ALL
), keys AS (
  SELECT due.*, coalesce(is_fit AND given = due, false) AS can_be
  FROM due LEFT JOIN judged USING (scenario_id, split, key)
)
SELECT scenario_id, split, key, first, last, total, latest_ms, timer_ms
FROM declared JOIN keys USING (scenario_id, split, key) WHERE can_be
UNION ALL
SELECT scenario_id, split, key, 1, due, sum, 0, {AT_END} FROM keys WHERE NOT can_be
"""

KEYS: Final = ("drum", "gong", "horn", "pipe")


def generate(random: Random) -> Workload:
    """Draw numbers of a few keys; the schedule decides how far apart they are processed."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-5, 50)


class Collect(KeyedProcessFunction):
    """Collects the numbers of a key until it is silent."""

    def open(self, runtime_context: RuntimeContext) -> None:
        number = Types.LONG()
        self._last = runtime_context.get_state(ValueStateDescriptor("last", number))
        self._latest = runtime_context.get_state(ValueStateDescriptor("latest", number))
        self._numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", number))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[Burst]:
        """Add the number, and move the timer."""
        timers = ctx.timer_service()
        latest = self._latest.value()
        if latest is not None:
            timers.delete_processing_time_timer(latest + SILENCE_MS)
        now = timers.current_processing_time()
        timers.register_processing_time_timer(now + SILENCE_MS)
        timers.register_event_time_timer(MAX_WATERMARK)
        self._latest.update(now)
        self._last.update((self._last.value() or 0) + 1)
        self._numbers.add(value[2])
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Burst]:
        """Emit the burst, if the end of the input does not come behind a burst that was closed."""
        numbers = list(self._numbers.get())
        if numbers:
            is_end = ctx.time_domain() is TimeDomain.EVENT_TIME
            last, latest = self._last.value(), self._latest.value()
            timer = AT_END if is_end else timestamp
            yield *ctx.get_current_key(), last - len(numbers) + 1, last, sum(numbers), latest, timer
        self._numbers.clear()
        self._latest.clear()


class Untimed(ProcessFunction):
    """Passes a burst on, with another key where a timer in processing time has given it an event time."""

    def process_element(self, value: Burst, ctx: ProcessFunction.Context) -> Iterator[Burst]:
        is_right = ctx.timestamp() == MIN_WATERMARK or value[-1] == AT_END
        yield value if is_right else (value[0], "with an event time", *value[2:])


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bursts, untimed -> table."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, *([number] * 5)])
    bursts = named(keyed_records(env, io, "events").process(Collect(), row), "bursts", io)
    into_table(named(bursts.process(Untimed(), row), "untimed", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the bursts that the run declares for a key, if they are possible."""
    stated: dict[tuple[str, str], list[Any]] = {}
    for row in declared.rows:
        stated.setdefault((row[0], row[1]), []).append(row)
    rows: list[Any] = []
    for split, values in records.items():
        of_key: dict[str, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            of_key.setdefault(str(value[0]), []).append(int(value[1] or 0))
        for key, numbers in of_key.items():
            said = stated.get((split, key), [])
            if _are_possible(said, numbers, declared.is_whole):
                rows += said
            else:
                rows.append((split, key, 1, len(numbers), sum(numbers), 0, AT_END))
    return rows


def _are_possible(bursts: list[Any], numbers: list[int], is_whole: bool) -> bool:
    """Return whether bursts follow each other from the first number on, to the last one in a whole run."""
    if any(None in burst for burst in bursts):
        return False
    before = 0
    for _, _, first, last, total, latest_ms, timer_ms in sorted(bursts):
        is_next = first == before + 1 and first <= last <= len(numbers)
        if not is_next or timer_ms not in (latest_ms + SILENCE_MS, AT_END):
            return False
        if total != sum(numbers[first - 1 : last]):
            return False
        before = last
    return before == len(numbers) or not is_whole
