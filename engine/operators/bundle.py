"""Bundles: the values of a key are folded before they are sent and before state is accessed (mini-batch).

The rules this module lives by:

- A bundle is a dict from key to the folded value of its records. It ends after ``size`` records, at a
  watermark, before a barrier, at the end of the data and, with a latency, that long after its first record.
- No bundle is open during a snapshot, so a bundle is never stored or restored.
- Folding is done twice, as in Flink SQL (MapBundleOperator, local and global): in the upstream task, so that
  one value for each key is sent instead of one for each record, and in the task that owns the key, which has
  the state.
- The end of a bundle depends on when records and barriers arrive. How many results a key has, and which, may
  therefore differ between runs; the last result of a key does not.
- Results have no timestamp, as in Flink, because they stand for several records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.elements import Record
from onceproof.engine.functions import AggregateFunction, ReduceFunction
from onceproof.engine.key_identity import value_of
from onceproof.engine.operators.base import FunctionOperator, OperatorContext
from onceproof.engine.owned import own_records
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.scalars import key_rule_of
from onceproof.engine.wall_clock import WallClock

STATE_NAME: Final = "bundled"

Fold = ReduceFunction | AggregateFunction


class BundlingOperator(FunctionOperator):
    """Collects records in a bundle, and emits its results when it ends."""

    function: Fold

    def __init__(self, function: Fold, size: int, latency_ms: int = 0) -> None:
        super().__init__(function)
        self.uses_time = latency_ms > 0
        self._size = size
        self._latency_ms = latency_ms
        self._due_ms: int | None = None
        """When the bundle ends, by the steady clock; None: it is empty, or has no latency."""
        self._taken = 0
        self._bundle: dict[Any, Any] = {}

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._clock = context.steady_clock
        if self.uses_time:
            assert context.downstream is not None
            self._wake_at = context.downstream.wake_at_steady

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Return the results of the bundles that these records fill."""
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
        """End the bundle if its latency is over, or request another wake-up."""
        if self._due_ms is None:
            return []
        if self._clock() >= self._due_ms:
            return self._end_bundle()
        self._wake_at(self._due_ms)
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        return self._due_ms

    def process_watermark(self, timestamp: int) -> list[Record]:
        return self._end_bundle()

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        return self._end_bundle()

    def finish(self) -> list[Record]:
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
        """Fold records into the bundle."""
        raise NotImplementedError

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """Return the records to emit for a bundle that has ended."""
        raise NotImplementedError


class _FoldingOperator(BundlingOperator):
    """Folds the records of a bundle and emits (key, folded value); it has no state."""

    def __init__(
        self,
        function: Fold,
        size: int,
        key_selector: Callable[[Any], Any],
        latency_ms: int = 0,
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, size, latency_ms)
        self._key_selector = key_selector
        self._plain_keys, self._identify = key_rule_of(key_type)

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """Return one pair for each key, in the order of the keys' first records."""
        return own_records([((value_of(key), folded), None) for key, folded in bundle.items()])


class ReducingOperator(_FoldingOperator):
    """Folds records by a ReduceFunction."""

    function: ReduceFunction

    def fold(self, records: list[Record]) -> None:
        reduce = self.function.reduce
        select_key = self._key_selector
        plain, identify = self._plain_keys, self._identify
        bundle = self._bundle
        for value, _ in records:
            key = select_key(value)
            if key.__class__ not in plain:
                key = identify(key)
            bundle[key] = reduce(bundle[key], value) if key in bundle else value


class AggregatingOperator(_FoldingOperator):
    """Folds records by an AggregateFunction."""

    function: AggregateFunction

    def fold(self, records: list[Record]) -> None:
        add, create = self.function.add, self.function.create_accumulator
        select_key = self._key_selector
        plain, identify = self._plain_keys, self._identify
        bundle = self._bundle
        for value, _ in records:
            key = select_key(value)
            if key.__class__ not in plain:
                key = identify(key)
            bundle[key] = add(value, bundle[key] if key in bundle else create())


class BundleOperator(BundlingOperator):
    """Merges folded values into the state of their keys; emits one result for each key of a bundle."""

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
        return context.keyed_backend(self._key_type)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert self._backend is not None
        self._table = self._backend.table(
            ValueStateDescriptor(STATE_NAME, self._folded_type or Types.DYNAMIC())
        )

    def fold(self, records: list[Record]) -> None:
        """Merge the folded values of a key that came from several subtasks or bundles."""
        merge = self._merge
        bundle = self._bundle
        assert self._backend is not None
        plain, identify = self._backend.plain_keys, self._backend.identify
        for (key, folded), _ in records:
            if key.__class__ not in plain:
                key = identify(key)
            bundle[key] = merge(bundle[key], folded) if key in bundle else folded

    def results(self, bundle: dict[Any, Any]) -> list[Record]:
        """Merge the bundle into state, with one access for each key."""
        merge = self._merge
        table = self._table
        for key, folded in bundle.items():
            table[key] = bundle[key] = merge(table[key], folded) if key in table else folded
        if isinstance(self.function, ReduceFunction):
            return own_records([(folded, None) for folded in bundle.values()])
        get_result, own = self.function.get_result, self._own
        return [((value_of(key), own(get_result(accumulator))), None) for key, accumulator in bundle.items()]
