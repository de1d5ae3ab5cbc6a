"""The ends of a script's job: its sources and sinks, and the job with those of the harness in their place.

Rules:

- A source keeps its name, its uid, its type and its watermark strategy; what it reads is the harness's.
- A sink is replaced by an exactly-once one, which stands beside one that runs for real. What reaches it
  becomes a row: a tuple of values that can be compared. With several sinks the name of the sink comes first.
  So the computed results are judged, whatever the sink itself promises.
- An operator whose output nothing reads is an end as well.
- Operators that the script gives no parallelism keep the order of a key: one that reads an operator directly
  has as many subtasks as that one, and behind `key_by` as many as the scenario says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from onceproof.engine.api.adapters import OperatorFactory, create_sink_operator
from onceproof.engine.api.datastream import DataStream
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.functions import SinkFunction
from onceproof.engine.graph import PartitionerKind, StreamNode, Upstream
from onceproof.engine.key_groups import operator_id
from onceproof.engine.operators.event_time import TimestampedSourceOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.outside import Outside
from onceproof.harness.scripts.own_ends import CountingReader, WatchedSinks
from onceproof.harness.scripts.records import Pool, PooledSource
from onceproof.harness.scripts.rows import row_of
from onceproof.harness.systems.simulation.simulated_io import SimulatedIO

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

_IN_ORDER: Final = (None, PartitionerKind.FORWARD)


class RealEnds(NamedTuple):
    """The sinks of a script that run for real."""

    sinks: Collection[str]
    """Their names."""
    inside: Collection[str]
    """The containers of the program that are no outside."""


NONE_REAL: Final = RealEnds((), ())


class ScriptSource(NamedTuple):
    """A source of a script."""

    name: str
    node: StreamNode
    source: Source


class Identities(NamedTuple):
    """The ids under which the operators of a script keep their state, as its own graph has them.

    The harness describes another graph, in which ids that follow from the place would be others.
    """

    operators: Mapping[int, str]
    """By the number of an operator."""
    sinks: Mapping[str, str]
    """By the name of an end, that of the sink in its place."""
    left: Sequence[str] = ()
    """Of sinks that an earlier version had in place of its ends: they commit what is in its state."""


class ScriptSink(NamedTuple):
    """An end of a script's job: a sink, or an operator whose output nothing reads."""

    name: str
    node: StreamNode
    what: Any
    """The sink or its function; None: there is none."""


def sources_of(operators: Sequence[StreamNode]) -> list[ScriptSource]:
    """Return the sources in the order of the script. Raises FamilyError for an operator without an input."""
    found: list[ScriptSource] = []
    taken: set[str] = set()
    for node in operators:
        if node.inputs:
            continue
        create = node.create
        if not isinstance(create, partial) or create.func not in (SourceOperator, TimestampedSourceOperator):
            raise FamilyError(f"the source {node.name!r} is none that records can be given to")
        found.append(ScriptSource(_name_of(node, taken), node, create.args[0]))
    return found


def sinks_of(operators: Sequence[StreamNode]) -> list[ScriptSink]:
    """Return the ends of a job in the order of the script."""
    read = {upstream.node.number for node in operators for upstream in node.inputs}
    taken: set[str] = set()
    found = []
    for node in operators:
        if node.number not in read:
            found.append(ScriptSink(_name_of(node, taken), node, _sink_in(node)))
    return found


def has_windows(operators: Sequence[StreamNode]) -> bool:
    """Return whether windows may fire again for late records, as a restore sets watermarks back."""
    return any(isinstance(node.create(), WindowOperator) for node in operators if node.inputs)


def _sink_in(node: StreamNode) -> Any:
    create = node.create
    if isinstance(create, partial) and create.func is create_sink_operator:
        return create.args[0]
    if isinstance(create, OperatorFactory) and isinstance(create.function, SinkFunction):
        return create.function
    return None


def _name_of(node: StreamNode, taken: set[str]) -> str:
    name = re.sub(r"\W+", "-", (node.uid or node.name).lower()).strip("-") or "end"
    names = (name, *(f"{name}-{number}" for number in range(2, 1 + len(taken) + 1)))
    free = next(each for each in names if each not in taken)
    taken.add(free)
    return free


