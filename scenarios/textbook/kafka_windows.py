"""Page views from Kafka, counted by the hour, into two topics: ``kafka_windows.py SERVERS FROM A B``.

A view is the text ``timestamp,app,user``. A checkpoint holds the offset of each partition, the counts of the
open windows and what either sink needs to commit. If the second sink fails, the first one has written and
does not commit: neither of the topics shows a row of the checkpoint that failed.

Corrected: each sink has a transactional id prefix of its own. On Flink two sinks with one prefix fence each
other off; here the ids carry the sink as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onceproof.engine import MapFunction, TimestampAssigner, Types, WatermarkStrategy
from onceproof.scenarios.textbook import page_views
from onceproof.scenarios.textbook._kafka_topics import environment, named, texts_into, texts_of

if TYPE_CHECKING:
    from onceproof.engine import StreamExecutionEnvironment
    from onceproof.scenarios.textbook.page_views import View

JOB = "page-views"


class TimeOfView(TimestampAssigner):
    """The first field of a text is its time."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value.split(",")[0])


def view_of(text: str) -> View:
    """Return a view of its text."""
    timestamp, app, user = text.split(",")
    return int(timestamp), app, user


def text_of(count: tuple[str, int]) -> str:
    """Return the text of a count, as in ``pv(app1,50)``."""
    app, views = count
    return f"pv({app},{views})"


def passed_on(text: str) -> str:
    """Return a text as it is: the second sink does not fail."""
    return text


def build(
    env: StreamExecutionEnvironment,
    servers: str,
    read_topic: str,
    topic_a: str,
    topic_b: str,
    before_b: Callable[[str], str] | MapFunction = passed_on,
) -> None:
    """Build views -> windows -> two topics.

    Args:
        env: the environment.
        servers: the brokers.
        read_topic: the topic of the views.
        topic_a: the topic of the first sink.
        topic_b: the topic of the second sink.
        before_b: gets each row before the second sink, and fails where that one is to fail.
    """
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOfView())
    texts = env.from_source(texts_of(servers, read_topic, JOB), in_order, "views").uid("views")
    counts = page_views.build(texts.map(view_of, page_views.VIEW)).name("pv").uid("pv")
    rows = counts.map(text_of, Types.STRING())
    rows.sink_to(texts_into(servers, topic_a, f"{JOB}-a")).name("a").uid("a")
    # In a task of its own, which gets the barrier of a checkpoint when the first sink has done its part.
    to_b = rows.map(before_b, Types.STRING()).start_new_chain()
    to_b.sink_to(texts_into(servers, topic_b, f"{JOB}-b")).name("b").uid("b")


def main(arguments: Sequence[str]) -> None:
    """Count views without end."""
    servers, read_topic, topic_a, topic_b = named(arguments, "SERVERS", "FROM", "A", "B")
    env = environment()
    build(env, servers, read_topic, topic_a, topic_b)
    env.execute("page views")


if __name__ == "__main__":
    main(sys.argv[1:])
