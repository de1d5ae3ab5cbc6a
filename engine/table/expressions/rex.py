"""The expressions of plans, read from their JSON (Flink: RexNode)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import LogicalType, read_type

NO_TYPE = LogicalType("NULL")


class InputRef(Struct, frozen=True):
    """A column of the input row; in joins the right row follows the left one."""

    index: int
    type: LogicalType


class Literal(Struct, frozen=True):
    """A constant: its value as the plan has it, in JSON."""

    value: Any
    type: LogicalType


class Symbol(Struct, frozen=True):
    """A word of the language among the operands, such as a unit of time or the kind of TRIM."""

    name: str
    """Its family, such as TIME_UNIT_RANGE."""
    value: str
    type: LogicalType = NO_TYPE


class Range(Struct, frozen=True):
    """A part of a SEARCH: bounds as JSON; None: it has none at this side."""

    lower: Any
    upper: Any
    lower_closed: bool
    upper_closed: bool


class Sarg(Struct, frozen=True):
    """The set that a SEARCH looks into (Calcite: Sarg)."""

    ranges: tuple[Range, ...]
    null_as: str
    """What NULL becomes: TRUE, FALSE or UNKNOWN."""
    type: LogicalType


class Call(Struct, frozen=True):
    """A call of a function."""

    name: str
    """Its name for plans, such as ``$UPPER$1``; of a user's function the name under which it was created."""
    operands: tuple[Expression, ...]
    type: LogicalType
    is_user_function: bool = False


class FieldAccess(Struct, frozen=True):
    """A field of a row."""

    name: str
    of: Expression
    type: LogicalType


class CorrelVariable(Struct, frozen=True):
    """The row of the left side, in a lateral join."""

    name: str
    type: LogicalType


class PatternRef(Struct, frozen=True):
    """A column of the rows matched by a variable of MATCH_RECOGNIZE; ``*`` is all of them."""

    variable: str
    index: int
    type: LogicalType


Expression: TypeAlias = InputRef | Literal | Symbol | Sarg | Call | FieldAccess | CorrelVariable | PatternRef


def read_expression(data: Mapping[str, Any]) -> Expression:
    """Read an expression. Raises UnsupportedPlan for a kind that is not known."""
    kind = data["kind"]
    match kind:
        case "INPUT_REF":
            return InputRef(data["inputIndex"], read_type(data["type"]))
        case "LITERAL":
            return _literal(data)
        case "CALL":
            return _call(data)
        case "FIELD_ACCESS":
            of = read_expression(data["expr"])
            return FieldAccess(data["name"], of, _field_type(of.type, data["name"]))
        case "CORREL_VARIABLE":
            return CorrelVariable(data["correl"], read_type(data["type"]))
        case "PATTERN_INPUT_REF":
            return PatternRef(data["alpha"], data["inputIndex"], read_type(data["type"]))
    raise UnsupportedPlan(f"expression {kind}")


def _literal(data: Mapping[str, Any]) -> Expression:
    if "sarg" in data:
        sarg = data["sarg"]
        ranges = tuple([_range(each) for each in sarg["ranges"]])
        null_as = sarg.get("nullAs") or ("TRUE" if sarg.get("containsNull") else "UNKNOWN")
        return Sarg(ranges, null_as, read_type(data["type"]))
    if "symbol" in data:
        return Symbol(data["symbol"], data["value"])
    return Literal(data.get("value"), read_type(data["type"]))


def _range(data: Mapping[str, Any]) -> Range:
    lower, upper = data.get("lower"), data.get("upper")
    return Range(
        lower["value"] if lower else None,
        upper["value"] if upper else None,
        lower is None or lower["boundType"] == "CLOSED",
        upper is None or upper["boundType"] == "CLOSED",
    )


def _call(data: Mapping[str, Any]) -> Call:
    operands = tuple([read_expression(each) for each in data.get("operands", ())])
    kind = read_type(data["type"])
    if "internalName" in data:
        return Call(data["internalName"], operands, kind)
    if "sqlKind" in data:
        # An operator of Calcite that Flink has no function for, such as PATTERN_CONCAT.
        return Call(data["sqlKind"], operands, kind)
    for key in ("systemName", "catalogName", "class"):
        if key in data:
            return Call(data[key], operands, kind, is_user_function=True)
    raise UnsupportedPlan(f"a call without a name ({', '.join(sorted(data))})")


def _field_type(row: LogicalType, name: str) -> LogicalType:
    for field in row.fields:
        if field.name == name:
            return field.type
    raise UnsupportedPlan(f"field {name} of {row}")


def walk(expression: Expression) -> Iterator[Expression]:
    """Iterate over an expression and all that it is made of."""
    yield expression
    if isinstance(expression, Call):
        for operand in expression.operands:
            yield from walk(operand)
    elif isinstance(expression, FieldAccess):
        yield from walk(expression.of)
