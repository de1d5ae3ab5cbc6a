"""What a job says of a stream folded in bundles, and the two operators that fold it.

Flink has this for tables (``table.exec.mini-batch.enabled``, ``.size`` and ``.allow-latency``, two-phase
aggregation) and not for streams, so the names are ours.

A fold takes two operators. The local one folds where the records come from, chained to the operator before it
where that has as many subtasks. The bundled one, behind the exchange by key, holds the state and emits the
results. A record waits in each of the two for at most half of the latency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.durations import milliseconds_of
from onceproof.engine.functions import AggregateFunction
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.bundle import AggregatingOperator, BundleOperator, Fold, ReducingOperator

if TYPE_CHECKING:
    from onceproof.engine.durations import Duration, Time
    from onceproof.engine.types import TypeInformation

_SHORTEST_MS: Final = 2
"""So that each half is at least a millisecond."""


class BundleDescription:
    """The settings of bundles over the records of each key."""

    def __init__(
        self,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        size: int,
        latency: Duration | Time | None,
    ) -> None:
        if type(size) is not int or size < 1:
            raise InvalidJob(f"bundle of {size!r} records: give a whole number of at least 1")
        latency_ms = 0 if latency is None else milliseconds_of(latency, "the latency of a bundle")
        if latency is not None and latency_ms < _SHORTEST_MS:
            raise InvalidJob(f"latency of a bundle of {latency_ms} ms: give at least {_SHORTEST_MS}, or none")
        self._key_selector = key_selector
        self._key_type = key_type
        self._size = size
        self._latency_ms = latency_ms

    def _local_operator(self, fold: Fold) -> OperatorFactory:
        aggregates = isinstance(fold, AggregateFunction)
        operator: Callable[..., Any] = AggregatingOperator if aggregates else ReducingOperator
        latency_ms = self._latency_ms // 2
        return OperatorFactory(operator, fold, self._size, self._key_selector, latency_ms, self._key_type)

    def _bundled_operator(self, fold: Fold, folded_type: TypeInformation | None) -> OperatorFactory:
        left_ms = self._latency_ms - self._latency_ms // 2
        return OperatorFactory(BundleOperator, fold, self._size, self._key_type, folded_type, left_ms)
