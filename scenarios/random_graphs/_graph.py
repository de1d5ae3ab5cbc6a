"""A job graph as data: the vertices of a random job, how each is written, and what is certain of its output.

The rules this module lives by:

- A graph is the parameters of a scenario: by the name of a vertex a line such as
  ``total of=v1 form=reducing at=3 ttl``. So it is in the scenario's file, it replays, and it shrinks.
- A vertex reads sources (``left``, ``right``) and vertices before it; ``v1s`` is the side output of ``v1``.
- A line of a file may be anything. ``graph_of`` refuses what is no graph with one line that names the vertex.
- ``output_of`` says what is certain of a stream whatever the schedule does. A vertex is legitimate only where
  its input has what it needs: then the rows of the job follow from the records alone.
- In BATCH mode, which the parameter ``mode`` selects, an exchange sorts values by key and time, and what a
  vertex emits may come at the end. So nothing is in the order of the records, and all may be held back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from onceproof.harness.model.family import Role
from onceproof.scenarios.random_graphs._functions import EMITTED_TYPES
from onceproof.scenarios.random_graphs._panes import PLAINEST, is_legal

Needs: TypeAlias = Literal["nothing", "order", "time"]

STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "total": ("total",),
    "latest": ("latest",),
    "residues": ("residues",),
    "count": ("count",),
    "tally": ("tally 0", "tally 1", "tally 2", "tally 3", "tally 4"),
    "distinct": ("seen",),
    "pairs": ("ones", "twos"),
    "twins": ("ones", "twos"),
    "tumbling": ("inside",),
    "whole": ("whole",),
    "calls": ("called", "mirror", "held", "own", "union"),
    "panes": ("firings", "listed firings", "reduced firings", "aggregated firings", "all firings"),
}
"""By kind the states that its functions name; a vertex's name stands before each."""
_SESSION_STATES: Final = ("window-contents", "merging-window-set")
_WINDOW_STATES: Final = (*_SESSION_STATES, "_timer_state/event_window-timers")
_USER_TIMERS: Final = ("_timer_state/event_user-timers", "_timer_state/processing_user-timers")
OWN_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "total": ("_op_state",),
    "triples": ("tumble-count-assigner", "window-contents"),
    "near": ("LEFT_BUFFER", "RIGHT_BUFFER", "_timer_state/event_CLEANUP_TIMER"),
    "tumbling": (*_WINDOW_STATES, "_timer_state/event_user-timers"),
    "sliding": _WINDOW_STATES,
    "session": _WINDOW_STATES,
    "whole": ("bundled", "_timer_state/event_user-timers"),
    "calls": _USER_TIMERS,
    "panes": (
        *_WINDOW_STATES,
        "_timer_state/processing_window-timers",
        "tumble-count-assigner",
        "slide-count-assigner",
        "count",
        "fire-time",
    ),
}
"""By kind, the states that the engine names."""

SOURCES: Final = ("left", "right")
SIDE: Final = "s"
MODE: Final = "mode"
BATCH: Final = "batch"
SINK: Final = "sink"
COPIED: Final = "copied"
"""The word for the operator in front of a fold in bundles."""
MOST_VERTICES: Final = 6
MOST_KEYS: Final = 5
MOST_SINKS: Final = 3
HIGHEST_PARALLELISM: Final = 12
HIGHEST_MAX_PARALLELISM: Final = 128
ROLES: Final[Mapping[str, Role]] = {
    "source": "source",
    "job": "keyed",
    "sink": "sink",
}
"""By the word for a parallelism of the scenario its role; a number is a parallelism of the vertex's own."""


class Kind(NamedTuple):
    """What a vertex does, in which forms, and what it asks of its input."""

    forms: tuple[str, ...]
    needs: Needs = "nothing"
    key: Literal["", "lane", "key"] = ""
    """By what its inputs are keyed: not at all, by lane and key, or by the key alone."""
    inputs: int = 1
    """2: exactly two streams. 1: one stream or the union of several."""
    keeps_state: bool = False
    """Whether the function has a state of its own, which may have a time to live."""


