"""The engine job of a family that runs on another engine.

The rules this module lives by:

- Scenarios are drawn from the job of a family: the number of its tasks, and the tasks that a fault may name.
- On a system of the engine the job fails at its first record, with a message that names the right system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO


class RunsElsewhere(Exception):
    """The family was run on a system that cannot run it."""


class Refuse(KeyedProcessFunction):
    """Takes the place of what another engine does, and fails."""

    def __init__(self, system: str) -> None:
        self._system = system

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        """Raise RunsElsewhere."""
        raise RunsElsewhere(f"run this family with --system {self._system}")


def build_stand_in(
    env: StreamExecutionEnvironment, io: JobIO, tasks: tuple[str, str, str], system: str
) -> None:
    """Build a job of a source, a keyed operator and a sink with these names, which fails."""
    source, keyed, sink = tasks
    records = env.from_source(io.source(source), None, source).uid(source)
    by_key = records.set_parallelism(io.source_parallelism).key_by(repr, Types.STRING())
    rows = by_key.process(Refuse(system)).name(keyed).uid(keyed).set_parallelism(io.parallelism)
    end = rows.key_by(repr, Types.STRING()).add_sink(io.sink(sink))
    end.name(sink).uid(sink).set_parallelism(io.sink_parallelism)
