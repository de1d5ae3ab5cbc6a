"""The engine job of a family that only runs on Structured Streaming.

A family with only a Spark query imports ``job`` and ``tasks`` from this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.harness.model.stand_in_job import build_stand_in

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO, Role

tasks: Final[dict[str, Role]] = {"records": "source", "query": "keyed", "rows": "sink"}


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build the job records -> query -> rows."""
    build_stand_in(env, io, ("records", "query", "rows"), "structured_streaming")
