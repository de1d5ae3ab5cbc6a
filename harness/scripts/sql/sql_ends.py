"""The ends of a script's job: a log of changes for each source, an exactly-once sink for each sink.

Rules:

- A scenario holds a change as a tuple of plain cells, behind its kind where a table sends more than INSERTs.
- A row leaves as ``(kind, *cells)`` (`changelog.py`). Numbers come from keyed state of the job, so they are
  restored with it, and what is written twice has the same number twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.table.connectors.lookups import HeldRows
from onceproof.engine.table.operators import KEY_TYPE, key_selector
from onceproof.engine.table.plans import InvalidPlan, Node, Plan, UnsupportedPlan
from onceproof.engine.table.table_ends import MakeLookup, TableEnd, lookup_end, sink_end, source_end
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import KIND_OF, KINDS, Change, Row, decoder, encoder
from onceproof.engine.types import Types
from onceproof.harness.model.scenario import RecordValue
from onceproof.harness.scripts.records import Pool, PooledSource
from onceproof.harness.scripts.sql.changelog import Sink

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.engine.watermarks.strategy import WatermarkStrategy
    from onceproof.harness.model.family import JobIO

_NESTED: Final = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED"})
MALFORMED: Final = (
    UnsupportedPlan,
    InvalidPlan,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
)
"""What is raised for a plan whose nodes are not as the planner writes them."""
_DIGITS: Final = {"FLOAT": 6, "DOUBLE": 9}
"""As many are the same in whatever order numbers are added."""
_INSERTS: Final = (0,)


class SourceTable:
    """A table that a plan reads.

    Args:
        end: what the plan says of it.
        rowtime: the expression of its event time, if it has one.
        watermark: that of its watermark.
    """

    def __init__(self, end: TableEnd, rowtime: Any = None, watermark: Any = None) -> None:
        self.end, self.rowtime, self.watermark = end, rowtime, watermark
        self.name = end.name
        self.mode = end.options.get("mode", "append")
        """append, upsert or retract: which changes it sends."""
        self._decoders = [_cell_decoder(kind) for kind in end.type.types]
        self._encoders = [_cell_encoder(kind) for kind in end.type.types]

    @property
    def is_changing(self) -> bool:
        """Whether it sends more than INSERTs."""
        return self.mode != "append"

    def change_of(self, held: Any) -> Change:
        """Return the change that a scenario holds."""
        kind, cells = (held[0], held[1:]) if self.is_changing else (KINDS[0], held)
        return KIND_OF[kind], tuple(
            [decode(cell) for decode, cell in zip(self._decoders, cells, strict=True)]
        )

    def held(self, change: Change) -> RecordValue:
        """Return a change as a scenario holds it."""
        cells = tuple([encode(cell) for encode, cell in zip(self._encoders, change[1], strict=True)])
        return (KINDS[change[0]], *cells) if self.is_changing else cells


class LookedUpTable(SourceTable):
    """A table in which a plan looks rows up."""


class SinkTable:
    """A table that a plan writes."""

    def __init__(self, end: TableEnd, tag: str | None, writers: int = 1) -> None:
        self.end = end
        self.writers = writers
        """How many statements write it."""
        is_by_key = bool(end.primary_key) and end.options.get("sink-mode") == "upsert"
        is_numbered = is_by_key or end.changes != _INSERTS
        self.sink = Sink(end.name, tag, end.primary_key if is_by_key else None, is_numbered)
        self._encoders = [_cell_encoder(kind) for kind in end.type.types]

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The names of the cells of a change."""
        number = ("number of the change",) if self.sink.is_numbered else ()
        return ("kind", *self.end.type.names, *number)

    def cells(self, row: Iterable[Any]) -> tuple[Any, ...]:
        """Return the values of a row as plain data."""
        return tuple([encode(value) for encode, value in zip(self._encoders, row, strict=True)])

    def values_of(self, cells: Iterable[Any]) -> tuple[Any, ...]:
        """Return the values of plain data."""
        kinds = self.end.type.types
        return tuple([_cell_decoder(kind)(cell) for kind, cell in zip(kinds, cells, strict=True)])

    def written(self, change: Change, number: Sequence[int] = ()) -> tuple[Any, ...]:
        """Return a change as a row of the run."""
        return self.sink.written((KINDS[change[0]], *self.cells(change[1]), *number))


def sources_of(plan: Plan) -> dict[str, SourceTable]:
    """Return the tables that a plan reads, by name."""
    found: dict[str, SourceTable] = {}
    for node in plan.nodes:
        if node.type == "table-source-scan":
            end = _end_of(node, source_end)
            abilities = node.attributes["scanTableSource"].get("abilities", ())
            pushed: Mapping[str, Any] = next((each for each in abilities if "watermarkExpr" in each), {})
            table = SourceTable(end, pushed.get("rowtimeExpr"), pushed.get("watermarkExpr"))
            found.setdefault(end.name, table)
    return found


