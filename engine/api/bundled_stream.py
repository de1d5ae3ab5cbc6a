"""Streams folded in bundles: fewer results, and much less work, where only the latest of a key matters.

Flink has this for tables (``table.exec.mini-batch.enabled``, ``.size`` and ``.allow-latency``, two-phase
aggregation) and not for streams, so the names are ours::

    bundles = words.key_by(lambda word: word).bundle(10_000, Duration.of_seconds(2))
    bundles.aggregate(Count(), Types.LONG()).sink_to(table)

A method that folds adds two operators: one folds where the records come from, chained to what is before it
where that runs in as many subtasks; the other, behind the exchange by key, has the state and gives the
results. Name, uid and parallelism set on the result are those of the second. In each of the two a record
waits for half of the latency at most.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.api.adapters import OperatorFactory, aggregate_function_of, reduce_function_of
from onceproof.engine.durations import milliseconds_of
from onceproof.engine.functions import AggregateFunction, ReduceFunction
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.bundle import AggregatingOperator, BundleOperator, Fold, ReducingOperator
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream
    from onceproof.engine.durations import Duration, Time
    from onceproof.engine.types import TypeInformation

_KEY: Final = itemgetter(0)
_SHORTEST_MS: Final = 2
"""So that either half is something."""


class BundledStream:
    """The records of each key, folded in bundles."""

    def __init__(
        self,
        origin: DataStream,
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
        self._stream = origin
        self._key_selector = key_selector
        self._key_type = key_type
        self._size = size
        self._latency_ms = latency_ms

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """The values of a key reduced to one, given out at the end of each bundle that has the key.

        The function must be associative: parts of a bundle are reduced before they meet.
        """
        fold = reduce_function_of(func)
        values = self._stream.get_type()
        factory = self._before(ReducingOperator, fold)
        return self._folded("Reduce", fold, factory, values, values)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """The values of a key aggregated: (key, result) at the end of each bundle that has the key.

        Accumulators of parts of a bundle meet by ``merge``.
        """
        fold = aggregate_function_of(aggregate_function)
        factory = self._before(AggregatingOperator, fold)
        return self._folded("Aggregate", fold, factory, accumulator_type, output_type)

    def _before(self, kind: type[ReducingOperator | AggregatingOperator], fold: Fold) -> OperatorFactory:
        return OperatorFactory(kind, fold, self._size, self._key_selector, self._latency_ms // 2)

    def _folded(
        self,
        verb: str,
        fold: Fold,
        before: OperatorFactory,
        folded_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        pair = Types.TUPLE([self._key_type or Types.DYNAMIC(), folded_type or Types.DYNAMIC()])
        folded = _beside(self._stream, self._stream._transform(f"Local {verb}", before, pair))
        left_ms = self._latency_ms - self._latency_ms // 2
        merging = OperatorFactory(BundleOperator, fold, self._size, self._key_type, folded_type, left_ms)
        return folded.key_by(_KEY, self._key_type)._transform(f"Bundled {verb}", merging, output_type)


def _beside(stream: DataStream, folded: DataStream) -> DataStream:
    """Give the operator that folds a stream as many subtasks as the operator before it has."""
    first, *others = stream._upstreams
    if not others and first.partitioner is None:
        node = folded._upstreams[0].node
        node.parallelism = first.node.parallelism
        node.max_parallelism = first.node.max_parallelism
    return folded
