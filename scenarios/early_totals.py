"""Totals of two seconds that are given early, each half second of event time, and whole at the end.

A continuous trigger fires a window before its end. Each firing is numbered in the state of the window, which
the function clears with the window. When a window fires early depends on when watermarks come, so each row
says how many records it holds. The oracles check that the firings of a window are numbered from one without a
gap, that each total is that of the window's first records, and that the last firing holds all of them.
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
from onceproof.engine.windows.triggers import ContinuousEventTimeTrigger
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LABELLED_KEY, draw_keyed, into_table, label_and_key, named
from onceproof.scenarios._labelled import LabelledSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Sale: TypeAlias = tuple[str, str, int]
"""Split, shop, amount."""

name = "early_totals"
generator_version = 1
tasks: dict[str, Role] = {"sales": "source", "totals": "keyed", "table": "sink"}
record_schema = "shop STRING, amount BIGINT"
row_schema = "split STRING, shop STRING, start BIGINT, firing BIGINT, sales BIGINT, total BIGINT"
SIZE_MS: Final = 2000
EARLY_MS: Final = 500
MOST_FIRINGS: Final = SIZE_MS // EARLY_MS + 1
SHOPS: Final = ("corner", "market", "station")
oracle_sql = f"""
WITH placed AS (
  SELECT scenario_id, split, shop, timestamp - pmod(timestamp, {SIZE_MS}) AS start, amount, offset
  FROM records
), counted AS (
  SELECT scenario_id, split, shop, start,
    row_number() OVER (PARTITION BY scenario_id, split, shop, start ORDER BY offset) AS sales,
    sum(amount) OVER (
      PARTITION BY scenario_id, split, shop, start ORDER BY offset ROWS UNBOUNDED PRECEDING
    ) AS total
  FROM placed
), windows AS (
  SELECT scenario_id, split, shop, start, max(sales) AS size, max_by(total, sales) AS whole
  FROM counted GROUP BY ALL
), said AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, shop, start ORDER BY firing) AS nth,
    lag(sales) OVER (PARTITION BY scenario_id, split, shop, start ORDER BY firing) AS before
  FROM declared
), checked AS (
  SELECT said.scenario_id, said.split, said.shop, said.start,
    bool_and(coalesce(
      firing = nth AND said.sales >= coalesce(before, 1) AND said.total = counted.total, false
    )) AS are_fit,
    count(*) AS firings, max(said.sales) AS last
  FROM said LEFT JOIN counted
  ON said.scenario_id = counted.scenario_id AND said.split = counted.split AND said.shop = counted.shop
    AND said.start = counted.start AND said.sales = counted.sales
  GROUP BY said.scenario_id, said.split, said.shop, said.start
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
    drawn = draw_keyed(random, SHOPS, _sale, EARLY_MS)
    chance = Chance(random)
    records = {}
    for split, own in drawn.records.items():
        newest = 0
        moved = []
        for timestamp, value in own:
            newest = max(newest, chance.at_boundary(timestamp, SIZE_MS))
            moved.append((newest, value))
        records[split] = tuple(moved)
    return Workload(records, drawn.parameters)


def _sale(chance: Chance, shop: str, now: int) -> tuple[str, int]:
    return shop, chance.integer(1, 99)


class NumberedTotal(ProcessWindowFunction):
    """Emits the total so far, with the number of the firing."""

    def __init__(self) -> None:
        self._firings = ValueStateDescriptor("firings", Types.LONG())

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Sale]
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        firings = context.window_state().get_state(self._firings)
        firing = (firings.value() or 0) + 1
        firings.update(firing)
        amounts = [amount for *_, amount in elements]
        yield *key, context.window().start, firing, len(amounts), sum(amounts)

    def clear(self, context: WindowContext) -> None:
        context.window_state().get_state(self._firings).clear()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build sales -> totals -> table."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    sales = env.from_source(LabelledSource(io.source("sales")), in_order, "sales").uid("sales")
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 4)])
    totals = (
        sales.set_parallelism(io.source_parallelism)
        .key_by(label_and_key, LABELLED_KEY)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(EARLY_MS)))
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
    shop, amount = record["value"]
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
    for split, own in records.items():
        for timestamp, value in own:
            assert isinstance(value, tuple)
            windows[split, value[0], timestamp - timestamp % SIZE_MS].append(int(value[1] or 0))
    rows: list[Any] = []
    for window, amounts in windows.items():
        if _are_possible(said[window], amounts, declared.is_whole):
            rows += said[window]
        else:
            rows.append((*window, 1, len(amounts), sum(amounts)))
    return rows


def _are_possible(said: list[Any], amounts: list[int], is_whole: bool) -> bool:
    """Return whether a window with these amounts in order may have fired so."""
    if any(None in row for row in said) or len(said) > MOST_FIRINGS:
        return False
    before = 1
    for number, (*_, firing, sales, total) in enumerate(sorted(said), start=1):
        if firing != number or not before <= sales <= len(amounts) or total != sum(amounts[:sales]):
            return False
        before = sales
    return not is_whole or (bool(said) and before == len(amounts))


options = FamilyOptions(declares=True, quix_app=quix_app)
