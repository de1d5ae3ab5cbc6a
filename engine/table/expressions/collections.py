"""Arrays, maps and rows: constructors, access and functions (Flink: functions.scalar of table.runtime).

Arrays count from 1. A map is a tuple of pairs; only MAP_FROM_ARRAYS makes one in which a key occurs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from typing import Any, Final

from onceproof.engine.table.expressions.conditionals import as_type
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    FunctionFailed,
    Scope,
    builder,
    strict,
)
from onceproof.engine.table.expressions.rex import Call, Literal
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row, identity

Values = tuple[Any, ...]
Pairs = tuple[tuple[Any, Any], ...]


def _elements(
    call: Call, operands: Sequence[Evaluate], kinds: Sequence[LogicalType], scope: Scope
) -> list[Evaluate]:
    """Return operands in the types of the elements."""
    given = [operand.type for operand in call.operands]
    return [as_type(*parts, scope) for parts in zip(operands, given, kinds, strict=True)]


# ---- constructors


@builder("$ARRAY$1")
def _array(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    items = _elements(call, operands, [call.type.element] * len(operands), scope)
    return lambda row: tuple([item(row) for item in items])


@builder("$MAP$1")
def _map(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    items = _elements(call, operands, list(call.type.arguments) * (len(operands) // 2), scope)
    pairs = list(zip(items[::2], items[1::2], strict=True))
    return lambda row: tuple({key(row): value(row) for key, value in pairs}.items())


@builder("$ROW$1")
def _row(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    items = _elements(call, operands, call.type.types, scope)
    return lambda row: tuple([item(row) for item in items])


# ---- access


@strict("$ITEM$1")
def _item(call: Call, scope: Scope) -> Callable[..., Any]:
    match call.operands[0].type.root:
        case "ARRAY":
            return lambda values, index: values[index - 1] if 1 <= index <= len(values) else None
        case "MAP":
            return lambda pairs, key: next((value for name, value in pairs if name == key), None)
        case "ROW" | "STRUCTURED":
            kind, index = call.operands[0].type, call.operands[1]
            if isinstance(index, Literal) and isinstance(index.value, str):
                place = kind.names.index(index.value)
                return lambda row, _: row[place]
            return lambda row, place: row[place - 1]
    raise UnsupportedPlan(f"function $ITEM$1 of {call.operands[0].type.root}")


@strict("$GET$1")
def _get(call: Call, scope: Scope) -> Callable[..., Any]:
    index = call.operands[1]
    assert isinstance(index, Literal)
    names = call.operands[0].type.names
    place = names.index(index.value) if isinstance(index.value, str) else int(index.value)
    return lambda row, _: row[place]


@strict("$CARDINALITY$1")
def _cardinality(call: Call, scope: Scope) -> Callable[..., Any]:
    return len


@strict("$ELEMENT$1")
def _element(call: Call, scope: Scope) -> Callable[..., Any]:
    def only(values: Values) -> Any:
        if len(values) > 1:
            raise FunctionFailed("Array has more than one element.")
        return values[0] if values else None

    return only


# ---- functions of arrays


def _key(value: Any) -> Any:
    """Return what stands for a value in a set of elements."""
    return identity((value,))


def _first_of_each(values: Iterable[Any]) -> Values:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
    return tuple(found.values())


def _without(values: Values, others: Values) -> Values:
    """Return the values of which ``others`` does not hold an equal one, each once."""
    keys = {_key(each) for each in others}
    return _first_of_each([value for value in values if _key(value) not in keys])


def _common(values: Values, others: Values) -> Values:
    keys = {_key(each) for each in others}
    return _first_of_each([value for value in values if _key(value) in keys])


def _slice(values: Values, start: int, end: int | None = None) -> Values:
    """Return the elements from a position to another, both inclusive; negative ones count from the end."""
    size = len(values)
    begin = start if start > 0 else 1 if start == 0 else size + start + 1
    stop = size if end is None else end if end > 0 else 1 if end == 0 else size + end + 1
    begin = max(begin, 1)
    return () if begin > size or stop < begin else values[begin - 1 : stop]


def _sort(values: Values, ascending: bool = True, nulls_first: bool | None = None) -> Values:
    nulls = tuple([value for value in values if value is None])
    others = [value for value in values if value is not None]

    def compare(first: Any, second: Any) -> int:
        return 1 if first > second else -1 if first < second else 0

    rest = tuple(sorted(others, key=cmp_to_key(compare), reverse=not ascending))
    first = ascending if nulls_first is None else nulls_first
    return nulls + rest if first else rest + nulls


def _extreme(greatest: bool) -> Callable[[Values], Any]:
    def choose(values: Values) -> Any:
        best = None
        for value in values:
            if value is not None and (best is None or (value > best if greatest else value < best)):
                best = value
        return best

    return choose


_ARRAYS: Final[dict[str, Callable[..., Any]]] = {
    "$ARRAY_REVERSE$1": lambda values: values[::-1],
    "$ARRAY_DISTINCT$1": _first_of_each,
    "$ARRAY_UNION$1": lambda values, others: _first_of_each(values + others),
    "$ARRAY_EXCEPT$1": _without,
    "$ARRAY_INTERSECT$1": _common,
    "$ARRAY_MAX$1": _extreme(True),
    "$ARRAY_MIN$1": _extreme(False),
    "$ARRAY_SORT$1": _sort,
}


@strict(*_ARRAYS)
def _of_arrays(call: Call, scope: Scope) -> Callable[..., Any]:
    return _ARRAYS[call.name]


@strict("$ARRAY_CONCAT$1")
def _array_concat(call: Call, scope: Scope) -> Callable[..., Any]:
    return lambda *arrays: sum(arrays, ())


@strict("$ARRAY_SLICE$1")
def _array_slice(call: Call, scope: Scope) -> Callable[..., Any]:
    return _slice


def _with_needle(apply: Callable[[Values, Any], Any]) -> Any:
    """Return the builder of a function of an array and an element, which may be NULL."""

    def build(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
        array, needle = operands
        if call.operands[0].type.root == "ARRAY":
            needle = as_type(needle, call.operands[1].type, call.operands[0].type.element, scope)

        def evaluate(row: Row) -> Any:
            values = array(row)
            return None if values is None else apply(values, needle(row))

        return evaluate

    return build


def _position(values: Values, needle: Any) -> int | None:
    return None if needle is None else next((at for at, each in enumerate(values, 1) if each == needle), 0)


builder("$ARRAY_CONTAINS$1")(_with_needle(lambda values, needle: needle in values))
builder("$ARRAY_POSITION$1")(_with_needle(_position))
builder("$ARRAY_REMOVE$1")(
    _with_needle(lambda values, needle: tuple([each for each in values if each != needle]))
)


@builder("$ARRAY_APPEND$1", "$ARRAY_PREPEND$1")
def _array_append(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    wanted = call.type.element
    array = as_type(operands[0], call.operands[0].type, call.type, scope)
    added = as_type(operands[1], call.operands[1].type, wanted, scope)
    at_end = call.name == "$ARRAY_APPEND$1"

    def evaluate(row: Row) -> Any:
        values = array(row)
        if values is None:
            return None
        return (*values, added(row)) if at_end else (added(row), *values)

    return evaluate


@builder("$ARRAY_JOIN$1")
def _array_join(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    array, separator, *replacement = operands

    def evaluate(row: Row) -> str | None:
        values, mark = array(row), separator(row)
        if values is None or mark is None:
            return None
        if not replacement:
            return str(mark).join([each for each in values if each is not None])
        null = replacement[0](row)
        return None if null is None else str(mark).join([null if each is None else each for each in values])

    return evaluate


# ---- functions of maps


@strict("$MAP_KEYS$1")
def _keys(call: Call, scope: Scope) -> Callable[[Pairs], Values]:
    return lambda pairs: tuple([key for key, _ in pairs])


@strict("$MAP_VALUES$1")
def _values(call: Call, scope: Scope) -> Callable[[Pairs], Values]:
    return lambda pairs: tuple([value for _, value in pairs])


@strict("$MAP_ENTRIES$1")
def _entries(call: Call, scope: Scope) -> Callable[[Pairs], Pairs]:
    return lambda pairs: pairs


@builder("$MAP_UNION$1")
def _map_union(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Join maps; the last value of a key counts, and the keys of the last map come first."""
    maps = _elements(call, operands, [call.type] * len(operands), scope)

    def evaluate(row: Row) -> Pairs | None:
        found: dict[Any, Any] = {}
        for each in reversed(maps):
            pairs = each(row)
            if pairs is None:
                return None
            for key, value in pairs:
                found.setdefault(key, value)
        return tuple(found.items())

    return evaluate


@strict("$MAP_FROM_ARRAYS$1")
def _map_from_arrays(call: Call, scope: Scope) -> Callable[[Values, Values], Pairs]:
    def join(keys: Values, values: Values) -> Pairs:
        if len(keys) != len(values):
            raise FunctionFailed(
                "Invalid function MAP_FROM_ARRAYS call:\n"
                "The length of the keys array "
                f"{len(keys)} is not equal to the length of the values array {len(values)}",
                "org.apache.flink.util.FlinkRuntimeException",
            )
        # Flink keeps both arrays as they are, so that a key may occur twice.
        return tuple(zip(keys, values, strict=True))

    return join
