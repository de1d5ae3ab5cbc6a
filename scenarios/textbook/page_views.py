"""Page views of each app and hour, from a log of five partitions.

A view is (timestamp, app, user). State and offsets belong together: a checkpoint holds the offset of each
partition and the counts of the open windows, and a restored job reads the partitions from these offsets. The
partitions are collections here; ``kafka_windows`` reads them from a topic.

The lesson counts barriers instead of aligning them, which is checkpointing in the mode AT_LEAST_ONCE. Where
the barrier of one partition has come and that of another has not, the count goes on with both. The checkpoint
then holds views behind the barrier, which a restored job reads again: they count twice. At least once does
not mean that rows are repeated: a count that is too high is another row, such as 51 views of fifty. The mode
EXACTLY_ONCE is the correction; the family ``page_views`` holds it to the rule.

The lesson is a family that is expected to fail::

    onceproof run scenarios/textbook/page_views.py:lesson --scenarios 50
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from onceproof.engine import (
    CollectionSource,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload

if TYPE_CHECKING:
    from onceproof.engine import DataStream

View: TypeAlias = tuple[int, str, str]
"""Timestamp in milliseconds, app, user."""

PARTITIONS = 5
HOUR_MS = 3_600_000
VIEW = Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()])
COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])


def one_view(view: View) -> tuple[str, int]:
    """Return the app of a view with the number 1."""
    return view[1], 1


def app_of(pair: tuple[str, int]) -> str:
    """Return the app of a pair."""
    return pair[0]


def add(so_far: tuple[str, int], pair: tuple[str, int]) -> tuple[str, int]:
    """Add the counts of one app."""
    return so_far[0], so_far[1] + pair[1]


def build(views: DataStream) -> DataStream:
    """Count the views of each app in windows of an hour."""
    by_app = views.map(one_view, COUNT).key_by(app_of, Types.STRING())
    return by_app.window(TumblingEventTimeWindows.of(Time.hours(1))).reduce(add)


def build_running(views: DataStream) -> DataStream:
    """Count the views of each app; each view gives a count."""
    return views.map(one_view, COUNT).name("one").uid("one").key_by(app_of, Types.STRING()).reduce(add)


def views_of_partition() -> list[View]:
    """Return views: 10 of app1 and 5 of app2 in the first hour, and 2 of app1 after it."""
    views: list[View] = [(minute * 60_000, "app1", f"user{minute % 3}") for minute in range(10)]
    views += [(minute * 60_000, "app2", f"user{minute % 3}") for minute in range(10, 15)]
    return [*views, *[(HOUR_MS + minute, "app1", "user1") for minute in range(2)]]


def example() -> CollectionSource:
    """Return the same views in each partition."""
    partition = [(view, view[0]) for view in views_of_partition()]
    return CollectionSource({f"partition-{number}": partition for number in range(PARTITIONS)})


def main() -> None:
    """Count the views of the example."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    build(env.from_source(example(), in_order, "views", VIEW)).print()
    env.execute("page views")


# On trial.


class CountedBarriers:
    """The family of the running counts, in jobs that count barriers.

    Its option promises what "at least once" is taken for: rows are repeated, and none is another one.
    """

    name = "lesson_counted_barriers"
    generator_version = 1
    options = FamilyOptions(at_least_once="rows", barriers="at_least_once")
    tasks: Mapping[str, Role] = {"log -> one": "source", "pv": "keyed", "table": "sink"}
    record_schema = "timestamp_ms BIGINT, app_id STRING, user STRING"
    row_schema = "app_id STRING, views BIGINT"
    oracle_sql = """
SELECT scenario_id, app_id, explode(sequence(1, count(*))) AS views FROM records GROUP BY scenario_id, app_id
"""

    def generate(self, random: Random) -> Workload:
        """Draw views of two apps in five partitions."""
        chance = Chance(random)
        records = {}
        for partition in range(PARTITIONS):
            views = [
                (time, (time, chance.choice(("app1", "app2")), f"user{chance.integer(0, 2)}"))
                for time in range(chance.integer(0, 16))
            ]
            records[f"log-{partition}"] = tuple(views)
        return Workload(records, {"partitions": PARTITIONS}, source_parallelism=chance.integer(2, 4))

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build log -> pv -> table."""
        env.set_parallelism(io.source_parallelism)
        log = env.from_source(io.source("log"), None, "log", VIEW).uid("log")
        counts = build_running(log).name("pv").uid("pv").set_parallelism(io.parallelism)
        table = counts.key_by(app_of, Types.STRING()).add_sink(io.sink("table"))
        table.name("table").uid("table").set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Count the views of each app up to each view."""
        views: dict[str, int] = {}
        rows = []
        for partition in records.values():
            for _, value in partition:
                assert isinstance(value, tuple)
                app = str(value[1])
                views[app] = views.get(app, 0) + 1
                rows.append((app, views[app]))
        return rows


lesson = CountedBarriers()

if __name__ == "__main__":
    main()