KINDS: Final[Mapping[str, Kind]] = {
    "map": Kind(("map", "process")),
    "filter": Kind(("filter",)),
    "twice": Kind(("flat_map",)),
    "doubled": Kind(("union",)),
    "parity": Kind(("process",)),
    "async": Kind(("ordered", "unordered")),
    "punctual": Kind(("process",), "time"),
    "total": Kind(("value", "reducing", "aggregating", "reduce"), "order", "lane", 1, True),
    "latest": Kind(("list",), "order", "lane", 1, True),
    "residues": Kind(("map",), "order", "lane", 1, True),
    "triples": Kind(("count_window",), "order", "lane"),
    "count": Kind(("value", "reducing", "aggregating"), "nothing", "key", 1, True),
    "tally": Kind(("values",), "nothing", "key", 1, True),
    "distinct": Kind(("map", "copies"), "time", "key", 1, True),
    "pairs": Kind(("co_process", "broadcast", "broadcast_calls"), "nothing", "key", 2),
    "twins": Kind(("co_process",), "nothing", "key", 2),
    "near": Kind(("interval_join",), "time", "key", 2),
    "tumbling": Kind(("timers", "two_timers", "process", "reduce", "aggregate"), "time", "key"),
    "sliding": Kind(("process", "reduce", "aggregate"), "time", "key"),
    "session": Kind(("process", "reduce", "aggregate"), "time", "key"),
    "lateness": Kind(("tumbling", "session"), "nothing", "key"),
    "whole": Kind(("bundles", "brief_bundles"), "nothing", "key"),
    "calls": Kind(
        (
            "value",
            "list",
            "lists",
            "map",
            "map_of_lists",
            "reducing",
            "aggregating",
            "timers",
            "plain_timers",
            "operator",
        ),
        "nothing",
        "key",
        1,
        True,
    ),
    "panes": Kind(("windows",), "nothing", "key"),
    SINK: Kind(("two_phase", "committing", "write_ahead", "buffering", "sharing")),
}
HELD_BY_SINK: Final = frozenset({"buffering", "sharing"})
"""The forms of a sink that hold values back, in list state and in union list state."""
WINDOWS: Final = frozenset({"tumbling", "sliding", "session"})
CHANGING_KINDS: Final = frozenset(
    (
        *("map", "twice", "punctual", "total", "latest", "residues", "count", "tally", "distinct"),
        *("pairs", "twins", "near", *WINDOWS),
    )
)
"""The kinds whose functions may emit objects that they change afterwards."""
EDGES: Final = ("forward", "hash", "rebalance", "rescale", "shuffle", "custom", "global")
USUAL_EDGE: Final = "hash"
KEEP_ORDER: Final = frozenset({"forward", "hash", "custom", "global"})
"""The edges on which the records of a lane and key take one way, so that none overtakes another."""
FLAGS: Final = ("alone", "ttl")
_SETTINGS: Final = ("form", "of", "over", "at", "most", "panes", "emits")
_NAME: Final = re.compile(r"v[1-6]|s[1-3]")


def usual_parallelism(kind: str) -> str:
    """Return the parallelism of a vertex of whose line says none."""
    return SINK if kind == SINK else "job"


@dataclass(frozen=True, slots=True)
class Vertex:
    """One operator of a random job."""

    name: str
    kind: str
    form: str
    inputs: tuple[str, ...]
    edge: str = "hash"
    parallelism: str = "job"
    """One of ROLES, or a number."""
    max_parallelism: int = 0
    """0: that of the job."""
    alone: bool = False
    """Whether it is never chained."""
    ttl: bool = False
    """Whether its state has a time to live, which is never over."""
    panes: str = ""
    """The windows of kind ``panes``, as ``_panes.py`` says them."""
    emits: str = ""
    """In which form the function emits its values, to change them afterwards if they can; "": as they are."""

    def __str__(self) -> str:
        words = [self.kind, f"of={','.join(self.inputs)}"]
        words += [f"form={self.form}"] * (self.form != KINDS[self.kind].forms[0])
        words += [f"over={self.edge}"] * (self.edge != USUAL_EDGE)
        words += [f"at={self.parallelism}"] * (self.parallelism != usual_parallelism(self.kind))
        words += [f"most={self.max_parallelism}"] * bool(self.max_parallelism)
        words += [f"panes={self.panes}"] * bool(self.panes)
        words += [f"emits={self.emits}"] * bool(self.emits)
        words += ["alone"] * self.alone + ["ttl"] * self.ttl
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Certain:
    """What is certain of a stream, whatever the schedule does."""

    ordered: bool = True
    """The values of a lane and key are in an order that follows from the records."""
    timed: bool = True
    """The timestamps follow from the records, and none is late."""
    holds: bool = False
    """Values may be held back until a watermark, an answer or the end comes."""
    size: float = 0
    """About how many values it has, for the drawing of a graph."""


class GraphError(ValueError):
    """Parameters that are no graph; the message is one line that names the vertex and the mend."""


