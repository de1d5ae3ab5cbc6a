"""Sinks of tables: what is checked and cut before a row is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.nodes.sink_materialize import materialize
from onceproof.engine.table.operators import Emit, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_ends import WRITING_METADATA, sink_end
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import BINARIES, LONGEST, TEXTS, Field
from onceproof.engine.table.values import Row

NOT_NULL: Final = "table.exec.sink.not-null-enforcer"
LENGTH: Final = "table.exec.sink.type-length-enforcer"
NESTED: Final = "table.exec.sink.nested-constraint-enforcer"
ENFORCER_EXCEPTION: Final = "org.apache.flink.table.runtime.operators.sink.constraint.EnforcerException"


class LengthRule(Struct, frozen=True):
    """How long the values of a column may be."""

    column: int
    field: Field

    @property
    def is_fixed(self) -> bool:
        """Whether a shorter value is wrong as well."""
        return self.field.type.root in ("CHAR", "BINARY")

    def is_kept(self, value: Any) -> bool:
        """Return whether a value, not NULL, has a length of the type."""
        length = self.field.type.precision
        return len(value) == length if self.is_fixed else len(value) <= length

    def cut_or_padded(self, value: Any) -> Any:
        """Return a value cut to the length, or filled up where the length is fixed."""
        length = self.field.type.precision
        if self.is_fixed:
            value = value.ljust(length, b"\0" if isinstance(value, bytes) else " ")
        return value[:length]


class ConstraintEnforcer(TableFunction):
    """Checks what a table declares of its columns (Flink: ConstraintEnforcer).

    A NULL in a NOT NULL column fails the job or drops the row; a text or binary value of a wrong length fails
    the job or is cut and padded.

    Args:
        columns: the NOT NULL columns with their names.
        drops: whether a row with a NULL is dropped.
        rules: the lengths to check.
        trims: whether values are cut and padded.
    """

    def __init__(
        self, columns: Sequence[tuple[int, str]], drops: bool, rules: Sequence[LengthRule], trims: bool
    ) -> None:
        super().__init__()
        self._columns = columns
        self._drops = drops
        self._rules = rules
        self._fit: Callable[[Row, LengthRule], Row] = _trimmed if trims else _refused

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        for column, name in self._columns:
            if row[column] is None:
                if self._drops:
                    return
                raise FunctionFailed(
                    f"Column '{name}' is NOT NULL, however, a null value is being written into it."
                    f" You can set job configuration '{NOT_NULL}'='DROP' to suppress this exception and"
                    " drop such records silently.",
                    ENFORCER_EXCEPTION,
                )
        for rule in self._rules:
            value = row[rule.column]
            if value is not None and not rule.is_kept(value):
                row = self._fit(row, rule)
        emit((kind, row))


def _trimmed(row: Row, rule: LengthRule) -> Row:
    return (*row[: rule.column], rule.cut_or_padded(row[rule.column]), *row[rule.column + 1 :])


def _refused(row: Row, rule: LengthRule) -> Row:
    kind = rule.field.type
    raise FunctionFailed(
        f"Column '{rule.field.name}' is {kind.root}({kind.precision}), however, a string of length"
        f" {len(row[rule.column])} is being written into it. You can set job configuration '{LENGTH}' to"
        " control this behaviour.",
        ENFORCER_EXCEPTION,
    )


def _length_rules(fields: Sequence[Field]) -> list[LengthRule]:
    return [
        LengthRule(place, field)
        for place, field in enumerate(fields)
        if field.type.root in TEXTS | BINARIES and field.type.precision != LONGEST
    ]


@translator("sink", 1, 2)
def translate_sink(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Check the rows, and hand the stream to the sink of the table."""
    (given,) = inputs
    end = sink_end(node)
    for ability in node.attributes["dynamicTableSink"].get("abilities", ()):
        if ability["type"] != WRITING_METADATA:
            raise UnsupportedPlan(f"a sink with {ability['type']}")
    fields = end.columns.fields
    columns = [(place, each.name) for place, each in enumerate(fields) if not each.type.nullable]
    length = node.option(LENGTH, "IGNORE")
    if length not in ("IGNORE", "ERROR", "TRIM_PAD"):
        raise UnsupportedPlan(f"{LENGTH} {length}")
    if node.option(NESTED, "IGNORE") != "IGNORE":
        raise UnsupportedPlan(f"{NESTED} {node.option(NESTED)}")
    rules = [] if length == "IGNORE" else _length_rules(fields)
    if columns or rules:
        drops = node.option(NOT_NULL) == "DROP"
        make = partial(ConstraintEnforcer, columns, drops, rules, length == "TRIM_PAD")
        given = translation.plain(node, given, make, "not-null")
    if node.attributes.get("requireUpsertMaterialize"):
        given = materialize(node, given, end, translation)
    translation.tables.sink(given.stream, end)
    return TableStream(given.stream, node.output)
