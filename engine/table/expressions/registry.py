"""The functions of SQL by their names in plans, and the compiler of expressions to Python callables.

A module of functions registers builders; ``FUNCTION_MODULES`` lists the modules, one for an area, so that
two people never edit the same one. A builder is called once for each call in a plan, with the compiled
operands, and returns the callable that evaluates it for a row:

- ``@builder("$AND$1")``: ``(call, operands, scope) -> (row -> value)``, for functions that see NULL
  themselves.
- ``@strict("$UPPER$1")``: ``(call, scope) -> (values -> value)``, for functions that are NULL where any
  operand is; the registry looks for NULL.

A function raises what fails the job at run time; ``FunctionFailed`` has Flink's class and message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from operator import itemgetter
from typing import Any, Final, TypeAlias

from onceproof.engine.table.expressions.literals import literal_value
from onceproof.engine.table.expressions.rex import (
    Call,
    CorrelVariable,
    Expression,
    FieldAccess,
    InputRef,
    Literal,
    PatternRef,
    Sarg,
    Symbol,
    read_expression,
)
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.registration import registering
from onceproof.engine.table.values import Row

Evaluate: TypeAlias = Callable[[Row], Any]
Builder: TypeAlias = "Callable[[Call, Sequence[Evaluate], Scope], Evaluate]"
StrictBuilder: TypeAlias = "Callable[[Call, Scope], Callable[..., Any]]"

FUNCTION_MODULES: Final = (
    "logic",
    "arithmetic",
    "casts",
    "conditionals",
    "strings",
    "regular_expressions",
    "times",
    "collections",
    "json_functions",
    "mathematics",
    "hashes_and_types",
    "printf",
    "bitmaps",
    "structures",
)
"""The modules of this package that register functions."""

BUILDERS: Final[dict[str, Builder]] = {}


class FunctionFailed(RuntimeError):
    """A function fails the job, as in Flink.

    Args:
        message: Flink's.
        java_class: the class of Flink's exception.
    """

    def __init__(self, message: str, java_class: str = "java.lang.RuntimeException") -> None:
        super().__init__(message)
        self.java_class = java_class


class Scope:
    """What expressions of one function object may use besides the row.

    Args:
        options: the table options of the job (``table.local-time-zone`` and the like).
        moment: the time of the operator.
        functions: the user's functions by name: plain callables.
        correlated: evaluates a correlation variable from the row that is passed, for lateral joins.
        pattern: evaluates pattern references, for MATCH_RECOGNIZE.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        moment: Moment,
        functions: Mapping[str, Callable[..., Any]],
        correlated: Callable[[CorrelVariable], Evaluate] | None = None,
        pattern: Callable[[PatternRef], Evaluate] | None = None,
    ) -> None:
        self.options = options
        self.moment = moment
        self.functions = functions
        self.correlated = correlated
        self.pattern = pattern

    @property
    def zone(self) -> str:
        """The name of the session's time zone."""
        return self.options.get("table.local-time-zone", "UTC")


def builder(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder under names of plans."""
    return registering(BUILDERS, names)


def strict(*names: str) -> Callable[[StrictBuilder], StrictBuilder]:
    """Register a function that is NULL where any operand is NULL."""

    def register(make: StrictBuilder) -> StrictBuilder:
        builder(*names)(lambda call, operands, scope: strictly(make(call, scope), operands))
        return make

    return register


def strictly(apply: Callable[..., Any], operands: Sequence[Evaluate]) -> Evaluate:
    """Return the evaluation of a function that is not called where an operand is NULL."""
    if len(operands) == 1:
        (only,) = operands

        def one(row: Row) -> Any:
            value = only(row)
            return None if value is None else apply(value)

        return one
    if len(operands) == 2:
        first, second = operands

        def two(row: Row) -> Any:
            left = first(row)
            if left is None:
                return None
            right = second(row)
            return None if right is None else apply(left, right)

        return two

    def many(row: Row) -> Any:
        values = [operand(row) for operand in operands]
        return None if None in values else apply(*values)

    return many


@lru_cache(maxsize=1)
def load_functions() -> Mapping[str, Builder]:
    """Import the modules of functions, and return all builders by name."""
    for name in FUNCTION_MODULES:
        import_module(f"{__package__}.{name}")
    return BUILDERS


def compile_expression(expression: Expression | Mapping[str, Any], scope: Scope) -> Evaluate:
    """Return the callable that evaluates an expression for a row.

    Args:
        expression: the expression, or its JSON in a plan.
        scope: what it may use besides the row.

    Raises:
        UnsupportedPlan: it calls a function that is not known; the error names it.
    """
    if isinstance(expression, Mapping):
        expression = read_expression(expression)
    match expression:
        case InputRef(index=index):
            return itemgetter(index)
        case Literal():
            return constant(literal_value(expression))
        case Call():
            return _compile_call(expression, scope)
        case FieldAccess(name=name, of=of):
            return _field(compile_expression(of, scope), of.type.names.index(name))
        case CorrelVariable() if scope.correlated is not None:
            return scope.correlated(expression)
        case PatternRef() if scope.pattern is not None:
            return scope.pattern(expression)
        case Symbol(value=word):
            return constant(word)
        case Sarg():
            # SEARCH looks at the operand itself.
            return constant(None)
    raise UnsupportedPlan(f"expression {type(expression).__name__} here")


def constant(value: Any) -> Evaluate:
    """Return the evaluation of a constant."""
    return lambda row: value


def _field(evaluate: Evaluate, index: int) -> Evaluate:
    def field(row: Row) -> Any:
        value = evaluate(row)
        return None if value is None else value[index]

    return field


def _compile_call(call: Call, scope: Scope) -> Evaluate:
    if call.is_user_function:
        function = scope.functions.get(call.name)
        if function is None:
            raise UnsupportedPlan(f"user function {call.name}")
        if hasattr(function, "scalar"):
            function = function.scalar([each.type for each in call.operands], call.type)
        return _user_call(function, [compile_expression(each, scope) for each in call.operands])
    build = load_functions().get(call.name)
    if build is None:
        raise UnsupportedPlan(f"function {call.name}")
    return build(call, [compile_expression(each, scope) for each in call.operands], scope)


def _user_call(function: Callable[..., Any], operands: Sequence[Evaluate]) -> Evaluate:
    return lambda row: function(*[operand(row) for operand in operands])


def compile_condition(expression: Expression | Mapping[str, Any], scope: Scope) -> Evaluate:
    """Return the evaluation of a condition; what is not TRUE filters."""
    return compile_expression(expression, scope)


def compile_projection(
    expressions: Sequence[Expression | Mapping[str, Any]], scope: Scope
) -> Callable[[Row], Row]:
    """Return the function from a row to the row of these expressions."""
    read = [each if not isinstance(each, Mapping) else read_expression(each) for each in expressions]
    if len(read) > 1 and all(isinstance(each, InputRef) for each in read):
        return itemgetter(*[each.index for each in read if isinstance(each, InputRef)])
    evaluations = [compile_expression(each, scope) for each in read]
    if len(evaluations) == 1:
        (only,) = evaluations
        return lambda row: (only(row),)
    return lambda row: tuple([evaluate(row) for evaluate in evaluations])
