"""Another program under the name of the job on trial: it must not go on from the job's checkpoints.

The rules this module lives by:

- Each incarnation asks twice: before it recovers, and after the job has ended. The job itself must be taken
  and the other program refused, as soon as there is a checkpoint or an end to go on from.
- The other program is the same job over another input, so nothing else tells the two apart. Its sources are
  replaced in the job graph, whatever a family has built around the source that it was given.
- Whether there is something to go on from is read off the names of the files, not asked of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.graph import JobGraph, JobVertex
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.job_identity import OtherProgram, check_identity
from onceproof.engine.runtime.recovery import RecoverableStorage

_ENDS = ("/_metadata", "finished")


class SecondProgramGoesOn(AssertionError):
    """Another program may go on from the checkpoints of the job."""


class OtherInput(Source):
    """A source of the job, as if it read something else."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def splits(self) -> Sequence[str]:
        """Return the splits of the job's source."""
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Open a split of the job's source."""
        return self._source.open_split(split, position)

    def identity(self) -> SourceIdentity:
        """Return what no family reads."""
        return SourceIdentity("the input of another program")


def other_program(graph: JobGraph) -> JobGraph:
    """Return the job over another input."""
    return replace(graph, vertices=tuple([_over_other_input(vertex) for vertex in graph.vertices]))


def _over_other_input(vertex: JobVertex) -> JobVertex:
    if vertex.inputs:
        return vertex
    head, *chain = vertex.operators
    return replace(vertex, operators=(replace(head, create=partial(_other_source, head.create)), *chain))


def _other_source(create: Callable[[], Operator]) -> Operator:
    operator = create()
    if isinstance(operator, SourceOperator):
        operator.source = OtherInput(operator.source)
    return operator


def check_guard(storage: RecoverableStorage, own: JobGraph, other: JobGraph) -> None:
    """Check that a job is accepted under its name, and another program is not.

    Raises OtherProgram if the job itself is refused, and SecondProgramGoesOn.
    """
    check_identity(own, storage)
    if not any(path.endswith(_ENDS) for path in storage.list("")):
        return
    try:
        check_identity(other, storage)
    except OtherProgram:
        return
    raise SecondProgramGoesOn(f"another program resumes from the checkpoints of job {own.name!r}")
