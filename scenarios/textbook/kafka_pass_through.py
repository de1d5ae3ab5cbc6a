"""Texts from a topic of Kafka into another one, exactly once: ``kafka_pass_through.py SERVERS FROM TO``.

Offsets and transactions belong to one checkpoint. What is written becomes visible to readers of committed
rows when the checkpoint is complete, which also commits the offsets to the group, for those who watch the
lag. The settings stand in ``_kafka_topics``.

Corrected: without a timeout of its own the producer asks for transactions of one hour, and a broker, whose
maximum is 15 minutes, refuses them as the job starts. Here it asks for 15 minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceproof.scenarios.textbook._kafka_topics import (
    TRANSACTION_TIMEOUT_MS,
    environment,
    named,
    texts_into,
    texts_of,
)

if TYPE_CHECKING:
    from onceproof.engine import StreamExecutionEnvironment

JOB = "pass-through"


def build(
    env: StreamExecutionEnvironment,
    servers: str,
    read_topic: str,
    written_topic: str,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> None:
    """Build texts -> texts."""
    texts = env.from_source(texts_of(servers, read_topic, JOB), None, "texts").uid("texts")
    sink = texts_into(servers, written_topic, JOB, transaction_timeout_ms)
    texts.sink_to(sink).name("topic").uid("topic")


def main(arguments: Sequence[str]) -> None:
    """Pass texts on without end."""
    servers, read_topic, written_topic = named(arguments, "SERVERS", "FROM", "TO")
    env = environment()
    build(env, servers, read_topic, written_topic)
    env.execute("pass-through")


if __name__ == "__main__":
    main(sys.argv[1:])
