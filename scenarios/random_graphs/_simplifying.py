"""Simpler graphs, by which a failing random job shrinks: fewer vertices, fewer with state, no settings.

The rules this module lives by:

- Each graph yielded is legitimate (``checked``): a vertex keeps what it needs of its input, or the change is
  not offered.
- What removes most comes first: sinks, then vertices, then inputs, then state, then what a line says besides.
- A graph that is simpler is written with fewer or shorter words, which is how the shrinker tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from onceproof.harness.model.scenario import Parameter
from onceproof.scenarios.random_graphs._graph import (
    KINDS,
    SIDE,
    USUAL_EDGE,
    Graph,
    GraphError,
    Vertex,
    checked,
    graph_of,
    usual_parallelism,
)
from onceproof.scenarios.random_graphs._panes import PLAINEST


def simpler_parameters(parameters: Mapping[str, Parameter]) -> Iterator[dict[str, Parameter]]:
    """Yield the parameters of simpler graphs, the simplest first."""
    graph = graph_of(parameters)
    rest = {name: value for name, value in parameters.items() if name not in graph.parameters()}
    for vertices, in_batch in _simpler_graphs(graph):
        try:
            simpler = checked(tuple(_read_only(vertices)), in_batch)
        except GraphError:
            continue
        yield {**simpler.parameters(), **rest}
    if rest:
        yield {**graph.parameters()}


def _simpler_graphs(graph: Graph) -> Iterator[tuple[list[Vertex], bool]]:
    if graph.in_batch:
        yield list(graph.vertices), False
    for vertices in _simpler(graph):
        yield vertices, graph.in_batch


def _simpler(graph: Graph) -> Iterator[list[Vertex]]:
    vertices = list(graph.vertices)
    for sink in graph.sinks if len(graph.sinks) > 1 else ():
        yield [each for each in vertices if each is not sink]
    for vertex in graph.operators:
        for before in vertex.inputs:
            yield _without(vertices, vertex, before)
    for place, vertex in enumerate(vertices):
        for simpler in _simpler_vertices(vertex):
            yield [*vertices[:place], simpler, *vertices[place + 1 :]]


def _without(vertices: list[Vertex], gone: Vertex, before: str) -> list[Vertex]:
    """Return the vertices without one; who reads it reads what it has read."""
    names = (gone.name, gone.name + SIDE)
    kept = []
    for vertex in vertices:
        if vertex is not gone:
            inputs = tuple(dict.fromkeys([before if name in names else name for name in vertex.inputs]))
            # Its neighbours were forward of one another only by its parallelism.
            edge = "hash" if vertex.edge == "forward" and inputs != vertex.inputs else vertex.edge
            kept.append(replace(vertex, inputs=inputs, edge=edge))
    return kept


def _simpler_vertices(vertex: Vertex) -> Iterable[Vertex]:
    """Yield a vertex that reads less, has no state, or says less."""
    kind = KINDS[vertex.kind]
    if len(vertex.inputs) > 1:
        for name in vertex.inputs:
            yield replace(_stateless(vertex) if kind.inputs == 2 else vertex, inputs=(name,))
    if kind.key:
        yield _stateless(vertex)
    if vertex.kind == "parity":
        yield replace(vertex, kind="map", form="map")
    usual = usual_parallelism(vertex.kind)
    yield replace(vertex, edge=USUAL_EDGE, parallelism=usual, max_parallelism=0, alone=False)
    said = vertex.panes.split(".")
    for place, plainest in enumerate(PLAINEST.split(".") if vertex.panes else ()):
        yield replace(vertex, panes=".".join([*said[:place], plainest, *said[place + 1 :]]))
    yield replace(vertex, emits="")
    yield replace(vertex, form=KINDS[vertex.kind].forms[0], ttl=False)
    yield replace(vertex, form=KINDS[vertex.kind].forms[0])
    yield replace(vertex, edge=USUAL_EDGE)
    yield replace(vertex, parallelism=usual)
    yield replace(vertex, max_parallelism=0)
    yield replace(vertex, alone=False)
    yield replace(vertex, ttl=False)


def _stateless(vertex: Vertex) -> Vertex:
    return replace(vertex, kind="map", form="map", ttl=False, panes="")


def _read_only(vertices: list[Vertex]) -> list[Vertex]:
    """Return the vertices that a sink reads, directly or not."""
    read: set[str] = set()
    kept: list[Vertex] = []
    for vertex in reversed(vertices):
        if vertex.name.startswith("s") or read.intersection((vertex.name, vertex.name + SIDE)):
            read.update(vertex.inputs)
            kept.append(vertex)
    return kept[::-1]
