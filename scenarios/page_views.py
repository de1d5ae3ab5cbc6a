"""Page views per app from a partitioned log, where state and offsets must belong to the same moment.

Each split is a partition of a log, each record the view of one user in one app. The count of an app and the
offsets of the partitions are parts of one checkpoint: restored from different moments, views are counted
twice or not at all. The job uses ``map`` and ``reduce`` where word_count has a function with state, so that
the two cover both ways to keep state, and a chain. A few apps get most of the views.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.harness.model.scenario import RecordValue

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "page_views"
generator_version = 1
# The map is chained to the source: one vertex, named for both.
tasks: dict[str, Role] = {"log -> one": "source", "views": "keyed", "table": "sink"}
record_schema = "app_id STRING, user_id BIGINT"
row_schema = "app_id STRING, views BIGINT"
oracle_sql = """
SELECT scenario_id, app_id, explode(sequence(1, count(*))) AS views FROM records GROUP BY scenario_id, app_id
"""

MOST_APPS = 12


def generate(random: Random) -> Workload:
    """Draw 1 to 4 partitions of views; a few apps get most of them."""
    chance = Chance(random)
    partitions = chance.weighted([(1, 1), (2, 3), (3, 3), (4, 3)])
    apps = chance.weighted([(1, 1), (3, 3), (6, 3), (MOST_APPS, 2)])
    users = chance.integer(1, 20)
    per_partition = chance.weighted([(2, 1), (8, 4), (20, 3)])
    unit = random.random
    names = [f"app-{index}" for index in range(apps)]
    records = {}
    for partition in range(partitions):
        length = int(unit() * (2 * per_partition + 1))
        # The product of two draws favours the first apps.
        views = [
            (5 * index, (names[int(unit() * unit() * apps)], int(unit() * users))) for index in range(length)
        ]
        records[f"log-{partition}"] = tuple(views)
    return Workload(records, {"partitions": partitions, "apps": apps, "users": users})


def with_key(value: RecordValue, number: int) -> RecordValue:
    """Return the view, by the same user, of app number ``number``."""
    _app_id, user = cast(tuple[str, int], value)
    return f"app-{number}", user


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build log -> views -> table, both edges keyed by the app."""
    views = (
        env.from_source(io.source("log"), None, "log")
        .uid("log")
        .set_parallelism(io.source_parallelism)
        .map(_one_view, Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("one")
        .uid("one")
        .set_parallelism(io.source_parallelism)
        .key_by(_app, Types.STRING())
        .reduce(_add)
        .name("views")
        .uid("views")
        .set_parallelism(io.parallelism)
    )
    table = views.key_by(_app, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _one_view(value: tuple[str, int]) -> tuple[str, int]:
    return value[0], 1


def _app(value: tuple[str, int]) -> str:
    return value[0]


def _add(so_far: tuple[str, int], view: tuple[str, int]) -> tuple[str, int]:
    return so_far[0], so_far[1] + view[1]


def streaming_query(records: Any, io: Any) -> Any:
    """Count with transformWithStateInPandas; the rows go to a sink of the harness."""
    return io.transform_with_state_in_pandas(records, ("app_id",), _count_view, "views BIGINT", row_schema)


def _count_view(state: tuple[int] | None, view: Any) -> tuple[tuple[int], tuple[str, int]]:
    views = (int(state[0]) if state else 0) + 1
    return (views,), (view.app_id, views)


def expected(records: Records, declared: Declared) -> Rows:
    """Count the views of each app up to each view."""
    views: dict[str, int] = {}
    rows = []
    for partition in records.values():
        for _, value in partition:
            app, _user = cast(tuple[str, int], value)
            views[app] = count = views.get(app, 0) + 1
            rows.append((app, count))
    return rows


options = FamilyOptions(any_backend=True, jobs={"structured_streaming": streaming_query}, with_key=with_key)
