"""The expressions of MATCH_RECOGNIZE: columns of the rows that variables have matched.

An expression is evaluated for a *scene*: in MEASURES a complete match, in DEFINE a row with the match so far.
Before it is compiled, what depends on the match is put in its place:

- A column of a variable is that of its last row; FIRST and LAST count rows from the first or the last, and
  hold for all columns within. A row that is not there is NULL.
- In DEFINE the rows of the variable that is defined end with the row itself.
- An aggregate is over all rows of the variable that its arguments name; COUNT(*) is over all rows.
- FINAL and PREV(..., 0) change nothing.

Flink: MatchCodeGenerator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from onceproof.engine.cep.automaton import Match
from onceproof.engine.cep.conditions import ConditionContext, IterativeCondition
from onceproof.engine.table.aggregates.registry import AggregateCall, create_aggregate, load_aggregates
from onceproof.engine.table.expressions.registry import Evaluate, Scope, compile_expression
from onceproof.engine.table.expressions.rex import (
    Call,
    Expression,
    Literal,
    PatternRef,
    read_expression,
    walk,
)
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import NANOS_PER_MS, Row

ALL_ROWS: Final = "*"
_TRANSPARENT: Final = frozenset({"$FINAL$1", "$RUNNING$1"})


class Scene(Protocol):
    """What an expression is evaluated for."""

    timestamp: int

    def rows(self, variable: str) -> Sequence[Row]:
        """Return the rows of a variable, or all of them."""
        ...


class MatchScene:
    """A complete match."""

    __slots__ = ("_match", "timestamp")

    def __init__(self, match: Match, timestamp: int) -> None:
        self._match, self.timestamp = match, timestamp

    def rows(self, variable: str) -> Sequence[Row]:
        if variable == ALL_ROWS:
            return [row for rows in self._match.values() for row in rows]
        return self._match.get(variable, ())


class DefineScene:
    """A row that may become one of a variable.

    Args:
        row: the row.
        context: the match so far.
        variable: the variable.
        before: all variables of the pattern up to it.
    """

    __slots__ = ("_before", "_context", "_variable", "row", "timestamp")

    def __init__(self, row: Row, context: ConditionContext, variable: str, before: Sequence[str]) -> None:
        self.row, self._context, self._variable, self._before = row, context, variable, before
        self.timestamp = context.timestamp()

    def rows(self, variable: str) -> Sequence[Row]:
        if variable == ALL_ROWS:
            matched = [row for name in self._before for row in self._context.get_events_for_pattern(name)]
            return [*matched, self.row]
        rows = self._context.get_events_for_pattern(variable)
        return [*rows, self.row] if variable == self._variable else rows


class _Definition(IterativeCondition):
    """A condition of DEFINE; NULL is FALSE."""

    def __init__(self, evaluate: Evaluate, variable: str, before: Sequence[str]) -> None:
        self._evaluate: Any = evaluate
        self._variable, self._before = variable, before

    def filter(self, value: Row, ctx: ConditionContext) -> bool:
        return self._evaluate(DefineScene(value, ctx, self._variable, self._before)) is True


class _Located(PatternRef, frozen=True):
    """A column of one row of a variable."""

    from_first: bool = False
    offset: int = 0


class _Aggregated(PatternRef, frozen=True):
    """An aggregate over the rows of a variable."""

    call: Call | None = None


class _Timestamp(PatternRef, frozen=True):
    """The time of the match's last row, or the processing time."""

    is_rowtime: bool = True


