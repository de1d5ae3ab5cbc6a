"""Totals of two seconds that are given early, each half second of event time, and whole at the end.

A continuous trigger fires a window before its end. Each firing is numbered in the state of the window, which
the function clears with the window. When a window fires early depends on when watermarks come, so each row
says how many records it holds. The oracles check that the firings of a window are numbered from one without a
gap, that each total is that of the window's first records, and that the last firing holds all of them.

In half of the scenarios a trigger of the job's own purges the window whenever it fires, so a total is that of
the records since the firing before. It goes on from timer to timer, over an empty window as well, and fires
at no other time: a timer that does not reach it leaves the records behind it in no total. The form is a
column of the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.triggers import ContinuousEventTimeTrigger, Trigger, TriggerResult, TriggerScope
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
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
    from collections.abc import Iterator, Mapping

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.windows.windows import TimeWindow
    from onceproof.harness.model.scenario import Parameter

Sale: TypeAlias = tuple[str, str, int, str]
"""Split, shop, amount, form."""

name = "early_totals"
generator_version = 2
tasks: dict[str, Role] = {"sales": "source", "totals": "keyed", "table": "sink"}
record_schema = "shop STRING, amount BIGINT, form STRING"
row_schema = "split STRING, shop STRING, start BIGINT, firing BIGINT, sales BIGINT, total BIGINT"
SIZE_MS: Final = 2000
EARLY_MS: Final = 500
MOST_FIRINGS: Final = SIZE_MS // EARLY_MS + 1
FORM: Final = "form"
RUNNING: Final = "running"
PURGED: Final = "purged"
SHOPS: Final = ("corner", "market", "station")
oracle_sql = f"""
WITH placed AS (
  SELECT scenario_id, split, shop, timestamp - pmod(timestamp, {SIZE_MS}) AS start, amount, form, offset
  FROM records
), counted AS (
  SELECT scenario_id, split, shop, start, form,
    row_number() OVER (PARTITION BY scenario_id, split, shop, start ORDER BY offset) AS sales,
    sum(amount) OVER (
      PARTITION BY scenario_id, split, shop, start ORDER BY offset ROWS UNBOUNDED PRECEDING
    ) AS total
  FROM placed
), windows AS (
  SELECT scenario_id, split, shop, start, form, max(sales) AS size, max_by(total, sales) AS whole
  FROM counted GROUP BY ALL
), said AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, shop, start ORDER BY firing) AS nth,
    lag(sales) OVER (PARTITION BY scenario_id, split, shop, start ORDER BY firing) AS before,
    sum(sales) OVER (
      PARTITION BY scenario_id, split, shop, start ORDER BY firing ROWS UNBOUNDED PRECEDING
    ) AS so_far
  FROM declared
), reaching AS (
  SELECT said.*, if(form = '{PURGED}', so_far - sales, 0L) AS behind,
    if(form = '{PURGED}', so_far, sales) AS last,
    if(form = '{PURGED}', so_far - sales + 1, coalesce(before, 1L)) AS least
  FROM said JOIN windows USING (scenario_id, split, shop, start)
), checked AS (
  SELECT reaching.scenario_id, reaching.split, reaching.shop, reaching.start,
    bool_and(coalesce(
      firing = nth AND last >= least AND reaching.total = upto.total - coalesce(passed.total, 0L), false
    )) AS are_fit,
    count(*) AS firings, max(last) AS last
  FROM reaching LEFT JOIN counted AS upto
  ON reaching.scenario_id = upto.scenario_id AND reaching.split = upto.split AND reaching.shop = upto.shop
    AND reaching.start = upto.start AND reaching.last = upto.sales
  LEFT JOIN counted AS passed
  ON reaching.scenario_id = passed.scenario_id AND reaching.split = passed.split
    AND reaching.shop = passed.shop AND reaching.start = passed.start AND reaching.behind = passed.sales
  GROUP BY reaching.scenario_id, reaching.split, reaching.shop, reaching.start
), judged AS (
  SELECT windows.*, coalesce(are_fit AND firings <= {MOST_FIRINGS} AND last = size, false) AS can_be
  FROM windows LEFT JOIN checked USING (scenario_id, split, shop, start)
)
SELECT declared.scenario_id, declared.split, declared.shop, declared.start, firing, sales, total
FROM declared LEFT SEMI JOIN (SELECT * FROM judged WHERE can_be) AS possible
ON declared.scenario_id = possible.scenario_id AND declared.split = possible.split
  AND declared.shop = possible.shop AND declared.start = possible.start
