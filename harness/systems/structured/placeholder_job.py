"""The engine job of a family that only runs on Structured Streaming.

The rules this module lives by:

- Scenarios are drawn from the job of a family: the number of its tasks, and the tasks that a fault may name.
  A family with only a Spark query imports ``job`` and ``tasks`` from this module.
- On any other system the job fails at its first record, with a message that names the right system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO, Role

tasks: Final[dict[str, Role]] = {"records": "source", "query": "keyed", "rows": "sink"}


class OnlyStructuredStreaming(Exception):
    """The family was run on a system that cannot run its query."""


class Refuse(KeyedProcessFunction):
    """Takes the place of the query, and fails."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        """Raise OnlyStructuredStreaming."""
        raise OnlyStructuredStreaming("run this family with --system structured_streaming")


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build the job records -> query -> rows."""
    records = env.from_source(io.source("records"), None, "records").uid("records")
    keyed = records.set_parallelism(io.source_parallelism).key_by(repr, Types.STRING())
    rows = keyed.process(Refuse()).name("query").uid("query").set_parallelism(io.parallelism)
    sink = rows.key_by(repr, Types.STRING()).add_sink(io.sink("rows"))
    sink.name("rows").uid("rows").set_parallelism(io.sink_parallelism)
