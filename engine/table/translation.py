"""Makes a job of a plan: each node becomes operators of the engine.

A translator is a function from a node, its input streams and the translation to its output stream. Modules of
``nodes`` register translators by type and version; ``NODE_MODULES`` lists the modules, one for an area.

Exchanges add nothing: a stateful node sends its input to the owner of the key by itself (``keyed``), which
costs the same and holds however the planner has placed exchanges. The uid of an operator is ``<node
id>_<node type>``, so state is found again as long as the plan is the same, as in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Final, TypeAlias

from msgspec import Struct

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment, add_operator, upstreams_of
from onceproof.engine.graph import Partitioner, PartitionerKind, Upstream
from onceproof.engine.operators.base import Operator
from onceproof.engine.table.operators import KEY_TYPE, TableFunction, TableOperator, key_selector
from onceproof.engine.table.plans import MALFORMED, InvalidPlan, Node, Plan, UnsupportedPlan
from onceproof.engine.table.registration import registering
from onceproof.engine.table.table_ends import Tables
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType

NODE_MODULES: Final = (
    "sources",
    "sinks",
    "stateless",
    "group_aggregate",
    "mini_batch",
    "deduplicate",
    "rank",
    "changelog",
    "sort",
    "join",
    "interval_join",
    "temporal_join",
    "lookup_join",
    "correlate",
    "window_table_function",
    "window_aggregate",
    "window_rank",
    "window_join",
    "group_window",
    "over",
    "match",
)
"""The modules of ``nodes`` that register translators."""

MISSING_NODES: Final[Mapping[str, str]] = {
    "async-calc": "an asynchronous function of Java",
    "async-correlate": "an asynchronous table function of Java",
    "delta-join": "set table.optimizer.delta-join.strategy to NONE, and the statement is planned with joins",
    "ml-predict-table-function": "it asks a model outside",
    "multi-join": "set table.optimizer.multi-join.enabled to false, and the statement is planned with joins",
    "process-table-function": "a process table function of Java",
    "python-async-calc": "declare the function without async",
    "python-over-aggregate": "an aggregate in Python over an OVER window; group by a window instead",
    "sort": "order a stream by its time attribute first, or add LIMIT",
    "vector-search-table-function": "it searches a store of vectors outside",
}
"""The nodes of Flink 2.3's planner for streams that have no translator, each with its reason or remedy."""

MakeFunction: TypeAlias = Callable[[], TableFunction]


class TableStream(Struct, frozen=True):
    """A stream of changes and the type of its rows."""

    stream: DataStream
    type: LogicalType


Translator: TypeAlias = "Callable[[Node, Sequence[TableStream], Translation], TableStream]"
TRANSLATORS: Final[dict[tuple[str, int], Translator]] = {}


def translator(kind: str, *versions: int) -> Callable[[Translator], Translator]:
    """Register the translator of a type of nodes, in some versions."""
    return registering(TRANSLATORS, [(kind, version) for version in versions])


@lru_cache(maxsize=1)
def load_translators() -> Mapping[tuple[str, int], Translator]:
    """Import the modules of nodes, and return all translators."""
    for name in NODE_MODULES:
        import_module(f"{__package__}.nodes.{name}")
    return TRANSLATORS


class Translation:
    """One translation of a plan; translators add operators through it."""

    def __init__(
        self, environment: StreamExecutionEnvironment, tables: Tables, settings: TableSettings
    ) -> None:
        self.environment = environment
        self.tables = tables
        self.settings = settings

    def keyed(
        self, node: Node, given: TableStream, keys: Sequence[int], make: MakeFunction, part: str = ""
    ) -> TableStream:
        """Run a TableFunction under the key columns ``keys``; () is one key for all rows.

        Args: node: the node; its output type is that of the stream. given: the input. keys: the columns of
        the key. make: makes the function, once for each subtask; it is called once now, to find what is
        unsupported. part: tells several operators of one node apart.
        """
        make()
        upstreams = _by_key(given, keys)
        return self._added(node, part, partial(TableOperator, make, (keys,)), given, upstreams)

    def keyed_two(
        self,
        node: Node,
        inputs: tuple[TableStream, TableStream],
        keys: tuple[Sequence[int], Sequence[int]],
        make: MakeFunction,
        part: str = "",
    ) -> TableStream:
        """Run a TableFunction with two inputs under the key columns of each."""
        make()
        first, second = inputs
        second_upstreams = [each._replace(input_number=1) for each in _by_key(second, keys[1])]
        upstreams = (*_by_key(first, keys[0]), *second_upstreams)
        return self._added(node, part, partial(TableOperator, make, keys), first, upstreams)

    def plain(self, node: Node, given: TableStream, make: MakeFunction, part: str = "") -> TableStream:
        """Run a TableFunction without keys and state."""
        make()
        return self._added(node, part, partial(TableOperator, make), given, upstreams_of(given.stream))

    def operator(
        self, node: Node, given: TableStream, create: Callable[[], Operator], part: str = ""
    ) -> TableStream:
        """Run an operator of its own class."""
        create()
        return self._added(node, part, create, given, upstreams_of(given.stream))

    def _added(
        self,
        node: Node,
        part: str,
        create: Callable[[], Operator],
        given: TableStream,
        upstreams: tuple[Upstream, ...],
    ) -> TableStream:
        name = f"{node.type}-{part}" if part else node.type
        stream = add_operator(given.stream, name, create, upstreams)
        stream.uid(f"{node.id}_{name}").set_description(node.description)
        return TableStream(stream, node.output)


def _by_key(given: TableStream, keys: Sequence[int]) -> tuple[Upstream, ...]:
    partitioner = Partitioner(PartitionerKind.HASH, key_selector(keys), KEY_TYPE)
    return tuple([each._replace(partitioner=partitioner) for each in upstreams_of(given.stream)])


def translate(
    plan: Plan,
    tables: Tables,
    environment: StreamExecutionEnvironment,
    settings: TableSettings | None = None,
) -> None:
    """Add the operators of a plan to an environment; ``execute`` runs them.

    Args:
        plan: what ``read_plan`` read.
        tables: the ends.
        environment: where the job is described.
        settings: the options of the session and the user's functions.

    Raises:
        UnsupportedPlan: a node, a version or a function is not known; the error names it and its place.
        InvalidPlan: a node is not as Flink writes it; the error names it.
    """
    given = environment.operators
    try:
        _translate_nodes(plan, Translation(environment, tables, settings or TableSettings()))
    except Exception:
        # A program that goes on after the error runs its next statement without a part of this one.
        environment.adopt(given)
        raise


def _translate_nodes(plan: Plan, translation: Translation) -> None:
    translators = load_translators()
    streams: dict[int, TableStream] = {}
    for node in plan.nodes:
        translate_node = translators.get((node.type, node.version))
        if translate_node is None:
            reason = MISSING_NODES.get(node.type)
            raise UnsupportedPlan(f"node {node.name}{f' ({reason})' if reason else ''}", node.place)
        try:
            streams[node.id] = translate_node(node, [streams[each] for each in node.inputs], translation)
        except UnsupportedPlan as error:
            raise error.at(node.place) from None
        except (InvalidPlan, *MALFORMED) as error:
            raise InvalidPlan.of(node.place, error) from error
