"""CAST, TRY_CAST and REINTERPRET. A skeleton: ``CASTS`` maps pairs of roots to what makes the conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder, strictly
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import NANOS_PER_MS, wrap

Convert: TypeAlias = Callable[[Any], Any]
MakeCast: TypeAlias = "Callable[[LogicalType, LogicalType, Scope], Convert]"
CASTS: Final[dict[tuple[str, str], MakeCast]] = {}
"""What makes the conversion from one root to another: ``(given, wanted, scope) -> (value -> value)``."""


def cast(given: Sequence[str], wanted: Sequence[str]) -> Callable[[MakeCast], MakeCast]:
    """Register a conversion between roots."""

    def register(make: MakeCast) -> MakeCast:
        CASTS.update({(first, second): make for first in given for second in wanted})
        return make

    return register


def conversion(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    """Return the function from a value (never NULL) to its value in another type.

    Raises:
        UnsupportedPlan: the cast is not known.
    """
    if given.as_nullable() == wanted.as_nullable():
        return lambda value: value
    make = CASTS.get((given.root, wanted.root))
    if make is None:
        raise UnsupportedPlan(f"a cast from {given.root} to {wanted.root}")
    return make(given, wanted, scope)


@cast(tuple(INTEGERS), tuple(INTEGERS))
def _integers(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    bits = INTEGERS[wanted.root]
    return lambda value: wrap(value, bits)


@cast(("TIMESTAMP",), ("TIMESTAMP",))
def _timestamps(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    unit: int = 10 ** (9 - wanted.precision)
    return lambda value: value // unit * unit


@cast(("NULL",), tuple(INTEGERS))
def _null(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    return lambda value: None


@builder("$CAST$1")
def _cast(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    return strictly(conversion(call.operands[0].type, call.type, scope), operands)


@builder("$REINTERPRET$1")
def _reinterpret(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Times as numbers: milliseconds, as watermarks are."""
    given, wanted = call.operands[0].type.root, call.type.root
    if given in ("TIMESTAMP", "TIMESTAMP_LTZ") and wanted == "BIGINT":
        return strictly(lambda value: value // NANOS_PER_MS, operands)
    return operands[0]
