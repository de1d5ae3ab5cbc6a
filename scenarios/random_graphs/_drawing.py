"""Draws a random job graph and the records that it reads.

The rules this module lives by:

- A vertex is drawn among the kinds for which its input is certain enough (``output_of``), so every drawn
  graph has one multiset of rows. Nothing is drawn and thrown away.
- Keyed state is what most bugs sit in, so kinds with state are drawn more often than those without.
- A graph is small where the bug does not need more: two or three vertices are the most likely.
- Streams that may grow, as pairs do, are bounded by about how many values they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.scenario import InputRecord
from onceproof.scenarios.random_graphs._functions import EMITTED_TYPES
from onceproof.scenarios.random_graphs._graph import (
    EDGES,
    HIGHEST_PARALLELISM,
    KEEP_ORDER,
    KINDS,
    MOST_SINKS,
    MOST_VERTICES,
    SIDE,
    SINK,
    SOURCES,
    Certain,
    Graph,
    GraphError,
    Kind,
    Vertex,
    can_change,
    checked,
    output_of,
)
from onceproof.scenarios.random_graphs._panes import draw_row
from onceproof.scenarios.random_graphs._reference import SIZE_MS

BOUND_MS: Final = 20
"""How much older than the newest record of its split a record may be. None is late."""
PAUSE_MS: Final = 300
"""Longer than any window of a job, with what may be out of order."""
KEYS: Final = ("a", "b", "c", "d", "e")
MOST_VALUES: Final = 400
"""About the most values of a stream, in a scenario of MOST_RECORDS."""
MOST_RECORDS: Final = 32
WEIGHTS: Final = (
    ("map", 2),
    ("filter", 1),
    ("twice", 2),
    ("doubled", 1),
    ("parity", 2),
    ("async", 3),
    ("punctual", 2),
    ("total", 6),
    ("latest", 3),
    ("residues", 4),
    ("triples", 2),
    ("count", 3),
    ("tally", 6),
    ("distinct", 3),
    ("pairs", 4),
    ("twins", 2),
    ("near", 4),
    ("tumbling", 4),
    ("sliding", 2),
    ("session", 3),
    ("lateness", 3),
    ("whole", 2),
)
CALLS: Final = 0.6
"""The share of graphs with a vertex that calls all of a state, or has windows of any kind."""
PANES: Final = 0.65
"""The share of these with windows."""
IN_BATCH: Final = 0.1
"""The share of graphs in BATCH mode, among those that need no order."""
CHANGING_SHARE: Final = 0.2
"""The share of vertices that emit values in another form, among those that may."""
ON_TIME: Final = 20
"""The weight of ``punctual`` behind an asynchronous operator, which holds watermarks back, and behind an
interval join, whose results have timestamps of their own."""
SINK_FORMS: Final = (("two_phase", 4), ("committing", 3), ("buffering", 2), ("sharing", 1))
WRITE_AHEAD: Final = 0.15
"""The share of jobs whose sinks are all write-ahead sinks."""
OWN_PARALLELISMS: Final = ((1, 3), (2, 3), (3, 2), (5, 1), (HIGHEST_PARALLELISM, 1))
OWN_MAX_PARALLELISMS: Final = ((4, 2), (7, 1), (16, 1), (128, 1))


def draw_records(chance: Chance, sources: Sequence[str]) -> dict[str, tuple[InputRecord, ...]]:
    """Draw one to three splits for each source; a value is (key, origin, number), its origin is its own."""
    keys = KEYS[: chance.weighted(((1, 2), (2, 3), (3, 3), (5, 2)))]
    # About as many over all splits; a split has up to twice its share, or nothing.
    about = chance.weighted(((4, 1), (14, 4), (MOST_RECORDS, 2)))
    # Behind a pause all windows are closed: state that comes and goes.
    pause = PAUSE_MS * chance.chance(0.3)
    records: dict[str, tuple[InputRecord, ...]] = {}
    for source in sources:
        splits = chance.weighted(((1, 3), (2, 4), (3, 2)))
        for split in range(splits):
            now, drawn = BOUND_MS, []
            for place in range(chance.integer(0, max(1, 2 * about // (splits * len(sources))))):
                now = chance.at_boundary(now + chance.integer(0, 25) + pause * chance.chance(0.2), SIZE_MS)
                timestamp = max(
                    0, now - chance.weighted(((0, 3), (BOUND_MS, 1), (chance.integer(0, BOUND_MS), 2)))
                )
                value = (chance.choice(keys), f"{source[0]}{split}.{place}", chance.integer(0, 20))
                drawn.append((timestamp, value))
            records[f"{source}-{split}"] = tuple(drawn)
    return records


def draw_graph(chance: Chance) -> Graph:
    """Draw one to six vertices and one to three sinks."""
    vertices: list[Vertex] = []
    sources = SOURCES[: chance.weighted(((1, 3), (2, 2)))]
    streams = {name: Certain(size=MOST_RECORDS / len(sources)) for name in sources}
    unread = list(sources)
    for number in range(1, 1 + chance.weighted(((1, 3), (2, 5), (3, 5), (4, 3), (5, 2), (6, 1)))):
        vertex = _draw_vertex(chance, f"v{number}", streams, unread, vertices)
        output = output_of(vertex, [streams[name] for name in vertex.inputs])
        names = [vertex.name, vertex.name + SIDE] if vertex.kind == "parity" else [vertex.name]
        streams.update(dict.fromkeys(names, output))
        unread = [name for name in unread if name not in vertex.inputs] + names
        vertices.append(vertex)
    return checked((*vertices, *_draw_sinks(chance, unread, streams, vertices)))


def with_additions(chance: Chance, graph: Graph) -> Graph:
    """Return a graph with more in it.

    One more vertex may call all of a state or have windows of any kind, and some vertices emit objects that
    they change afterwards. The job may run in BATCH mode.

    Args:
        chance: apart from that of the graph, whose draws it leaves as they are.
        graph: the graph as drawn.
    """
    vertices = [
        replace(each, form="broadcast_calls") if each.form == "broadcast" and chance.chance(0.5) else each
        for each in graph.vertices
    ]
    if len(graph.operators) < MOST_VERTICES and chance.chance(CALLS):
        kind = "panes" if chance.chance(PANES) else "calls"
        form, ttl = chance.choice(KINDS[kind].forms), kind == "calls" and chance.chance(0.3)
        new = Vertex("v0", kind, form, (), ttl=ttl, panes=draw_row(chance) if kind == "panes" else "")
        # Somewhere before the sinks, if what is behind it needs no order; or in front of a sink.
        places = [(reader, name) for reader in vertices for name in reader.inputs]
        sinks = [place for place in places if place[0].kind == SINK]
        for reader, name in (chance.choice(places), chance.choice(sinks)):
            try:
                vertices = list(checked(_inserted(vertices, new, reader, name)).vertices)
            except GraphError:
                continue
            break
    changed = [
        replace(each, emits=chance.choice(list(EMITTED_TYPES)))
        if can_change(each) and chance.chance(CHANGING_SHARE)
        else each
        for each in vertices
    ]
    if chance.chance(IN_BATCH):
        with suppress(GraphError):
            return checked(tuple(changed), in_batch=True)
    return checked(tuple(changed))


def _inserted(vertices: list[Vertex], new: Vertex, reader: Vertex, name: str) -> tuple[Vertex, ...]:
    """Return vertices with a new one between a reader and one of its inputs, all of them numbered again."""
    place = next(place for place, each in enumerate(vertices) if each.kind == SINK or each is reader)
    added = [*vertices[:place], replace(new, inputs=(name,)), *vertices[place:]]
    operators = [each.name for each in added if each.kind != SINK]
    names = {each: f"v{number}" for number, each in enumerate(operators, 1)}
    names |= {each + SIDE: after + SIDE for each, after in names.items()}
    numbered = []
    for each in added:
        inputs = [new.name if each is reader and one == name else one for one in each.inputs]
        edge = "hash" if each is reader and each.edge == "forward" else each.edge
        read = tuple([names.get(one, one) for one in inputs])
        numbered.append(replace(each, name=names.get(each.name, each.name), inputs=read, edge=edge))
    return tuple(numbered)


def _draw_vertex(
    chance: Chance, name: str, streams: dict[str, Certain], unread: list[str], before: list[Vertex]
) -> Vertex:
    # A stream without a reader is read first, so a graph is deep; another stream makes a diamond.
    first = chance.choice(unread if chance.chance(0.85) else list(streams))
    others = [
        each for each in streams if each != first and streams[each].size + streams[first].size < MOST_VALUES
    ]
    inputs = (first, chance.choice(others)) if others and chance.chance(0.35) else (first,)
    edge, parallelism, most = _draw_edge(chance, inputs, before)
    times = any(vertex.name in inputs and vertex.kind in ("async", "near") for vertex in before)
    kinds = [
        (kind, ON_TIME if kind == "punctual" and times else weight)
        for kind, weight in WEIGHTS
        if _fits(KINDS[kind], kind, [streams[each] for each in inputs], edge)
    ]
    kind = chance.weighted(kinds)
    row = KINDS[kind]
    form = chance.choice([each for each in row.forms if each != "broadcast_calls"])
    return Vertex(
        name,
        kind,
        form,
        inputs,
        "hash" if row.key else edge,
        parallelism,
        most,
        chance.chance(0.15),
        chance.chance(0.2) and row.keeps_state and form != "reduce",
    )


def _fits(row: Kind, kind: str, inputs: list[Certain], edge: str) -> bool:
    """Return whether a vertex of a kind may read the streams, and is not too large for a scenario."""
    if row.inputs > len(inputs):
        return False
    if row.needs == "order" and not all(each.ordered for each in inputs):
        return False
    if row.needs == "time" and not all(each.timed for each in inputs):
        return False
    output = output_of(Vertex("v1", kind, row.forms[0], (), "hash" if row.key else edge), inputs)
    return output.size <= MOST_VALUES


def _draw_edge(chance: Chance, inputs: Sequence[str], before: list[Vertex]) -> tuple[str, str, int]:
    """Return an edge, and the parallelism and maximum parallelism of the vertex behind it."""
    of = {vertex.name: (vertex.parallelism, vertex.max_parallelism) for vertex in before}
    upstream = {of.get(name.removesuffix(SIDE), ("source", 0)) for name in inputs}
    if len(upstream) == 1 and chance.chance(0.35):
        return ("forward", *upstream.pop())
    is_wide = any(vertex.parallelism == str(HIGHEST_PARALLELISM) for vertex in before)
    edge = chance.choice(
        [each for each in EDGES if each != "forward" and (each in KEEP_ORDER or chance.chance(0.7))]
    )
    own = OWN_PARALLELISMS[: -1 if is_wide else None]
    parallelism = str(chance.weighted(own)) if chance.chance(0.2) else "job"
    most = chance.weighted(OWN_MAX_PARALLELISMS) if chance.chance(0.15) else 0
    return edge, parallelism, most


def _draw_sinks(
    chance: Chance, unread: list[str], streams: dict[str, Certain], before: list[Vertex]
) -> list[Vertex]:
    """Return one to three sinks that read all streams that have no reader."""
    count = min(len(unread), chance.integer(1, MOST_SINKS))
    readers: list[list[str]] = [[] for _ in range(count)]
    for place, name in enumerate(unread):
        readers[place if place < count else chance.integer(0, count - 1)].append(name)
    sinks = []
    waits = chance.chance(WRITE_AHEAD)
    for number, inputs in enumerate(readers, 1):
        edge, parallelism, most = _draw_edge(chance, inputs, before)
        if edge != "forward" or parallelism.isdigit():
            # A sink takes part in the faults of sinks, which are drawn for the parallelism of those.
            edge, parallelism, most = edge if edge != "forward" else "hash", "sink", 0
        form = "write_ahead" if waits else chance.weighted(SINK_FORMS)
        sinks.append(
            Vertex(f"s{number}", SINK, form, tuple(inputs), edge, parallelism, most, chance.chance(0.1))
        )
    return sinks
