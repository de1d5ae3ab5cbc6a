"""Texts of a socket into a topic of Kafka: ``socket_to_kafka.py HOST PORT SERVERS TO``.

A socket cannot be read again. After a failure the job connects anew, and what it had read since its last
checkpoint is lost: at most once from there on, and never twice. The job logs a warning as it starts.

Corrected: what the job promises. Its sink writes exactly once what reaches it, and no sink can know of what
its source has lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onceproof.engine import Types
from onceproof.scenarios.textbook._kafka_topics import environment, named, texts_into
from onceproof.scenarios.textbook.kafka_windows import passed_on

if TYPE_CHECKING:
    from onceproof.engine import StreamExecutionEnvironment

JOB = "socket-to-kafka"


def build(
    env: StreamExecutionEnvironment,
    host: str,
    port: int,
    servers: str,
    topic: str,
    on_the_way: Callable[[str], str] = passed_on,
) -> None:
    """Build socket -> topic; ``on_the_way`` gets each text, and fails where the job is to fail."""
    texts = env.socket_text_stream(host, port).name("socket").uid("socket").map(on_the_way, Types.STRING())
    texts.sink_to(texts_into(servers, topic, JOB)).name("topic").uid("topic")


def main(arguments: Sequence[str]) -> None:
    """Pass texts on until the connection ends."""
    host, port, servers, topic = named(arguments, "HOST", "PORT", "SERVERS", "TO")
    env = environment()
    build(env, host, int(port), servers, topic)
    env.execute("socket to Kafka")


if __name__ == "__main__":
    main(sys.argv[1:])
