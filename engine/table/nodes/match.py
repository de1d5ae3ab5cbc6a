"""MATCH_RECOGNIZE on the automaton of ``engine/cep``.

Rules:

- When a row is matched is a matter of ``engine/cep/matching.py``; its order is that of the further ORDER BY
  columns. Late rows are dropped.
- A variable without a condition matches every row. Quantifiers are greedy unless they say otherwise, except
  where there is nothing to be greedy about (``?`` and ``{n}``), and a loop takes rows that follow each other.
- A match is one row: the partition, then MEASURES.

State: that of the matching. Flink: StreamExecMatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.cep.automaton import Automaton, Match
from onceproof.engine.cep.matching import Matching, MatchStates
from onceproof.engine.cep.pattern import Pattern
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy
from onceproof.engine.durations import Duration
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.expressions.rex import Call, Expression, Literal, Symbol, read_expression
from onceproof.engine.table.nodes.match_expressions import MatchExpressions, MatchScene
from onceproof.engine.table.nodes.windows import NO_ROWTIME
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import SortField, read_order, sort_key
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import PROCTIME, LogicalType
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row

_SKIPS: Final = {
    "SKIP_TO_NEXT_ROW": AfterMatchSkipStrategy.skip_to_next(),
    "SKIP_PAST_LAST_ROW": AfterMatchSkipStrategy.skip_past_last_event(),
}
_SKIPS_TO: Final = {
    "$SKIP TO FIRST$1": AfterMatchSkipStrategy.skip_to_first,
    "$SKIP TO LAST$1": AfterMatchSkipStrategy.skip_to_last,
}
_UNBOUNDED: Final = -1


class Variable(Struct, frozen=True):
    """A variable of the pattern with its quantifier."""

    name: str
    least: int = 1
    most: int = 1
    is_greedy: bool = True


class MatchSpec(Struct, frozen=True):
    """What a plan says of MATCH_RECOGNIZE."""

    variables: tuple[Variable, ...]
    definitions: Mapping[str, Any]
    measures: tuple[Any, ...]
    """In the order of the result."""
    skip: AfterMatchSkipStrategy
    within_ms: int
    """0: a match may take as long as it will."""
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    is_rowtime: bool


class MatchRecognize(TableFunction):
    """Matches the rows of a partition."""

    def __init__(self, spec: MatchSpec, types: Sequence[LogicalType], settings: TableSettings) -> None:
        super().__init__()
        expressions = MatchExpressions(settings, self.moment)
        self._automaton = Automaton(_pattern(spec, expressions))
        self._measures = [expressions.measure(each) for each in spec.measures]
        self._time = spec.order[0].index
        self._is_rowtime = spec.is_rowtime
        further = spec.order[1:]
        self._sort = partial(sorted, key=sort_key(further, types)) if further else None

    def start(self, context: TableContext) -> None:
        self._context = context
        states = MatchStates(
            context.map_state("eventQueuesState"),
            context.value_state("computationStates"),
            context.map_state("eventsState"),
        )
        self._matching = Matching(self._automaton, states, context.timers, self, self._is_rowtime, self._sort)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self._emit = emit
        nanos = row[self._time] if self._is_rowtime else 0
        if nanos is None:
            raise FunctionFailed(NO_ROWTIME)
        self._matching.add(row, nanos // NANOS_PER_MS)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        self._emit = emit
        self._matching.on_timer(timestamp)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        self.on_event_time(timestamp, emit)

    def matched(self, match: Match, timestamp: int) -> None:
        """Emit the row of a match."""
        scene = MatchScene(match, timestamp)
        self._emit((INSERT, (*self._context.key, *[measure(scene) for measure in self._measures])))

    def timed_out(self, match: Match, timestamp: int) -> None:
        """Do nothing: SQL shows complete matches only."""


def _pattern(spec: MatchSpec, expressions: MatchExpressions) -> Pattern:
    """Return the pattern as Flink's PatternVisitor builds it."""
    pattern: Pattern | None = None
    names: list[str] = []
    for variable in spec.variables:
        names.append(variable.name)
        if pattern is None:
            pattern = Pattern.begin(variable.name, spec.skip)
            if spec.within_ms:
                pattern.within(Duration.of_millis(spec.within_ms))
        else:
            pattern = pattern.next(variable.name)
        if (definition := spec.definitions.get(variable.name)) is not None:
            pattern.where(expressions.condition(definition, variable.name, tuple(names)))
        _quantify(pattern, variable)
    assert pattern is not None
    if spec.within_ms:
        pattern.within(Duration.of_millis(spec.within_ms))
    return pattern


def _quantify(pattern: Pattern, variable: Variable) -> None:
    least, most = variable.least, variable.most
    if (least, most) == (1, 1):
        return
    if (least, most) == (0, 1):
        if not variable.is_greedy:
            raise UnsupportedPlan("a reluctant optional variable")
        pattern.optional()
        return
    if most != _UNBOUNDED:
        pattern.times(least, most).consecutive()
    elif least == 0:
        pattern.one_or_more().optional().consecutive()
    else:
        pattern.times_or_more(least).consecutive()
    if variable.is_greedy and least != most:
        pattern.greedy()


def _variables(expression: Expression) -> list[Variable]:
    match expression:
        case Literal(value=str(name)):
            return [Variable(name)]
        case Call(name="PATTERN_CONCAT", operands=operands):
            return [each for operand in operands for each in _variables(operand)]
        case Call(name="$PATTERN_QUANTIFIER$1", operands=(Literal() as name, *rest)):
            least, most, is_reluctant = [each.value for each in rest if isinstance(each, Literal)]
            return [Variable(name.value, int(least), int(most), not is_reluctant)]
    raise UnsupportedPlan(f"pattern {getattr(expression, 'name', type(expression).__name__)}")


def _skip_of(expression: Expression) -> AfterMatchSkipStrategy:
    match expression:
        case Symbol(value=word) if word in _SKIPS:
            return _SKIPS[word]
        case Call(name=name, operands=(Literal() as variable,)) if name in _SKIPS_TO:
            return _SKIPS_TO[name](variable.value).throw_exception_on_miss()
    raise UnsupportedPlan(f"AFTER MATCH {getattr(expression, 'value', expression)}")


@translator("match", 1)
def translate_match(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the key of the partition."""
    (given,) = inputs
    data = node.attributes["matchSpec"]
    if data["allRows"]:
        raise UnsupportedPlan("ALL ROWS PER MATCH")
    partition = tuple(data["partition"]["fields"])
    order = read_order(data["orderBy"])
    names = node.output.names[len(partition) :]
    interval = data.get("interval")
    if interval is not None and any(unit in interval["type"] for unit in ("YEAR", "MONTH")):
        raise UnsupportedPlan("WITHIN of months")
    types = given.type.types
    spec = MatchSpec(
        tuple(_variables(read_expression(data["pattern"]))),
        data["patternDefinitions"],
        tuple([data["measures"][name] for name in names]),
        _skip_of(read_expression(data["after"])),
        0 if interval is None else int(interval["value"]),
        partition,
        order,
        types[order[0].index].attribute != PROCTIME,
    )
    return translation.keyed(
        node, given, partition, partial(MatchRecognize, spec, types, translation.settings)
    )