@dataclass(frozen=True)
class Graph:
    """The vertices of a job, each behind those that it reads, and what is certain of each stream."""

    vertices: tuple[Vertex, ...]
    streams: Mapping[str, Certain] = field(default_factory=dict)
    in_batch: bool = False
    """Whether the job runs in BATCH mode."""

    @property
    def operators(self) -> tuple[Vertex, ...]:
        """The vertices that are no sinks."""
        return tuple([each for each in self.vertices if each.kind != SINK])

    @property
    def sinks(self) -> tuple[Vertex, ...]:
        """The vertices that are sinks."""
        return tuple([each for each in self.vertices if each.kind == SINK])

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that are read."""
        read = {name for vertex in self.vertices for name in vertex.inputs}
        return tuple([name for name in SOURCES if name in read])

    def parameters(self) -> dict[str, str]:
        """The graph as parameters of a scenario."""
        return {vertex.name: str(vertex) for vertex in self.vertices} | (
            {MODE: BATCH} if self.in_batch else {}
        )


PLAIN: Final = (Vertex("s1", SINK, "two_phase", ("left",), "hash", "sink"),)
"""The job without a graph: it passes records on."""


def graph_of(parameters: Mapping[str, object]) -> Graph:
    """Return the graph in the parameters of a scenario. Raises GraphError, a line that names the vertex."""
    lines = [(name, str(line)) for name, line in parameters.items() if _NAME.fullmatch(name)]
    mode = parameters.get(MODE, "")
    if mode not in ("", BATCH):
        raise GraphError(f"{MODE}: {mode!r} is not a mode: omit it, or set it to {BATCH!r}")
    return _parsed(tuple(lines), mode == BATCH)


@lru_cache(maxsize=256)
def _parsed(lines: tuple[tuple[str, str], ...], in_batch: bool) -> Graph:
    vertices = [_vertex(name, line) for name, line in sorted(lines, key=_place)]
    return checked(tuple(vertices) or PLAIN, in_batch)


def _place(line: tuple[str, str]) -> tuple[bool, str]:
    return line[0].startswith(SIDE), line[0]


def _vertex(name: str, line: str) -> Vertex:
    kind, *words = line.split() or [""]
    said: dict[str, str] = {}
    for word in words:
        setting, is_set, value = word.partition("=")
        if setting not in (_SETTINGS if is_set else FLAGS) or setting in said:
            known = ", ".join([*(f"{each}=" for each in _SETTINGS), *FLAGS])
            raise GraphError(
                f"{name}: {word!r} is no setting of a vertex, or is given twice; there are {known}"
            )
        said[setting] = value
    if kind not in KINDS:
        raise GraphError(f"{name}: {kind!r} is no kind of vertex; there are {', '.join(KINDS)}")
    if "of" not in said:
        raise GraphError(f"{name}: of= is missing, the streams that it reads")
    most = said.get("most", "0")
    if not re.fullmatch(r"\d{1,3}", most) or int(most) > HIGHEST_MAX_PARALLELISM:
        raise GraphError(f"{name}: most={most} is no number up to {HIGHEST_MAX_PARALLELISM}")
    inputs = tuple(said["of"].split(","))
    flags = {flag: flag in said for flag in FLAGS}
    form, edge = said.get("form", KINDS[kind].forms[0]), said.get("over", USUAL_EDGE)
    at = said.get("at", usual_parallelism(kind))
    panes, emits = said.get("panes", ""), said.get("emits", "")
    return Vertex(name, kind, form, inputs, edge, at, int(most), **flags, panes=panes, emits=emits)


def checked(vertices: tuple[Vertex, ...], in_batch: bool = False) -> Graph:
    """Return vertices as a graph, with what is certain of each stream. Raises GraphError."""
    streams = {name: Certain(ordered=not in_batch, holds=in_batch, size=1) for name in SOURCES}
    parallelisms = dict.fromkeys(SOURCES, ("source", 0))
    for vertex in vertices:
        _check_words(vertex)
        for name in vertex.inputs:
            if name not in streams:
                raise GraphError(f"{vertex.name}: of={name} is no stream before it: {', '.join(streams)}")
            same = parallelisms[name] == (vertex.parallelism, vertex.max_parallelism)
            if vertex.edge == "forward" and not same:
                raise GraphError(f"{vertex.name}: over=forward needs the parallelism of {name}")
        output = output_of(vertex, [streams[name] for name in vertex.inputs])
        if vertex.kind == SINK:
            continue
        names = (vertex.name, vertex.name + SIDE) if vertex.kind == "parity" else (vertex.name,)
        for name in names:
            streams[name] = output
            parallelisms[name] = (vertex.parallelism, vertex.max_parallelism)
    graph = Graph(vertices, streams, in_batch)
    if not graph.sinks:
        raise GraphError("s1: the graph has no sink: give one, as in 'sink of=left'")
    if len({sink.form == "write_ahead" for sink in graph.sinks}) == 2:
        # A restore commits what the others have prepared at once, and batches only with the next checkpoint.
        raise GraphError(f"{graph.sinks[0].name}: a job has write-ahead sinks, or others, not both")
    return graph


def _check_words(vertex: Vertex) -> None:
    """Raise GraphError where a word of a vertex is not one of those that there are."""
    kind = KINDS[vertex.kind]
    if (vertex.kind == SINK) != vertex.name.startswith(SIDE):
        raise GraphError(
            f"{vertex.name}: {vertex.kind} is no kind for it: s1 to s3 are sinks, v1 to v6 are not"
        )
    if vertex.form not in kind.forms:
        raise GraphError(f"{vertex.name}: form={vertex.form} is not one of {', '.join(kind.forms)}")
    edges = ("hash",) if kind.key else EDGES
    if vertex.edge not in edges:
        raise GraphError(f"{vertex.name}: over={vertex.edge} is not one of {', '.join(edges)}")
    own = vertex.parallelism
    if own not in ROLES and not (re.fullmatch(r"\d{1,2}", own) and 1 <= int(own) <= HIGHEST_PARALLELISM):
        raise GraphError(
            f"{vertex.name}: at={own} is not one of {', '.join(ROLES)} nor 1 to {HIGHEST_PARALLELISM}"
        )
    if len(set(vertex.inputs)) < len(vertex.inputs) or (kind.inputs == 2 and len(vertex.inputs) != 2):
        raise GraphError(f"{vertex.name}: {vertex.kind} reads {kind.inputs} or more different streams")
    if vertex.panes if vertex.kind != "panes" else not is_legal(tuple(vertex.panes.split("."))):
        raise GraphError(f"{vertex.name}: panes={vertex.panes} are no windows, as {PLAINEST} are")
    if vertex.emits and not (vertex.emits in EMITTED_TYPES and can_change(vertex)):
        raise GraphError(
            f"{vertex.name}: emits={vertex.emits} is not one of {', '.join(EMITTED_TYPES)}, or {vertex.kind} "
            f"{vertex.form} emits values alone"
        )
    if vertex.ttl and not (kind.keeps_state and vertex.form != "reduce"):
        raise GraphError(
            f"{vertex.name}: ttl belongs to a function with state, not to {vertex.kind} {vertex.form}"
        )


def output_of(vertex: Vertex, inputs: list[Certain]) -> Certain:
    """Return what is certain of a vertex's output. Raises GraphError where its input lacks what it needs."""
    kind = KINDS[vertex.kind]
    ordered = all(each.ordered for each in inputs) and vertex.edge in KEEP_ORDER
    timed = all(each.timed for each in inputs)
    holds = any(each.holds for each in inputs)
    size = sum(each.size for each in inputs)
    if kind.needs == "order" and not ordered:
        raise GraphError(f"{vertex.name}: {vertex.kind} needs values in order, which it does not get")
    if kind.needs == "time" and not timed:
        raise GraphError(f"{vertex.name}: {vertex.kind} needs timestamps that follow from the records")
    match vertex.kind:
        case "async":
            # A rescale deals requests in flight out over all subtasks, as in Flink: the order ends here.
            return Certain(False, timed, True, size)
        case "triples":
            return Certain(True, False, holds, size / 3)
        case "count" | "tally":
            return Certain(False, False, holds, size)
        case "distinct":
            return Certain(False, True, holds, size)
        case "pairs" | "twins":
            return Certain(False, False, holds, inputs[0].size * inputs[1].size / 3)
        case "near":
            return Certain(False, True, holds, inputs[0].size * inputs[1].size / 6)
        case "tumbling" | "sliding" | "session":
            return Certain(False, True, True, size * (3 if vertex.kind == "sliding" else 0.5))
        case "lateness":
            return Certain(False, False, True, size)
        case "panes":
            return Certain(False, timed, holds, size)
        case "calls" if vertex.form == "plain_timers":
            return Certain(False, False, True, size)
        case "whole":
            return Certain(False, False, True, min(size, MOST_KEYS))
        case "twice":
            return Certain(ordered, timed, holds, 2 * size)
        case "doubled":
            # A value comes over two edges, and others may come between.
            return Certain(False, timed, holds, 2 * size)
        case "filter" | "parity":
            return Certain(ordered, timed, holds, size * 0.7)
        case _:
            return Certain(ordered, timed, holds or vertex.form in HELD_BY_SINK, size)


