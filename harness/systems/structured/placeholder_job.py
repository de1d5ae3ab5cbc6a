"""The job of a family that there is for Structured Streaming only: its vertices, and a refusal.

The rules this module lives by:

- A family has a job of the engine, from which scenarios are drawn: how many tasks there are, and which of
  them a fault may name. One that puts a query of Spark's on trial takes ``job`` and ``tasks`` from here.
- On any other system it fails at its first record, and says on which one it can be run.
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
    """Stands where the query would."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        """Say what is wrong."""
        raise OnlyStructuredStreaming("run this family with --system structured_streaming")


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build records -> query -> rows."""
    records = env.from_source(io.source("records"), None, "records").uid("records")
    keyed = records.set_parallelism(io.source_parallelism).key_by(repr, Types.STRING())
    rows = keyed.process(Refuse()).name("query").uid("query").set_parallelism(io.parallelism)
    sink = rows.key_by(repr, Types.STRING()).add_sink(io.sink("rows"))
    sink.name("rows").uid("rows").set_parallelism(io.sink_parallelism)
