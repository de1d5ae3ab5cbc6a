"""The runtime mode of a job: results as records come, or one for each key at the end of bounded input.

Rules:

- In BATCH mode a rolling reduce (`reduce`, `sum`, `min`, `max`, `min_by`, `max_by`) emits the last result of
  each key at the end of the input, and nothing before. Event time stands still until then: windows and timers
  fire there.
- The mode changes operators, never the graph: state, checkpoints and restores are those of STREAMING. So a
  job in BATCH mode is restored as any other; Flink would begin again.
- Records do not come in the order of their keys, as they do in Flink.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from onceproof.engine.graph import InvalidJob, JobGraph, OperatorNode
from onceproof.engine.operators.source import SourceOperator

if TYPE_CHECKING:
    from onceproof.engine.operators.base import Operator


class RuntimeExecutionMode(Enum):
    """When a job emits the results of its keys (PyFlink: RuntimeExecutionMode)."""

    STREAMING = "STREAMING"
    """After each record."""
    BATCH = "BATCH"
    """At the end of the input, which must be bounded."""
    AUTOMATIC = "AUTOMATIC"
    """As BATCH if all sources are bounded, else as STREAMING."""


class InBatch:
    """Makes an operator as it runs in BATCH mode."""

    def __init__(self, create: Callable[[], Operator]) -> None:
        self._create = create
        self.function_name: str = getattr(create, "function_name", "")

    def __call__(self) -> Operator:
        """Return a new operator."""
        return self._create().in_batch()


def in_runtime_mode(graph: JobGraph, mode: RuntimeExecutionMode, sort_memory_bytes: int) -> JobGraph:
    """Return the graph with the operators of the mode.

    Raises:
        InvalidJob: the mode is BATCH, and a source is not bounded.
    """
    if mode is RuntimeExecutionMode.STREAMING:
        return graph
    unbounded = _unbounded_sources(graph)
    if unbounded and mode is RuntimeExecutionMode.AUTOMATIC:
        return graph
    if unbounded:
        raise InvalidJob(
            f"source {unbounded[0]!r} of job {graph.name!r} has no end, and the runtime mode BATCH needs one:"
            " set execution.runtime-mode to STREAMING, or give the source an end"
        )
    vertices = [
        replace(each, operators=tuple(map(_in_batch, each.operators)), sort_memory_bytes=sort_memory_bytes)
        for each in graph.vertices
    ]
    # No barrier overtakes records: there is no checkpoint in the middle of the input.
    return replace(graph, vertices=tuple(vertices), settings=replace(graph.settings, unaligned=False))


def _in_batch(node: OperatorNode) -> OperatorNode:
    return replace(node, create=InBatch(node.create))


def _unbounded_sources(graph: JobGraph) -> list[str]:
    return [
        vertex.operators[0].name
        for vertex in graph.vertices
        if not vertex.inputs
        and isinstance(operator := vertex.operators[0].create(), SourceOperator)
        and not operator.source.is_bounded
    ]
