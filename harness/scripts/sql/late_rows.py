"""Which rows of a table may be late where a plan drops late rows, and for which windows.

Rules:

- A row is behind where a row before it in its split has given a watermark that its time does not exceed. An
  operator waits for the slowest split, so no other row can be late, in any order of arrival.
- A row that is behind is late or not, as the order of arrival and the interval of watermarks have it: both
  tables are right. Of the windows that it is in, those are lost that the watermark has fired: the first
  ones, up to some end.
- A table that may be idle is overtaken by others at any time, so each of its rows may be behind.
- A restore may set the watermark back. Window aggregates, ranks and deduplications keep theirs, so a row that
  was late stays late; of other nodes, and of records in flight at a barrier, this is not known.
- This is decided for each sink that the rows of a table reach through one node that drops late ones, or none,
  behind nodes without state: aligned windows, OVER and sorting by time. Behind it no row is late, as results
  come with the watermark. Of other sinks, such as those of sessions, it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from onceproof.engine.table.nodes.group_window import group_window_spec
from onceproof.engine.table.nodes.windows import Windowing, read_windowing
from onceproof.engine.table.plans import Node, Plan, UnsupportedPlan
from onceproof.engine.table.table_ends import sink_end
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import NANOS_PER_MS, Row

TimeOfRow: TypeAlias = Callable[[Row], Any]

MOST_INPUTS: Final = 512
"""How many combinations of what may be late are tried."""
_STATELESS: Final = (
    "calc",
    "exchange",
    "watermark-assigner",
    "window-table-function",
    "local-window-aggregate",
    "expand",
    "correlate",
    "union",
)
_DROPS: Final = ("window", "over", "match", "temporal", "interval", "sort", "lookup")
"""In the types of the nodes that drop late rows, or clear what they would meet."""
_BY_WINDOW: Final = ("global-window-aggregate", "window-aggregate", "window-rank", "window-deduplicate")
"""Nodes that keep their watermark."""
_BY_ROW: Final = ("over-aggregate", "temporal-sort")


class Lateness(Struct, frozen=True):
    """What becomes of the late rows of a table."""

    windowing: Windowing | None
    """Whose windows a late row is left out of; None: it is left out whole."""
    is_kept: bool
    """Whether a row that was late before a restore is late after it."""
    is_dropped: bool = True
    """Whether it is left out at all."""

    @property
    def is_by_window(self) -> bool:
        """Whether a late row may still count in later windows."""
        return self.windowing is not None

    def ends(self, time_ms: int, watermark_ms: int) -> list[int]:
        """Return the ends of the windows that a row may be late for, in order; its own time if of none."""
        if not self.is_dropped:
            return []
        if self.windowing is None:
            return [time_ms] if time_ms <= watermark_ms else []
        clock = self.windowing.clock
        windows = self.windowing.window.assign(clock.to_local(time_ms))
        return sorted([end for _, end in windows if clock.fires_at(end) <= watermark_ms])


NEVER_LATE: Final = Lateness(None, is_kept=True, is_dropped=False)
"""Of a sink in which a late row counts like any other."""


class Behind(NamedTuple):
    """The time of a row behind the watermark, and the watermark."""

    time_ms: int
    watermark_ms: int


class Mark:
    """The furthest watermark that a row of a split may meet: that of the rows before it in the split.

    Args:
        rowtime: from a row to its time.
        watermark: from a row to its watermark; both are nanoseconds, or None.
    """

    def __init__(self, rowtime: TimeOfRow, watermark: TimeOfRow) -> None:
        self._rowtime, self._watermark = rowtime, watermark
        self._highest_ms: int | None = None

    def behind(self, row: Row) -> Behind | None:
        """Return the time of a row that is behind the watermark, and that; None: it is not behind."""
        nanos = self._rowtime(row)
        if nanos is None or self._highest_ms is None:
            return None
        time_ms = nanos // NANOS_PER_MS
        return None if time_ms > self._highest_ms else Behind(time_ms, self._highest_ms)

    def take(self, row: Row) -> None:
        """Advance by the watermark of a row."""
        nanos = self._watermark(row)
        if nanos is not None:
            time_ms = nanos // NANOS_PER_MS
            self._highest_ms = time_ms if self._highest_ms is None else max(time_ms, self._highest_ms)


class MaybeLate(Struct, frozen=True):
    """A row that may be late."""

    table: str
    place: int
    """Which of the rows of the table it is."""
    ends: tuple[int, ...]
    """It is late for no window, or for all up to one of these ends, in milliseconds."""


def drops_late_rows(plan: Plan, table: str | None = None) -> bool:
    """Return whether it matters to a plan that a row is late.

    Args:
        table: whose row; None: any table's.
    """
    nodes: Iterable[Node] = plan.nodes
    if table is not None:
        nodes = _behind(plan, [each.id for each in _scans(plan, table)])
    return _drop(nodes)


def _drop(nodes: Iterable[Node]) -> bool:
    return any(
        any(part in node.type for part in _DROPS) or node.attributes.get("isRowtime") for node in nodes
    )


def lateness_of(plan: Plan, table: str, settings: TableSettings) -> dict[str, Lateness | None]:
    """Return by sink that the rows of a table reach what becomes of the late ones; None: it is not known."""
    found: dict[str, list[Lateness | None]] = {}
    for head in _heads(plan, _scans(plan, table)):
        lateness = _lateness_at(plan, head, settings)
        for node in (head.node, *_behind(plan, [head.node.id])):
            if node.type == "sink":
                found.setdefault(sink_end(node).name, []).append(lateness)
    return {
        sink: own[0] if len(own) == 1 or all(each is NEVER_LATE for each in own) else None
        for sink, own in found.items()
    }


class _Head(NamedTuple):
    """The first node that rows of a table come to behind those without state."""

    node: Node
    came_from: int
    has_windows: bool
    """Whether the rows have their windows already."""


def _heads(plan: Plan, scans: Sequence[Node]) -> Iterator[_Head]:
    waiting = [(scan, False) for scan in scans]
    while waiting:
        before, has_windows = waiting.pop()
        for node in plan.nodes:
            for _ in range(node.inputs.count(before.id)):
                if node.type in _STATELESS:
                    waiting.append((node, has_windows or node.type == "window-table-function"))
                else:
                    yield _Head(node, before.id, has_windows)


def _lateness_at(plan: Plan, head: _Head, settings: TableSettings) -> Lateness | None:
    node = head.node
    if not _drop((node, *_behind(plan, [node.id]))):
        return NEVER_LATE
    if node.type in _BY_ROW:
        return None if head.has_windows else Lateness(None, is_kept=False)
    windowing = _windowing_of(node, head.came_from, settings)
    if windowing is None or windowing.window.kind == "SESSION" or not windowing.is_rowtime:
        return None
    return Lateness(windowing, is_kept=node.type in _BY_WINDOW)


def _windowing_of(node: Node, came_from: int, settings: TableSettings) -> Windowing | None:
    """Return the windows of a node that drops late rows; None: it has none."""
    try:
        if node.type == "group-window-aggregate":
            return group_window_spec(node, settings, ()).windowing
        if node.type in (*_BY_WINDOW, "window-join"):
            name = "windowing"
            if node.type == "window-join":
                name = "leftWindowing" if came_from == node.inputs[0] else "rightWindowing"
            return read_windowing(node.attributes[name], node, settings)
    except UnsupportedPlan:
        pass
    return None


def _scans(plan: Plan, table: str) -> list[Node]:
    found = [node for node in plan.nodes if node.type == "table-source-scan"]
    return [each for each in found if _table_of(each) == table]


def _table_of(node: Node) -> str:
    identifier = str(node.attributes["scanTableSource"]["table"]["identifier"])
    return identifier.rpartition(".")[2].strip("`")


def _behind(plan: Plan, ids: Sequence[int]) -> Iterator[Node]:
    """Yield the nodes that read what some nodes emit."""
    reached = set(ids)
    for node in plan.nodes:
        if reached.intersection(node.inputs):
            reached.add(node.id)
            yield node


def inputs_of(late: Sequence[MaybeLate]) -> int:
    """Return in how many ways some rows may be late."""
    count = 1
    for each in late:
        count *= 1 + len(each.ends)
    return count
