"""A record that fails the first time: ``poisoned_record.py SERVERS FROM TO``, JSON in and JSON out.

The map throws at ``name4``. The restart strategy starts the job again from its last checkpoint, which replays
the records since then, ``name4`` among them, and now it passes. What the failed attempt had written stands in
a transaction that is aborted, so a reader of committed rows sees each record once.

Corrected: a field that remembers whether the map has thrown is new in the next attempt, and throws again, as
often as the strategy allows. The map asks for the number of its attempt instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceproof.engine import MapFunction, RuntimeContext, Types
from onceproof.scenarios.textbook._kafka_topics import environment, named, texts_into, texts_of

if TYPE_CHECKING:
    from onceproof.engine import StreamExecutionEnvironment

POISON = "name4"
JOB = "poisoned-record"


class FailOnPoison(MapFunction):
    """Passes JSON records on, and throws at the poisoned one in the first attempt."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = runtime_context.get_attempt_number() == 0

    def map(self, value: str) -> str:
        record = json.loads(value)
        if self._is_first and record["name"] == POISON:
            raise ValueError(f"the record of {POISON} is poisoned")
        return json.dumps(record)


def build(env: StreamExecutionEnvironment, servers: str, read_topic: str, written_topic: str) -> None:
    """Build records -> poison -> records."""
    records = env.from_source(texts_of(servers, read_topic, JOB), None, "records").uid("records")
    passed = records.map(FailOnPoison(), Types.STRING()).name("poison").uid("poison")
    passed.sink_to(texts_into(servers, written_topic, JOB)).name("topic").uid("topic")


def main(arguments: Sequence[str]) -> None:
    """Pass records on without end."""
    servers, read_topic, written_topic = named(arguments, "SERVERS", "FROM", "TO")
    env = environment()
    build(env, servers, read_topic, written_topic)
    env.execute("poisoned record")


if __name__ == "__main__":
    main(sys.argv[1:])