def looked_up_in(plan: Plan) -> dict[str, LookedUpTable]:
    """Return the tables in which a plan looks rows up, by name."""
    nodes = [node for node in plan.nodes if node.type == "lookup-join"]
    return {end.name: LookedUpTable(end) for end in (_end_of(node, lookup_end) for node in nodes)}


def sinks_of(plan: Plan, *, is_tagged: bool = False) -> dict[str, SinkTable]:
    """Return the tables that a plan writes, by name.

    Args:
        plan: the plan.
        is_tagged: whether rows bear the name of their sink where there is only one.
    """
    ends: dict[str, list[TableEnd]] = {}
    for node in plan.nodes:
        if node.type == "sink":
            end = _end_of(node, sink_end)
            ends.setdefault(end.name, []).append(end)
    found = {}
    for name, own in ends.items():
        kinds = tuple(sorted({kind for end in own for kind in end.changes}))
        tag = name if is_tagged or len(ends) > 1 else None
        found[name] = SinkTable(replace(own[0], changes=kinds), tag, len(own))
    return found


def _end_of(node: Node, read: Callable[[Node], TableEnd]) -> TableEnd:
    """Return what a node says of its table. Raises InvalidPlan, which names the node."""
    try:
        return read(node)
    except MALFORMED as error:
        raise InvalidPlan(f"{node.place}: {type(error).__name__}: {error}") from None


class ScriptTables:
    """Puts the ends of a system to a plan.

    Args:
        io: the ends of the system.
        sources: the tables that are read.
        sinks: those that are written.
        looked_up: the rows of those in which rows are looked up.
    """

    def __init__(
        self,
        io: JobIO,
        sources: dict[str, SourceTable],
        sinks: dict[str, SinkTable],
        looked_up: Mapping[str, Sequence[Row]] = MappingProxyType({}),
    ) -> None:
        self._io, self._sources, self._sinks, self._looked_up = io, sources, sinks, looked_up
        self._scanned: dict[str, int] = {}
        self._written: dict[str, list[DataStream]] = {}
        """By sink, the streams that are to be written."""

    def scan(
        self, environment: StreamExecutionEnvironment, table: TableEnd, watermarks: WatermarkStrategy | None
    ) -> DataStream:
        """Read the splits of a table."""
        number = self._scanned[table.name] = self._scanned.get(table.name, 0) + 1
        name = table.name if number == 1 else f"{table.name}-{number}"
        pool = Pool((), (), self._sources[table.name].change_of, False)
        source = PooledSource(self._io.source(name), table.name, pool, None)
        return environment.from_source(source, watermarks, name).uid(f"source-{name}")

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        """Write changes as rows: all streams of a table as one, once the last is there."""
        end = self._sinks[table.name]
        streams = self._written.setdefault(table.name, [])
        streams.append(stream)
        if len(streams) < end.writers:
            return
        if len(streams) > 1:
            stream = streams[0].union(*streams[1:])
        if end.sink.is_numbered:
            columns = end.sink.key or tuple(range(len(end.end.type.fields)))
            numbered = stream.key_by(key_selector(columns), KEY_TYPE).process(Numbered(end))
            rows = numbered.name(f"changes-{table.name}").uid(f"changes-{table.name}")
        else:
            rows = stream.map(partial(_written, end)).name(f"rows-{table.name}").uid(f"rows-{table.name}")
        sink = rows.add_sink(self._io.sink(table.name))
        sink.name(f"sink-{table.name}").uid(f"sink-{table.name}")

    def lookup(self, table: TableEnd, keys: Sequence[int]) -> MakeLookup:
        """Look rows up in those that the table has."""
        return partial(HeldRows, self._looked_up[table.name], tuple(keys))


def _written(end: SinkTable, change: Change) -> tuple[Any, ...]:
    return end.written(change)


class Numbered(KeyedProcessFunction):
    """Numbers the changes of a key."""

    def __init__(self, end: SinkTable) -> None:
        self._end = end

    def open(self, context: RuntimeContext) -> None:
        self._count = context.get_state(ValueStateDescriptor("changes", Types.LONG()))

    def process_element(self, value: Change, context: Any) -> Iterable[tuple[Any, ...]]:
        number = (self._count.value() or 0) + 1
        self._count.update(number)
        yield self._end.written(value, (number,))


def _cell_decoder(kind: LogicalType) -> Callable[[Any], Any]:
    decode = decoder(kind)
    if kind.root not in _NESTED:
        return decode
    return lambda cell: None if cell is None else decode(json.loads(cell))


def _cell_encoder(kind: LogicalType) -> Callable[[Any], Any]:
    encode = encoder(kind)
    if kind.root in _NESTED:
        return lambda value: None if value is None else json.dumps(encode(value))
    if kind.root in _DIGITS:
        digits = _DIGITS[kind.root]
        return lambda value: None if value is None else _rounded(encode(value), digits)
    return encode


def _rounded(value: float | str, digits: int) -> float | str:
    """Return a number without the digits in which sums in another order differ; next to zero it is zero."""
    if not isinstance(value, float):
        return value
    return 0.0 if abs(value) < 10**-digits else float(f"{value:.{digits}g}")
