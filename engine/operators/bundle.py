"""Bundles: the values of a key folded before anything is sent or any state is touched.

The rules this module lives by:

- A bundle is a dict of what the records since the last one come to, by key. It ends when it has taken so many
  records, at a watermark, before a barrier and at the end of the data; so a snapshot finds none that is open,
  and there is nothing of it to restore. With a latency it also ends so long after its first record.
- The work is done twice, as in Flink's tables (MapBundleOperator, before and behind the exchange): where the
  records come from, so that one value for each key travels and not one for each record, and where the keys
  live, which is the only place with state.
- What ends a bundle depends on when records and barriers come. How many values a key gives, and which, is
  therefore a run's own choice; the last one of a key is not.
- Results have no timestamp, as those of Flink's bundles: they stand for records of many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.elements import Record
from onceproof.engine.functions import AggregateFunction, ReduceFunction
from onceproof.engine.operators.base import FunctionOperator, OperatorContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.types import TypeInformation, Types

STATE_NAME: Final = "bundled"

Fold = ReduceFunction | AggregateFunction


class BundlingOperator(FunctionOperator):
    """Collects records in a bundle, and says what of them goes on when it ends."""

    function: Fold

    def __init__(self, function: Fold, size: int, latency_ms: int = 0) -> None:
        super().__init__(function)
        self.uses_time = latency_ms > 0
        self._size = size
        self._latency_ms = latency_ms
        self._due_ms: int | None = None
        """When the bundle ends at the latest; None: it is empty, or may take its time."""
        self._taken = 0
        self._bundle: dict[Any, Any] = {}

    def open(self, context: OperatorContext) -> None:
        """As every function operator; with a latency it wants to be called when that is over."""
        super().open(context)
        self._clock = context.clock
        if self.uses_time:
            assert context.downstream is not None
            self._wake_at = context.downstream.wake_at

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """What follows from the bundles that these records fill."""
        results: list[Record] = []
        begin, left = 0, self._size - self._taken
        while len(records) - begin >= left:
            self.fold(records[begin : begin + left])
            results += self._end_bundle()
            begin += left
            left = self._size
        self.fold(records[begin:] if begin else records)
        self._taken += len(records) - begin
        if self.uses_time and self._due_ms is None and self._bundle:
            self._due_ms = self._clock() + self._latency_ms
            self._wake_at(self._due_ms)
        return results

    def process_time(self, now: int) -> list[Record]:
        """The first record of the bundle has waited for long enough, or not yet."""
        if self._due_ms is None:
            return []
        if now >= self._due_ms:
            return self._end_bundle()
        self._wake_at(self._due_ms)
        return []

    def process_watermark(self, timestamp: int) -> list[Record]:
        """What came ahead of a watermark goes on ahead of it."""
        return self._end_bundle()

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        """What came ahead of a barrier goes on ahead of it."""
        return self._end_bundle()

    def finish(self) -> list[Record]:
        """Nothing else will come."""
        return self._end_bundle()

    def _end_bundle(self) -> list[Record]:
        bundle = self._bundle
        if not bundle:
            return []
        self._bundle = {}
        self._taken = 0
        self._due_ms = None
        return self.results(bundle)

    def fold(self, records: list[Record]) -> None:
        """Take records into the bundle."""
        raise NotImplementedError

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """What follows from a bundle that has ended."""
        raise NotImplementedError


class _FoldingOperator(BundlingOperator):
    """Folds the records of a bundle and gives (key, what they come to); it has no state."""

    def __init__(
        self, function: Fold, size: int, key_selector: Callable[[Any], Any], latency_ms: int = 0
    ) -> None:
        super().__init__(function, size, latency_ms)
        self._key_selector = key_selector

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """In the order in which the keys came."""
        return [(pair, None) for pair in bundle.items()]


class ReducingOperator(_FoldingOperator):
    """Folds records by a ReduceFunction."""

    function: ReduceFunction

    def fold(self, records: list[Record]) -> None:
        """The first value of a key stands for itself."""
        reduce = self.function.reduce
        select_key = self._key_selector
        bundle = self._bundle
        for value, _ in records:
            key = select_key(value)
            bundle[key] = reduce(bundle[key], value) if key in bundle else value


class AggregatingOperator(_FoldingOperator):
    """Folds records by an AggregateFunction."""

    function: AggregateFunction

    def fold(self, records: list[Record]) -> None:
        """Each key of a bundle has an accumulator."""
        add, create = self.function.add, self.function.create_accumulator
        select_key = self._key_selector
        bundle = self._bundle
        for value, _ in records:
            key = select_key(value)
            bundle[key] = add(value, bundle[key] if key in bundle else create())


class BundleOperator(BundlingOperator):
    """Merges what was folded into the state of its keys; gives one result for each key of a bundle."""

    def __init__(
        self,
        function: Fold,
        size: int,
        key_type: TypeInformation | None,
        folded_type: TypeInformation | None,
        latency_ms: int = 0,
    ) -> None:
        super().__init__(function, size, latency_ms)
        self._key_type = key_type
        self._folded_type = folded_type
        self._merge = function.reduce if isinstance(function, ReduceFunction) else function.merge

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        """State is that of this subtask's key groups."""
        return context.keyed_backend(self._key_type)

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the table of what each key has come to."""
        super().open(context)
        assert self._backend is not None
        self._table = self._backend.table(
            ValueStateDescriptor(STATE_NAME, self._folded_type or Types.DYNAMIC())
        )

    def fold(self, records: list[Record]) -> None:
        """Merge what came from several subtasks, or in several bundles of theirs."""
        merge = self._merge
        bundle = self._bundle
        for (key, folded), _ in records:
            bundle[key] = merge(bundle[key], folded) if key in bundle else folded

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """One access to the state for each key."""
        merge = self._merge
        table = self._table
        for key, folded in bundle.items():
            table[key] = bundle[key] = merge(table[key], folded) if key in table else folded
        if isinstance(self.function, ReduceFunction):
            return [(folded, None) for folded in bundle.values()]
        get_result = self.function.get_result
        return [((key, get_result(accumulator)), None) for key, accumulator in bundle.items()]
