"""What all shops of a site sell in each two seconds: windows over a stream that is not keyed.

One subtask has the windows of all records (``window_all``). Each split is in order, and event time waits for
the slowest of them, so no sale is late and each window follows from the input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessAllWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Sale: TypeAlias = tuple[str, int]
"""Shop, amount."""

name = "site_totals"
generator_version = 1
options = FamilyOptions(
    declares=True,
    # The sales of a window are kept in the order in which the splits bring them.
    arrival_states=("window-contents",),
)
tasks: dict[str, Role] = {"sales": "source", "totals": "keyed", "table": "sink"}
record_schema = "shop STRING, amount BIGINT"
row_schema = "start BIGINT, sales BIGINT, shops BIGINT, total BIGINT"
SIZE_MS: Final = 2000
SHOPS: Final = ("books", "cheese", "shoes")
oracle_sql = f"""
SELECT scenario_id, timestamp - pmod(timestamp, {SIZE_MS}) AS start, count(*) AS sales,
  count(DISTINCT shop) AS shops, sum(amount) AS total
FROM records GROUP BY scenario_id, timestamp - pmod(timestamp, {SIZE_MS})
"""


def generate(random: Random) -> Workload:
    """Draw sales of some shops, in order within each split."""
    return draw_keyed(random, SHOPS, _sale, SIZE_MS // 4)


def _sale(chance: Chance, shop: str, now: int) -> Sale:
    return shop, chance.integer(1, 99)


class SiteTotal(ProcessAllWindowFunction):
    """Emits the total of a window."""

    def process(
        self, context: WindowContext, elements: Iterable[Sale]
    ) -> Iterator[tuple[int, int, int, int]]:
        sales = list(elements)
        shops = len({shop for shop, _ in sales})
        yield context.window().start, len(sales), shops, sum(amount for _, amount in sales)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build sales -> totals -> table."""
    number = Types.LONG()
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    sales = env.from_source(io.source("sales"), in_order, "sales", Types.TUPLE([Types.STRING(), number])).uid(
        "sales"
    )
    totals = (
        sales.set_parallelism(io.source_parallelism)
        .window_all(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .process(SiteTotal(), Types.TUPLE([number, number, number, number]))
        .name("totals")
        .uid("totals")
    )
    table = totals.key_by(_start, number).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _start(row: tuple[int, ...]) -> int:
    return row[0]


def expected(records: Records, declared: Declared) -> Rows:
    """Add up the sales of each window."""
    windows: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for own in records.values():
        for timestamp, value in own:
            assert isinstance(value, tuple)
            windows[timestamp - timestamp % SIZE_MS].append((str(value[0]), int(value[1] or 0)))
    rows = [
        (start, len(sales), len({shop for shop, _ in sales}), sum(amount for _, amount in sales))
        for start, sales in windows.items()
    ]
    return declared.so_far(rows)
