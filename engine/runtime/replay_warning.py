"""The warning at the start of a job: a source cannot be replayed, and its sinks promise exactly once.

The job runs. Sinks keep their promise for what reaches them; what the source had read since the last complete
checkpoint is not read again after a failure, and no sink can know of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.functions import CommittingFunction
from onceproof.engine.graph import JobGraph, OperatorNode
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator

_logger = logging.getLogger(__name__)


def warn_of_lossy_sources(graph: JobGraph) -> None:
    """Log one line if a failure loses records of a source although the sinks write exactly once."""
    if not graph.settings.enabled:
        return
    sources = lossy_sources(graph)
    sinks = [node.name for node, operator in _ends(graph) if _writes_once(operator)] if sources else []
    if sinks:
        _logger.warning(
            "job %r: source %s cannot be replayed: a failure loses what it has read since the last complete"
            " checkpoint; sink %s writes all other records exactly once; see"
            " docs/troubleshooting.md#cannot-be-replayed-a-failure-loses",
            graph.name,
            _listed(sources),
            _listed(sinks),
        )


def lossy_sources(graph: JobGraph) -> list[str]:
    """Return the names of the sources that cannot be replayed."""
    return [
        node.name
        for vertex in graph.vertices
        if not vertex.inputs
        for node in vertex.operators[:1]
        if isinstance(operator := node.create(), SourceOperator) and not operator.source.can_be_replayed
    ]


def _ends(graph: JobGraph) -> Iterator[tuple[OperatorNode, Operator]]:
    for vertex in graph.vertices:
        if not vertex.outputs:
            node = vertex.operators[-1]
            yield node, node.create()


def _writes_once(operator: Operator) -> bool:
    if not isinstance(operator, SinkOperator):
        return False
    function = operator.function
    if isinstance(function, WriterSinkFunction):
        return function.commits
    return isinstance(function, CommittingFunction | UpsertSinkFunction)


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)