UNION ALL
SELECT scenario_id, split, shop, start, 1, size, whole FROM judged WHERE NOT can_be
"""


def generate(random: Random) -> Workload:
    """Draw sales in the order of their times, some of them at the very end of a window."""
    form = random.choice((RUNNING, PURGED))

    def sale(chance: Chance, shop: str, now: int) -> tuple[str, int, str]:
        return shop, chance.integer(1, 99), form

    drawn = draw_keyed(random, SHOPS, sale, EARLY_MS)
    chance = Chance(random)
    records = {}
    for split, own in drawn.records.items():
        newest = 0
        moved = []
        for timestamp, value in own:
            newest = max(newest, chance.at_boundary(timestamp, SIZE_MS))
            moved.append((newest, value))
        records[split] = tuple(moved)
    return Workload(records, {**drawn.parameters, FORM: form})


class FromTimerToTimer(Trigger):
    """Fires and purges at each half second behind the first record, and at the end of the window."""

    def __init__(self) -> None:
        self._due = ValueStateDescriptor("due", Types.LONG())

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerScope
    ) -> TriggerResult:
        if ctx.get_partitioned_state(self._due).value() is None:
            self._register(timestamp - timestamp % EARLY_MS + EARLY_MS, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        if ctx.get_partitioned_state(self._due).value() != time:
            return TriggerResult.CONTINUE
        if time < window.max_timestamp():
            self._register(time + EARLY_MS, window, ctx)
        return TriggerResult.FIRE_AND_PURGE

    def _register(self, due: int, window: TimeWindow, ctx: TriggerScope) -> None:
        """Register the next timer, at the end of the window at the latest."""
        due = min(due, window.max_timestamp())
        ctx.get_partitioned_state(self._due).update(due)
        ctx.register_event_time_timer(due)

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Any) -> None:
        """Do nothing: tumbling windows do not merge."""

    def clear(self, window: TimeWindow, ctx: TriggerScope) -> None:
        due = ctx.get_partitioned_state(self._due)
        if due.value() is not None:
            ctx.delete_event_time_timer(due.value())
        due.clear()


class NumberedTotal(ProcessWindowFunction):
    """Emits the total of what the window holds, with the number of the firing."""

    def __init__(self) -> None:
        self._firings = ValueStateDescriptor("firings", Types.LONG())

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Sale]
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        firings = context.window_state().get_state(self._firings)
        firing = (firings.value() or 0) + 1
        firings.update(firing)
        amounts = [amount for *_, amount, _ in elements]
        yield *key, context.window().start, firing, len(amounts), sum(amounts)

    def clear(self, context: WindowContext) -> None:
        context.window_state().get_state(self._firings).clear()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build sales -> totals -> table."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    sales = env.from_source(LabelledSource(io.source("sales")), in_order, "sales").uid("sales")
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 4)])
    purges = io.parameters.get(FORM) == PURGED
    early = ContinuousEventTimeTrigger.of(Time.milliseconds(EARLY_MS))
    totals = (
        sales.set_parallelism(io.source_parallelism)
        .key_by(label_and_key, LABELLED_KEY)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .trigger(FromTimerToTimer() if purges else early)
        .process(NumberedTotal(), row)
    )
    into_table(named(totals, "totals", io), io)


def quix_app(records: Any, io: Any) -> Any:
    """Add up tumbling windows of the split, which is the key of a message; each fires once, when it is over.

    A window holds the sales and the total of each shop: a key can be changed by a topic only.
    """
    windows = io.until_end().tumbling_window(SIZE_MS).reduce(_with_sale, _first_sale)
    return windows.final(closing_strategy="partition").apply(_totals_of_shops, expand=True, metadata=True)


def _first_sale(record: Any) -> dict[str, tuple[int, int]]:
    return {} if record["is_end"] else _with_sale({}, record)


def _with_sale(totals: dict[str, Any], record: Any) -> dict[str, tuple[int, int]]:
    """Return the number of sales and the total of each shop, with one sale more."""
    shop, amount, _ = record["value"]
    sales, total = totals.get(shop, (0, 0))
    return {**totals, shop: (sales + 1, total + amount)}


def _totals_of_shops(window: Any, split: Any, timestamp: int, headers: Any) -> list[tuple[Any, ...]]:
    return [
        (split, shop, window["start"], 1, sales, total) for shop, (sales, total) in window["value"].items()
    ]


def expected(records: Records, declared: Declared) -> Rows:
    """Return the firings that the run declares for a window, if they are possible."""
    said: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in declared.rows:
        said[row[:3]].append(row)
    windows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    forms = set()
    for split, own in records.items():
        for timestamp, value in own:
            assert isinstance(value, tuple)
            windows[split, value[0], timestamp - timestamp % SIZE_MS].append(int(value[1] or 0))
            forms.add(value[2])
    rows: list[Any] = []
    for window, amounts in windows.items():
        if _are_possible(said[window], amounts, PURGED in forms, declared.is_whole):
            rows += said[window]
        else:
            rows.append((*window, 1, len(amounts), sum(amounts)))
    return rows


def _are_possible(said: list[Any], amounts: list[int], purges: bool, is_whole: bool) -> bool:
    """Return whether a window with these amounts in order may have fired so."""
    if any(None in row for row in said) or len(said) > MOST_FIRINGS:
        return False
    before = 0
    for number, (*_, firing, sales, total) in enumerate(sorted(said), start=1):
        behind = before if purges else 0
        last = behind + sales
        least = before + 1 if purges else max(before, 1)
        if firing != number or not least <= last <= len(amounts) or total != sum(amounts[behind:last]):
            return False
        before = last
    return not is_whole or (bool(said) and before == len(amounts))


def arrival_states(parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """Return the states that depend on which records came before a window was purged."""
    return ("window-contents", "firings") if parameters.get(FORM) == PURGED else ()


options = FamilyOptions(declares=True, arrival_states=arrival_states, jobs={"quix": quix_app})