def tasks_of(graph: Graph) -> dict[str, Role | int]:
    """Return the vertices of the job by name, chained as the engine chains them, with their roles."""
    readers = Counter(name.removesuffix(SIDE) for vertex in graph.vertices for name in vertex.inputs)
    alone = {vertex.name for vertex in graph.vertices if vertex.alone}
    chains = [[source] for source in graph.sources]
    roles = ["source" for _ in graph.sources]
    chain_of = {source: chains[place] for place, source in enumerate(graph.sources)}
    for vertex in graph.vertices:
        first = vertex.inputs[0]
        joins = vertex.edge == "forward" and len(vertex.inputs) == 1 and first in chain_of
        # An asynchronous operator begins a chain, as in Flink, and so does what has two edges to one input.
        joins = joins and readers[first] == 1 and vertex.kind not in ("async", "doubled")
        joins = joins and alone.isdisjoint((first, vertex.name))
        for name in (*in_front_of(vertex), vertex.name):
            if joins:
                chain_of[first].append(name)
            else:
                chains.append([name])
                roles.append(vertex.parallelism)
            chain_of[name] = chain_of[first] if joins else chains[-1]
            if name == f"{vertex.name} {COPIED}":
                chain_of[name].append("Local Reduce")
            first, joins = name, not vertex.alone and not _is_exchanged(vertex)
    sinks = {sink.name for sink in graph.sinks}
    return {
        # Where a chain commits is what matters about it, whatever its parallelism follows.
        " -> ".join(chain): "sink" if chain[-1] in sinks else ROLES[role] if role in ROLES else int(role)
        for chain, role in zip(chains, roles, strict=True)
    }


