"""Reads compiled plans: what ``COMPILE PLAN`` of Flink writes, as frozen values.

A plan is a graph of nodes in the order of its edges. What all nodes have is a field of ``Node``; the rest
stays JSON in ``attributes``, and the translator of the node's type reads it. Nothing in a plan is executed.

Whatever cannot be run is one ``UnsupportedPlan``, raised before the job starts, which names the node,
function or version and the place in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from onceproof.engine.table.types import InvalidType, LogicalType, read_type

MALFORMED: Final = (KeyError, TypeError, IndexError, AttributeError, InvalidType)
"""What comes of reading JSON that is not as Flink writes it."""
VERSIONS: Final = ("2.3",)
"""The versions of Flink whose plans are known."""
_NODE_TYPE: Final = re.compile(r"stream-exec-([a-z-]+)_(\d+)")
_COMMON: Final = frozenset({"id", "type", "outputType", "description", "inputProperties"})
_LONGEST_SHOWN: Final = 120


class UnsupportedPlan(ValueError):
    """A plan that the engine cannot run; the message is one line.

    ``subject`` is what it lacks in few words, such as ``node match_1`` or ``function $SOUNDEX$1``.
    """

    def __init__(self, subject: str, place: str = "") -> None:
        shown = _shown(place)
        super().__init__(f"the plan needs {subject}, which the engine lacks{f': {shown}' if shown else ''}")
        self.subject = subject
        self.place = place

    def at(self, place: str) -> UnsupportedPlan:
        """Return the error with the place where it was found, unless it has one."""
        return self if self.place else UnsupportedPlan(self.subject, place)


class InvalidPlan(ValueError):
    """What should be a plan is none; the message is one line."""

    @classmethod
    def of(cls, place: str, error: Exception) -> InvalidPlan:
        """Return what an error that came of reading a node at a place says of the plan."""
        what = str(error) if isinstance(error, InvalidPlan) else f"{type(error).__name__}: {error}"
        return cls(" ".join(f"the plan is invalid at {_shown(place)}: {what}".split()))


def _shown(place: str) -> str:
    return place if len(place) <= _LONGEST_SHOWN else f"{place[: _LONGEST_SHOWN - 3]}..."


class Distribution(Struct, frozen=True):
    """What a node requires of an input: UNKNOWN, ANY, HASH, SINGLETON, BROADCAST or KEEP_INPUT_AS_IS."""

    kind: str
    keys: tuple[int, ...] = ()


class Node(Struct, frozen=True):
    """A node of a plan (Flink: ExecNode)."""

    id: int
    type: str
    """Without its prefix, such as ``group-aggregate``."""
    version: int
    inputs: tuple[int, ...]
    """The ids of the nodes that it reads, in order."""
    distributions: tuple[Distribution, ...]
    """What it requires of each input."""
    output: LogicalType
    """A ROW."""
    attributes: Mapping[str, Any]
    description: str = ""

    @property
    def name(self) -> str:
        """Type and version, such as ``group-aggregate_1``."""
        return f"{self.type}_{self.version}"

    @property
    def place(self) -> str:
        """Where the node is, for messages."""
        return f"node {self.id}, {self.description or self.name}"

    def option(self, key: str, default: str = "") -> str:
        """Return a setting that the plan has kept with the node."""
        value = self.attributes.get("configuration", {}).get(key, default)
        return str(value)

    def ttl_ms(self, index: int = 0) -> int:
        """Return the time to live of one of the node's states in milliseconds; 0: it never expires.

        Raises:
            InvalidPlan: the plan says it in no unit of Flink.
        """
        for state in self.attributes.get("state") or ():
            if state["index"] == index:
                return duration_ms(state["ttl"])
        return 0


class Plan(Struct, frozen=True):
    """A compiled plan; a node comes after those that it reads."""

    version: str
    nodes: tuple[Node, ...]


_NS_PER_MS: Final = 1_000_000
_UNITS_NS: Final = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "\u00b5s", "micro", "micros", "microsecond", "microseconds"), 1000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), _NS_PER_MS),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000 * _NS_PER_MS),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000 * _NS_PER_MS),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000 * _NS_PER_MS),
    **dict.fromkeys(("d", "day", "days"), 86_400_000 * _NS_PER_MS),
}


def duration_ms(text: str) -> int:
    """Return the whole milliseconds of a duration as Flink's options write it. Raises InvalidPlan."""
    match = re.fullmatch(r"([0-9]+)\s*([a-z\u00b5]*)", text.strip().lower())
    unit = _UNITS_NS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise InvalidPlan(f"{text!r} is no duration")
    return int(match[1]) * unit // _NS_PER_MS


def read_plan(source: bytes | str | Mapping[str, Any]) -> Plan:
    """Read a plan from its JSON, or from what that was decoded to.

    Raises:
        InvalidPlan: it is no plan.
        UnsupportedPlan: it is one of another version of Flink.
    """
    try:
        data = source if isinstance(source, Mapping) else msgspec.json.decode(source)
        version = data["flinkVersion"]
        if version not in VERSIONS:
            raise UnsupportedPlan(f"Flink {version}", f"plans of {', '.join(VERSIONS)} are known")
        sources: dict[int, list[int]] = {}
        for edge in data["edges"]:
            if (shuffle := edge.get("shuffle", {}).get("type", "FORWARD")) != "FORWARD":
                raise UnsupportedPlan(f"shuffle {shuffle} of an edge")
            sources.setdefault(edge["target"], []).append(edge["source"])
        nodes = [_read_node(each, sources.get(each["id"], [])) for each in data["nodes"]]
        return Plan(version, tuple(_in_order(nodes)))
    except (*MALFORMED, msgspec.DecodeError) as error:
        raise InvalidPlan(f"it is no compiled plan: {type(error).__name__}: {error}") from None


def _read_node(data: Mapping[str, Any], inputs: Sequence[int]) -> Node:
    try:
        return _node(data, inputs)
    except MALFORMED as error:
        known = data.get("description") or data.get("type", "of no type")
        raise InvalidPlan.of(f"node {data['id']}, {known}", error) from error


def _node(data: Mapping[str, Any], inputs: Sequence[int]) -> Node:
    match = _NODE_TYPE.fullmatch(data["type"])
    if match is None:
        raise UnsupportedPlan(f"node {data['type']}", data.get("description", ""))
    distributions = [
        Distribution(required["type"], tuple(required.get("keys", ())))
        for each in data.get("inputProperties") or ()
        if (required := each["requiredDistribution"])
    ]
    attributes = {key: value for key, value in data.items() if key not in _COMMON}
    output = read_type(data["outputType"])
    description = data.get("description", "")
    return Node(
        data["id"],
        match[1],
        int(match[2]),
        tuple(inputs),
        tuple(distributions),
        output,
        attributes,
        description,
    )


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, each after those that it reads."""
    waiting = {node.id: node for node in nodes}
    done: list[Node] = []
    while waiting:
        ready = [node for node in waiting.values() if not any(each in waiting for each in node.inputs)]
        if not ready:
            raise InvalidPlan("the nodes of the plan form a circle")
        for node in ready:
            done.append(waiting.pop(node.id))
    return done
