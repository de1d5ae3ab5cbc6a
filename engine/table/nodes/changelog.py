"""Changelogs that are completed or thinned out: by key from upserts, and without -U."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.bundles import KeyedBundles, bundle_size
from onceproof.engine.table.expressions.registry import Evaluate, compile_condition
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import row_equality
from onceproof.engine.table.plans import Node
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row

STATE: Final = "changelogNormalizeState"


class NormalizeSpec(Struct, frozen=True):
    """How a changelog is normalised."""

    types: tuple[LogicalType, ...]
    keys: tuple[int, ...]
    condition: Any
    """The expression of the filter, or None."""
    emits_before: bool
    ttl_ms: int


class Normalization:
    """What both functions do with a change of the current key (Flink: DeduplicateFunctionHelper).

    - The state is the last row of the key that passed the filter; -U and -D are made up from it.
    - A row that no longer passes the filter deletes the one before it.
    - An equal row is not emitted, except with a time to live. A deletion of what is not there is dropped.
    """

    def __init__(self, spec: NormalizeSpec, settings: TableSettings, function: TableFunction) -> None:
        self._spec = spec
        self._same = row_equality(spec.types)
        scope = settings.scope(function.moment)
        self._passes: Evaluate = (
            (lambda row: True) if spec.condition is None else compile_condition(spec.condition, scope)
        )

    def start(self, context: TableContext) -> None:
        self._state = context.value_state(STATE, self._spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        previous = self._state.value()
        if not ADDS[kind]:
            if previous is not None:
                emit((DELETE, previous))
                self._state.clear()
            return
        if previous is None:
            if not self._passes(row):
                return
            emit((INSERT, row))
        else:
            if not self._spec.ttl_ms and self._same(previous, row):
                return
            if not self._passes(row):
                emit((DELETE, previous))
                self._state.clear()
                return
            if self._spec.emits_before:
                emit((UPDATE_BEFORE, previous))
            emit((UPDATE_AFTER, row))
        self._state.update(row)


class ChangelogNormalize(TableFunction):
    """Completes each change when it comes (Flink: ProcTimeDeduplicateKeepLastRowFunction)."""

    def __init__(self, spec: NormalizeSpec, settings: TableSettings) -> None:
        super().__init__()
        self._normalization = Normalization(spec, settings, self)
        self.process = self._normalization.process  # type: ignore[method-assign]

    def start(self, context: TableContext) -> None:
        self._normalization.start(context)


class BundledNormalize(KeyedBundles):
    """Completes the last change of each key in a bundle."""

    def __init__(self, spec: NormalizeSpec, settings: TableSettings, size: int) -> None:
        super().__init__(size, [spec.types[place] for place in spec.keys])
        self._normalization = Normalization(spec, settings, self)

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._normalization.start(context)

    def add(self, collected: Any, kind: int, row: Row) -> tuple[int, Row]:
        return kind, row

    def end(self, collected: tuple[int, Row], emit: Emit) -> None:
        self._normalization.process(*collected, emit)


@translator("changelog-normalize", 1)
def translate_normalize(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the unique key."""
    (given,) = inputs
    attributes = node.attributes
    spec = NormalizeSpec(
        tuple(given.type.types),
        tuple(attributes["uniqueKeys"]),
        attributes.get("filterCondition"),
        attributes["generateUpdateBefore"],
        node.ttl_ms(),
    )
    settings = translation.settings
    if size := bundle_size(node):
        return translation.keyed(node, given, spec.keys, partial(BundledNormalize, spec, settings, size))
    return translation.keyed(node, given, spec.keys, partial(ChangelogNormalize, spec, settings))


class DropUpdateBefore(TableFunction):
    """Drops -U (Flink: DropUpdateBeforeFunction)."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        if kind != UPDATE_BEFORE:
            emit((kind, row))


@translator("drop-update-before", 1)
def translate_drop_update_before(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator."""
    return translation.plain(node, inputs[0], DropUpdateBefore)
