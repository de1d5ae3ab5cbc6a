"""Mini-batches: functions that collect changes and handle them key by key (Flink: MapBundleFunction).

Rules:

- A bundle ends when it has as many changes as the option says, at every watermark, before every barrier, and
  at the end of the input. So nothing of it is in a snapshot.
- Within a bundle the keys come in the order of Java's HashMap (``hash_order.py``).
- ``mini-batch-assigner`` emits the watermarks that end bundles; they bear processing time or event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onceproof.engine.key_identity import value_of
from onceproof.engine.table.hash_order import HashOrder
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row

ENABLED: Final = "table.exec.mini-batch.enabled"
SIZE: Final = "table.exec.mini-batch.size"


def bundle_size(node: Node) -> int:
    """Return the greatest number of changes in a bundle of a node; 0: it has no bundles.

    Raises:
        UnsupportedPlan: mini-batch is enabled without a size.
    """
    if node.option(ENABLED) != "true":
        return 0
    size = int(node.option(SIZE, "-1"))
    if size <= 0:
        raise UnsupportedPlan(f"a bundle of {size} rows")
    return size


class Bundles(TableFunction):
    """A function whose bundles end at watermarks, barriers, and the end of the input."""

    def flush(self, emit: Emit) -> None:
        """End the bundle."""
        raise NotImplementedError

    def on_watermark(self, watermark: int, emit: Emit) -> None:
        self.flush(emit)

    def before_barrier(self, emit: Emit) -> None:
        self.flush(emit)

    def finish(self, emit: Emit) -> None:
        self.flush(emit)


class KeyedBundles(Bundles):
    """A function that collects changes by key.

    Subclasses say what they keep of a key's changes (``add``), and what is done with it (``end``).

    Args:
        size: the greatest number of changes in a bundle.
        key_types: the types of the columns of the key.
    """

    def __init__(self, size: int, key_types: Sequence[LogicalType]) -> None:
        super().__init__()
        self._size = size
        self._order = HashOrder(key_types)
        self._has_one_column = len(key_types) == 1
        self._count = 0
        self._bundle: dict[Any, Any] = {}

    def start(self, context: TableContext) -> None:
        self._backend = context.backend

    def add(self, collected: Any, kind: int, row: Row) -> Any:
        """Return what is kept of the current key with a change more; ``collected`` is None at its first."""
        raise NotImplementedError

    def end(self, collected: Any, emit: Emit) -> None:
        """Handle what was kept of the current key."""
        raise NotImplementedError

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        key = self._backend.current_key
        self._bundle[key] = self.add(self._bundle.get(key), kind, row)
        self._count += 1
        if self._count >= self._size:
            self.flush(emit)

    def flush(self, emit: Emit) -> None:
        for key, collected in self.take():
            self._backend.current_key = key
            self.end(collected, emit)

    def take(self) -> list[tuple[Any, Any]]:
        """Begin a new bundle; return what the last one has: the identities of its keys, and what was kept."""
        entries = list(self._bundle.items())
        self._bundle, self._count = {}, 0
        keys = [value_of(key) for key, _ in entries]
        rows = [(key,) for key in keys] if self._has_one_column else keys
        return [entries[place] for place in self._order.sorted(rows)]