def build(
    env: StreamExecutionEnvironment,
    io: JobIO,
    operators: Sequence[StreamNode],
    pools: Mapping[str, Pool],
    tapped: int | None = None,
    real: RealEnds = NONE_REAL,
    identities: Identities | None = None,
) -> None:
    """Describe the job of a script in ``env``, with the ends of the harness.

    Args:
        real: the sinks that run for real in the simulation, besides those in their place.
        tapped: the number of the operator whose output is written in place of what the sinks get; None: of
            no operator.
        identities: the ids of the operators; None: those of the graph that is described.
    """
    sources, sinks = sources_of(operators), sinks_of(operators)
    outside = _outside_of(io) if real.sinks or any(pool.own_splits for pool in pools.values()) else None
    for name, node, source in sources:
        arguments = node.create.args[1:]  # type: ignore[attr-defined]
        pooled = _pooled(io, name, pools[name], source, outside)
        node.create = partial(node.create.func, pooled, *arguments)  # type: ignore[attr-defined]
    sizes = _parallelisms(operators, io.parallelism)
    kept = set()
    if outside is not None and real.sinks and tapped is None and isinstance(io, SimulatedIO):
        watching = WatchedSinks(outside, io.system, real.inside)
        for name, node, what in sinks:
            if name in real.sinks:
                watching.observe(name, what)
                kept.add(node.number)
    replaced = {sink.node.number for sink in sinks if sink.what is not None} - kept
    if identities is not None:
        for node in operators:
            node.uid_hash = identities.operators[node.number]
    env.adopt([node for node in operators if node.number not in replaced])
    if tapped is not None:
        tap = next(node for node in operators if node.number == tapped)
        _write(env, io, (Upstream(tap),), "output", sizes[tapped], None)
        return
    for name, node, what in sinks:
        inputs = (Upstream(node),) if what is None else node.inputs
        size, tag = sizes[node.number], name if len(sinks) > 1 else None
        rows = _write(
            env, io, inputs, name, size, tag, None if identities is None else identities.sinks[name]
        )
    for number, identity in enumerate(() if identities is None else identities.left):
        nothing = rows.filter(_nothing).set_parallelism(size).set_uid_hash(operator_id(f"nothing {number}"))
        nothing.add_sink(io.sink(f"left-{number}")).set_parallelism(size).set_uid_hash(identity)


def _nothing(value: Any) -> bool:
    return False


def _outside_of(io: JobIO) -> Outside | None:
    """Return the outside of the run; None on systems of real processes, where all ends are replaced."""
    if not isinstance(io, SimulatedIO):
        return None
    if not isinstance(io.system.outside, Outside):
        io.system.outside = Outside()
    return io.system.outside


def _pooled(io: JobIO, name: str, pool: Pool, source: Source, outside: Outside | None) -> PooledSource:
    log = io.source(name)
    if outside is None or not pool.own_splits or not isinstance(io, SimulatedIO):
        return PooledSource(log, name, pool, None)
    system = io.system

    def open_own(inner: SplitReader, split: str, position: int | None) -> SplitReader:
        return CountingReader(
            inner,
            source,
            split,
            position,
            outside.positions,
            log.is_bounded,
            lambda: system.call_fault(),  # Which follows when the world of the run is made.
        )

    return PooledSource(log, name, pool, open_own)


def _write(
    env: StreamExecutionEnvironment,
    io: JobIO,
    inputs: Sequence[Upstream],
    name: str,
    size: int,
    tag: str | None,
    identity: str | None = None,
) -> DataStream:
    rows = DataStream(env, tuple(inputs)).map(partial(row_of, tag)).name(f"rows-{name}").set_parallelism(size)
    sink = rows.add_sink(io.sink(name)).name(name).set_parallelism(size)
    if identity is not None:
        rows.set_uid_hash(operator_id(f"rows of {identity}"))
        sink.set_uid_hash(identity)
    return rows


def _parallelisms(operators: Sequence[StreamNode], usual: int) -> dict[int, int]:
    """Return the parallelism of each operator by its number, and set it."""
    sizes: dict[int, int] = {}
    for node in operators:
        kinds = {upstream.partitioner and upstream.partitioner.kind for upstream in node.inputs}
        size = node.parallelism or usual
        if node.parallelism is None and node.inputs and kinds <= {*_IN_ORDER}:
            size = sizes[node.inputs[0].node.number]
        node.parallelism = sizes[node.number] = size
        node.max_parallelism = None
    return sizes
