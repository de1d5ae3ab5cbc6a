"""Page views of each app and hour, from a log of five partitions.

A view is (timestamp, app, user). State and offsets belong together: a checkpoint holds the offset of each
partition and the counts of the open windows, and a restored job reads the partitions from these offsets. The
partitions are collections here, as there is no connector for Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onceproof.engine import (
    CollectionSource,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)

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


if __name__ == "__main__":
    main()
