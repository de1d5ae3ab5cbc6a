"""The serial reference: it computes the rows of a random graph with lists, vertex by vertex.

The rules this module lives by:

- A value is (lane, key, origin, number, timestamp). The lane is the way a value has come: its split, and
  behind it the vertices that it passed. The origin names the records that went into it. So a row that is
  lost, doubled or made of the wrong records differs from every right one.
- A stream is a list. The values of one lane and key are in their order; where a vertex loses the order, only
  what does not depend on it is computed from it.
- Nothing here is taken from the functions that run in the engine: the two are written apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from onceproof.harness.model.family import Declared, Records
from onceproof.scenarios.random_graphs._graph import HELD_BY_SINK, SIDE, SINK, Graph, Vertex, graph_of

Value: TypeAlias = tuple[str, str, str, int, int]
"""Lane, key, origin, number, timestamp in milliseconds."""
Row: TypeAlias = tuple[str, str, str, int]
Stream: TypeAlias = list[Value]

MODULUS: Final = 1009
"""Numbers stay below it."""
SIZE_MS: Final = 70
SLIDE_MS: Final = 30
"""It does not divide the size: some times are in three sliding windows, others in two."""
GAP_MS: Final = 21
STEP_MS: Final = 10
"""Timestamps are the last of so many milliseconds, those of results, too. So no two are GAP_MS apart: then
sessions touch, and would merge if one of them had not fired before the record that touches it comes."""
NEAR_MS: Final = 30
LATEST: Final = 3
TALLIES: Final = 5
NO_TIME: Final = 0
"""Stands for a timestamp that depends on the order of arrival; nothing reads it."""


def expected_rows(records: Records, declared: Declared) -> list[Row]:
    """Return the rows of the graph in the parameters of the scenario.

    Until the run is over, a row that a vertex may hold back is expected only where it is there.
    """
    graph = graph_of(declared.parameters)
    prompt, held = _rows_of(graph, records)
    if declared.is_whole or not held:
        return prompt + held
    # A row may come by both ways. Those that must be there are taken first.
    visible = Counter(declared.rows)
    visible.subtract(prompt)
    return prompt + list((Counter(held) & visible).elements())


def _rows_of(graph: Graph, records: Records) -> tuple[list[Row], list[Row]]:
    """Return the rows that come at once, and those that may be held back."""
    streams = {source: _read(records, source) for source in graph.sources}
    prompt: list[Row] = []
    held: list[Row] = []
    for vertex in graph.vertices:
        inputs = [streams[name] for name in vertex.inputs]
        if vertex.kind != SINK:
            for name, output in _RULES[vertex.kind](vertex.name, *_for_rule(vertex, inputs)).items():
                streams[name] = output
            continue
        for name, stream in zip(vertex.inputs, inputs, strict=True):
            waits = graph.streams[name].holds or vertex.form in HELD_BY_SINK
            (held if waits else prompt).extend([value[:4] for value in stream])
    return prompt, held


def _for_rule(vertex: Vertex, inputs: list[Stream]) -> list[Stream]:
    """Return the two inputs of a vertex with two, else the union of all."""
    if vertex.kind in ("pairs", "twins", "near"):
        return inputs
    return [inputs[0] if len(inputs) == 1 else [value for stream in inputs for value in stream]]


def _read(records: Records, source: str) -> Stream:
    read: Stream = []
    for split, own in records.items():
        if split.startswith(f"{source}-"):
            for timestamp, value in own:
                assert isinstance(value, tuple)
                key, origin, number = value
                assert isinstance(number, int)
                read.append((split, str(key), str(origin), number, last_of_step(timestamp)))
    return read


def last_of_step(timestamp: int) -> int:
    """Return the timestamp that a random job gives to a record."""
    return timestamp - timestamp % STEP_MS + STEP_MS - 1


def _each(change: Callable[[int], Sequence[int]]) -> Callable[[str, Stream], dict[str, Stream]]:
    """Return the rule of a vertex without state: ``change`` returns the numbers that a number becomes."""

    def rule(name: str, stream: Stream) -> dict[str, Stream]:
        step = name[1:]
        return {
            name: [
                (lane + step, key, origin, changed, at)
                for lane, key, origin, number, at in stream
                for changed in change(number)
            ]
        }

    return rule


def _punctual(name: str, stream: Stream) -> dict[str, Stream]:
    return {
        name: [
            (lane + name[1:], key, origin, (number + at) % MODULUS, at)
            for lane, key, origin, number, at in stream
        ]
    }


def _parity(name: str, stream: Stream) -> dict[str, Stream]:
    step = name[1:]
    both: tuple[Stream, Stream] = [], []
    for lane, key, origin, number, at in stream:
        side = number % 2
        both[side].append((lane + step + SIDE * side, key, origin, number, at))
    return {name: both[0], name + SIDE: both[1]}


def _by_lane(stream: Stream) -> dict[tuple[str, str], Stream]:
    groups: dict[tuple[str, str], Stream] = defaultdict(list)
    for value in stream:
        groups[value[:2]].append(value)
    return groups


def _by_key(stream: Stream) -> dict[str, Stream]:
    groups: dict[str, Stream] = defaultdict(list)
    for value in stream:
        groups[value[1]].append(value)
    return groups


def _total(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for group in _by_lane(stream).values():
        total = 0
        for lane, key, origin, number, at in group:
            total += number
            output.append((lane + name[1:], key, origin, total, at))
    return {name: output}


def _latest(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for (lane, key), group in _by_lane(stream).items():
        for end in range(1, len(group) + 1):
            latest = group[max(0, end - LATEST) : end]
            origin, number = _together(latest, sort=False)
            output.append((lane + name[1:], key, origin, number, group[end - 1][4]))
    return {name: output}


def _residues(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for (lane, key), group in _by_lane(stream).items():
        seen: Counter[int] = Counter()
        for _, _, origin, number, at in group:
            seen[number % 3] += 1
            output.append((lane + name[1:], key, origin, 10 * seen[number % 3] + len(seen), at))
    return {name: output}


def _triples(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for (lane, key), group in _by_lane(stream).items():
        for end in range(3, len(group) + 1, 3):
            output.append((lane + name[1:], key, *_together(group[end - 3 : end], sort=False), NO_TIME))
    return {name: output}


def _together(values: Stream, sort: bool) -> tuple[str, int]:
    """Return the origins of some values, and the sum of their numbers."""
    origins = " ".join([value[2] for value in values])
    return " ".join(sorted(origins.split(" "))) if sort else origins, sum(
        value[3] for value in values
    ) % MODULUS


def _count(name: str, stream: Stream) -> dict[str, Stream]:
    # Which record is the third depends on the order of arrival; that there is a third does not.
    return {
        name: [
            (name[1:], key, "", place, NO_TIME)
            for key, group in _by_key(stream).items()
            for place in range(1, len(group) + 1)
        ]
    }


def _tally(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for key, group in _by_key(stream).items():
        for remainder, values in Counter([value[3] % TALLIES for value in group]).items():
            output += [
                (name[1:], key, "", TALLIES * place + remainder, NO_TIME) for place in range(1, values + 1)
            ]
    return {name: output}


def _whole(name: str, stream: Stream) -> dict[str, Stream]:
    return {
        name: [
            (name[1:], key, *_together(group, sort=True), NO_TIME) for key, group in _by_key(stream).items()
        ]
    }


def _distinct(name: str, stream: Stream) -> dict[str, Stream]:
    return {name: [(name[1:], *rest) for rest in dict.fromkeys([value[1:] for value in stream])]}


def _joined(meet: Callable[[Value, Value], bool]) -> Callable[[str, Stream, Stream], dict[str, Stream]]:
    """Return the rule of a join: each two values of a key that meet make one."""

    def rule(name: str, left: Stream, right: Stream) -> dict[str, Stream]:
        others = _by_key(right)
        return {
            name: [
                (
                    name[1:],
                    one[1],
                    f"{one[2]}+{two[2]}",
                    (31 * one[3] + two[3]) % MODULUS,
                    max(one[4], two[4]),
                )
                for one in left
                for two in others.get(one[1], ())
                if meet(one, two)
            ]
        }

    return rule


def _windows(starts: Callable[[int], range]) -> Callable[[str, Stream], dict[str, Stream]]:
    """Return the rule of windows of SIZE_MS; ``starts`` returns the beginnings of those that a time is in."""

    def rule(name: str, stream: Stream) -> dict[str, Stream]:
        windows: dict[tuple[str, int], Stream] = defaultdict(list)
        for value in stream:
            for start in starts(value[4]):
                windows[value[1], start].append(value)
        return {
            name: [
                (name[1:], key, *_together(inside, sort=True), start + SIZE_MS - 1)
                for (key, start), inside in windows.items()
            ]
        }

    return rule


def _session(name: str, stream: Stream) -> dict[str, Stream]:
    output: Stream = []
    for key, group in _by_key(stream).items():
        group.sort(key=lambda value: value[4])
        times = [value[4] for value in group]
        begin = 0
        for place, at in enumerate(times):
            if place + 1 == len(times) or times[place + 1] > at + GAP_MS:
                output.append(
                    (name[1:], key, *_together(group[begin : place + 1], sort=True), at + GAP_MS - 1)
                )
                begin = place + 1
    return {name: output}


_RULES: Final[Mapping[str, Callable[..., dict[str, Stream]]]] = {
    "map": _each(lambda number: ((3 * number + 1) % MODULUS,)),
    "filter": _each(lambda number: (number,) if number % 3 else ()),
    "twice": _each(lambda number: (number, (number + 1) % MODULUS)),
    "doubled": _each(lambda number: (number, number)),
    "async": _each(lambda number: ((7 * number + 3) % MODULUS,)),
    "lateness": _each(lambda number: (number,)),
    "calls": _each(lambda number: (number,)),
    "panes": _each(lambda number: (number,)),
    "punctual": _punctual,
    "parity": _parity,
    "total": _total,
    "latest": _latest,
    "residues": _residues,
    "triples": _triples,
    "count": _count,
    "tally": _tally,
    "distinct": _distinct,
    "pairs": _joined(lambda one, two: True),
    "twins": _joined(lambda one, two: one[2] == two[2]),
    "near": _joined(lambda one, two: abs(one[4] - two[4]) <= NEAR_MS),
    "tumbling": _windows(lambda at: range(at - at % SIZE_MS, at + 1, SIZE_MS)),
    "sliding": _windows(lambda at: range(at - at % SLIDE_MS, at - SIZE_MS, -SLIDE_MS)),
    "session": _session,
    "whole": _whole,
}
