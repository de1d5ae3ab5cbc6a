"""Items are looked up outside: some requests fail a few times or find nothing at first, some never answer.

What an item comes to follows from the item alone, also if its time is up because the answer was heard late.
So at the end each item has exactly its rows, in whatever order the answers come. Until then some are in
flight. Which ones depends on the schedule: the rows declare it. A row whose timestamp a watermark has passed
is late; there is none, since no answer may pass a watermark.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.api.async_data_stream import AsyncDataStream
from onceproof.engine.async_functions import AsyncFunction, AsyncRetryStrategy
from onceproof.engine.async_retry_predicates import empty_result_predicate, exception_type_predicate
from onceproof.engine.durations import Time
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import ProcessFunction, RuntimeContext
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment

name = "async_lookups"
generator_version = 2
options = FamilyOptions(declares=True, at_least_once="rows")
tasks: dict[str, Role] = {"items": "source", "answers -> checked": "keyed", "table": "sink"}
record_schema = "item BIGINT, fate STRING"
row_schema = "item BIGINT, answer STRING"
oracle_sql = """
SELECT scenario_id, item,
       explode(CASE fate WHEN 'twice' THEN array('first', 'second') WHEN 'never' THEN array('no answer')
               ELSE array('found') END) AS answer
FROM records
"""

FAILURES: Final = 2
"""How often a request fails, or finds nothing, before it finds something."""
TRIES: Final = 6
HOUR_SECONDS: Final = 3600


def generate(random: Random) -> Workload:
    """Draw up to three splits of items with their fates, and how they are looked up."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2)])
    longest = chance.weighted([(4, 1), (12, 3), (24, 2)])
    records = {}
    for split in range(splits):
        timestamp = 0
        drawn: list[tuple[int, tuple[int, str]]] = []
        for place in range(chance.integer(0, longest)):
            timestamp += chance.integer(0, 20)
            fate = chance.weighted([("quick", 6), ("twice", 3), ("flaky", 2), ("empty", 1), ("never", 1)])
            drawn.append((timestamp, (split * 1000 + place, fate)))
        records[f"items-{split}"] = tuple(drawn)
    parameters = {
        "ordered": chance.chance(0.3),
        "capacity": chance.weighted([(1, 3), (2, 2), (4, 2), (16, 1)]),
        "timeout_ms": chance.choice([25, 60, 150]),
        "grows": chance.chance(0.3),
    }
    return Workload(records, parameters)


def answers_to(item: int, fate: str) -> list[tuple[int, str]]:
    """Return the rows of an item."""
    match fate:
        case "twice":
            return [(item, "first"), (item, "second")]
        case "never":
            return [(item, "no answer")]
        case _:
            return [(item, "found")]


class LookUp(AsyncFunction):
    """Looks an item up; some requests fail at first, and some never answer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._failures: Counter[int] = Counter()

    async def async_invoke(self, value: tuple[int, str]) -> list[tuple[int, str]]:
        item, fate = value
        await asyncio.sleep(HOUR_SECONDS if fate == "never" else item % 7 / (500 if item % 3 else 100))
        if fate in ("flaky", "empty") and self._failures[item] < FAILURES:
            self._failures[item] += 1
            if fate == "flaky":
                raise ConnectionError(f"item {item} cannot be looked up now")
            return []
        return answers_to(item, fate)

    def timeout(self, value: tuple[int, str]) -> list[tuple[int, str]]:
        return answers_to(*value)


class Checked(ProcessFunction):
    """Marks a row whose time has passed."""

    def process_element(
        self, value: tuple[int, str], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[int, str]]:
        item, answer = value
        timestamp = ctx.timestamp()
        is_late = MIN_WATERMARK < timestamp <= ctx.timer_service().current_watermark()
        yield item, f"{answer}, late" if is_late else answer


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build items -> answers, checked -> table."""
    items = env.from_source(io.source("items"), WatermarkStrategy.for_monotonous_timestamps(), "items")
    items.uid("items").set_parallelism(io.source_parallelism)
    row = Types.TUPLE([Types.LONG(), Types.STRING()])
    answers = _looked_up(items.rebalance(), io).name("answers").uid("answers").set_parallelism(io.parallelism)
    checked = answers.process(Checked(), row).name("checked").uid("checked").set_parallelism(io.parallelism)
    table = checked.rebalance().add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _looked_up(items: DataStream, io: JobIO) -> DataStream:
    asked: dict[str, Any] = dict(io.parameters)
    tried_again: dict[str, Any] = {
        "result_predicate": empty_result_predicate,
        "exception_predicate": partial(exception_type_predicate, expected_error_type=ConnectionError),
    }
    if asked["grows"]:
        strategy = AsyncRetryStrategy.exponential_backoff(TRIES, 1, 4, 2, **tried_again)
    else:
        strategy = AsyncRetryStrategy.fixed_delay(TRIES, 2, **tried_again)
    wait = (
        AsyncDataStream.ordered_wait_with_retry
        if asked["ordered"]
        else AsyncDataStream.unordered_wait_with_retry
    )
    timeout = Time.milliseconds(asked["timeout_ms"])
    return wait(
        items, LookUp(), timeout, strategy, asked["capacity"], Types.TUPLE([Types.LONG(), Types.STRING()])
    )


def expected(records: Records, declared: Declared) -> Rows:
    """Return the rows of all items; before the end, those that have come."""
    rows: Counter[tuple[int, str]] = Counter()
    for split in records.values():
        for _, value in split:
            assert isinstance(value, tuple)
            rows.update(answers_to(int(value[0] or 0), str(value[1])))
    if not declared.is_whole:
        rows &= Counter(declared.rows)
    return list(rows.elements())