def in_front_of(vertex: Vertex) -> tuple[str, ...]:
    """Return the names of the operators that a vertex has in front of the one that bears its name."""
    match vertex.kind, vertex.form:
        case "lateness" | "panes", _:
            words: tuple[str, ...] = ("stamped", "windows")
        case "whole", _:
            words = (COPIED, "bundled")
        case kind, "copies" | "reduce" | "filter" as form if kind not in WINDOWS:
            words = ({"copies": "copies", "reduce": "reduced", "filter": "kept"}[form],)
        case _:
            words = ("changing",) if vertex.emits else ()
    return tuple([f"{vertex.name} {word}" for word in words])


def can_change(vertex: Vertex) -> bool:
    """Return whether the function of a vertex may emit objects that it changes afterwards."""
    return vertex.kind in CHANGING_KINDS and (
        vertex.kind in WINDOWS or vertex.form not in ("copies", "reduce")
    )


def is_never_chained(vertex: Vertex, name: str) -> bool:
    """Return whether the operator of the name is never chained: a vertex that is alone, and what it needs.

    What copies values for a fold in bundles has the local fold chained to it.
    """
    return vertex.alone and name != f"{vertex.name} {COPIED}"


def _is_exchanged(vertex: Vertex) -> bool:
    """Return whether an exchange is between a vertex and what stands in front of it, which is not chained."""
    return vertex.form == "copies" or vertex.kind in ("lateness", "panes", "whole")


def arrival_states_of(graph: Graph) -> list[str]:
    """Return the names of the states whose content depends on when records and watermarks come.

    A state lacks what an asynchronous operator before it has in flight. The contents of a session are kept
    under the window of the record that came first.
    """
    behind: set[str] = set()
    states: list[str] = []
    for vertex in graph.operators:
        if vertex.kind == "session":
            states += _SESSION_STATES
        if vertex.kind == "lateness":
            # Which records a window has fired, and which came too late for it, follows from the watermarks.
            states += (*_WINDOW_STATES, f"{vertex.name} fired")
        if vertex.form == "broadcast_calls":
            states += (*_USER_TIMERS, f"{vertex.name} pending")
        if vertex.kind in ("calls", "panes") or not behind.isdisjoint(vertex.inputs):
            states += [f"{vertex.name} {word}" for word in STATES.get(vertex.kind, ())]
            states += OWN_STATES.get(vertex.kind, ())
        if vertex.kind in ("async", "lateness") or not behind.isdisjoint(vertex.inputs):
            behind |= {vertex.name, vertex.name + SIDE}
    return states
