"""Streams folded in bundles: fewer results, and much less work, where only the latest of a key matters.

Flink has this for tables (``table.exec.mini-batch.enabled``, ``table.exec.mini-batch.size``, two-phase
aggregation) and not for streams, so the names are ours::

    words.key_by(lambda word: word).bundle(10_000).aggregate(Count(), Types.LONG()).sink_to(table)

A method that folds adds two operators: one folds where the records come from, chained to what is before it
where that runs in as many subtasks; the other, behind the exchange by key, has the state and gives the
results. Name, uid and parallelism set on the result are those of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from engine.adapters import OperatorFactory, reduce_function_of
from engine.functions import AggregateFunction, ReduceFunction
from engine.graph import InvalidJob
from engine.operators.bundle import AggregatingOperator, BundleOperator, Fold, ReducingOperator
from engine.types import Types

if TYPE_CHECKING:
    from engine.datastream import DataStream
    from engine.types import TypeInformation

_KEY: Final = itemgetter(0)


class BundledStream:
    """The records of each key, folded in bundles."""

    def __init__(
        self,
        origin: DataStream,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        size: int,
    ) -> None:
        if type(size) is not int or size < 1:
            raise InvalidJob(f"bundle of {size!r} records: give a whole number of at least 1")
        self._stream = origin
        self._key_selector = key_selector
        self._key_type = key_type
        self._size = size

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """The values of a key reduced to one, given out at the end of each bundle that has the key.

        The function must be associative: parts of a bundle are reduced before they meet.
        """
        fold = reduce_function_of(func)
        values = self._stream.get_type()
        factory = OperatorFactory(ReducingOperator, fold, self._size, self._key_selector)
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
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidJob(f"aggregate takes an AggregateFunction, not {aggregate_function!r}")
        factory = OperatorFactory(AggregatingOperator, aggregate_function, self._size, self._key_selector)
        return self._folded("Aggregate", aggregate_function, factory, accumulator_type, output_type)

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
        merging = OperatorFactory(BundleOperator, fold, self._size, self._key_type, folded_type)
        return folded.key_by(_KEY, self._key_type)._transform(f"Bundled {verb}", merging, output_type)


def _beside(stream: DataStream, folded: DataStream) -> DataStream:
    """Give the operator that folds a stream as many subtasks as the operator before it has."""
    first, *others = stream._upstreams
    if not others and first.partitioner is None:
        node = folded._upstreams[0].node
        node.parallelism = first.node.parallelism
        node.max_parallelism = first.node.max_parallelism
    return folded