def _placed(expression: Expression, from_first: bool = False, offset: int = 0) -> Expression:
    match expression:
        case PatternRef(variable=variable, index=index, type=kind):
            return _Located(variable, index, kind, from_first, offset)
        case Call(name="$MATCH_ROWTIME$1" | "$MATCH_PROCTIME$1" as name, type=kind):
            return _Timestamp("", 0, kind, name == "$MATCH_ROWTIME$1")
        case Call(name="$FIRST$1" | "$LAST$1" as name, operands=(inner, *rest)):
            return _placed(inner, name == "$FIRST$1", _offset(rest))
        case Call(name="$PREV$1", operands=(inner, *rest)):
            if _offset(rest):
                raise UnsupportedPlan("PREV, the row before within the partition")
            return _placed(inner)
        case Call(name="$NEXT$1" | "$CLASSIFIER$1" | "$MATCH_NUMBER$1" as name):
            raise UnsupportedPlan(f"function {name}")
        case Call(name=name, operands=(inner,)) if name in _TRANSPARENT:
            return _placed(inner, from_first, offset)
        case Call(name=name) if not expression.is_user_function and name in load_aggregates():
            return _aggregated(expression)
        case Call(name=name, operands=operands, type=kind):
            inside = tuple([_placed(each, from_first, offset) for each in operands])
            return Call(name, inside, kind, expression.is_user_function)
    return expression


def _offset(operands: Sequence[Expression]) -> int:
    if not operands:
        return 0
    (offset,) = operands
    if not isinstance(offset, Literal):
        raise UnsupportedPlan("an offset in MATCH_RECOGNIZE that is no literal")
    return int(offset.value)


def _aggregated(call: Call) -> Expression:
    variables = {
        each.variable for operand in call.operands for each in walk(operand) if isinstance(each, PatternRef)
    }
    if len(variables) > 1:
        raise UnsupportedPlan(f"aggregate {call.name} of several variables")
    return _Aggregated(variables.pop() if variables else ALL_ROWS, 0, call.type, call)


class MatchExpressions:
    """Compiles the expressions of one node; they read the times of ``moment``."""

    def __init__(self, settings: TableSettings, moment: Moment) -> None:
        self._settings, self._moment = settings, moment

    def _compiled(self, data: Mapping[str, Any], own: str = "") -> Evaluate:
        scope = self._settings.scope(self._moment)
        scope.pattern = lambda ref: self._leaf(ref, own)
        return compile_expression(_placed(read_expression(data)), scope)

    def measure(self, data: Mapping[str, Any]) -> Callable[[MatchScene], Any]:
        """Return the function from a match to a column of MEASURES."""
        return self._compiled(data)  # type: ignore[return-value]

    def condition(self, data: Mapping[str, Any], variable: str, before: Sequence[str]) -> IterativeCondition:
        """Return the condition of a variable."""
        return _Definition(self._compiled(data, variable), variable, before)

    def _leaf(self, ref: PatternRef, own: str) -> Evaluate:
        leaf: Any
        match ref:
            case _Located():
                leaf = _column(ref, own)
            case _Aggregated(call=Call() as call):
                leaf = self._aggregate(ref.variable, call)
            case _Timestamp(is_rowtime=True):
                leaf = _rowtime
            case _:
                leaf = lambda scene: self._moment.processing_ms() * NANOS_PER_MS  # noqa: E731
        evaluate: Evaluate = leaf
        return evaluate

    def _aggregate(self, variable: str, call: Call) -> Callable[[Scene], Any]:
        scope: Scope = self._settings.scope(self._moment)
        scope.pattern = lambda ref: lambda row: row[ref.index]
        operands = [compile_expression(each, scope) for each in call.operands]
        types = tuple([each.type for each in call.operands])
        description = AggregateCall(call.name, tuple(range(len(operands))), types, call.type)
        aggregate = create_aggregate(description, self._settings)

        def evaluate(scene: Scene) -> Any:
            accumulator = aggregate.create()
            for row in scene.rows(variable):
                accumulator = aggregate.add(accumulator, tuple([operand(row) for operand in operands]))
            return aggregate.result(accumulator)

        return evaluate


def _rowtime(scene: Scene) -> int:
    return scene.timestamp * NANOS_PER_MS


def _column(ref: _Located, own: str) -> Callable[[Any], Any]:
    variable, index, offset = ref.variable, ref.index, ref.offset
    if own and variable in (own, ALL_ROWS) and not offset and not ref.from_first:
        return lambda scene: scene.row[index]
    place = offset if ref.from_first else -1 - offset

    def column(scene: Scene) -> Any:
        rows = scene.rows(variable)
        return rows[place][index] if len(rows) > offset else None

    return column
