"""The sinks of a script that run for real: which they are, and what they should have written.

Rules:

- What they write is compared at the end of a run with runs without faults, place by place. A sink that
  promises each row once, or one for each key, must have written the same; any other at least that.
- Where runs without faults differ, the columns on which they agree are compared, and nothing of a sink that
  promises less.
- What becomes visible only with more records after it is lost where they do not come, without any fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.functions import SinkFunction
from onceproof.engine.graph import StreamNode
from onceproof.harness.scripts.calm_runs import RowCounts, agreed_columns, settled
from onceproof.harness.scripts.ends import NONE_REAL, RealEnds, sinks_of
from onceproof.harness.scripts.outside import READ, Outside, by_place
from onceproof.harness.scripts.own_ends import containers_used, far_module_of, is_of_script
from onceproof.harness.scripts.records import Pool
from onceproof.harness.scripts.script_notes import end_notes, promise_of, promises_once

_PREFIXES: Final = 8
"""How many first records are tried, to find out what a sink holds back."""


class _Place(NamedTuple):
    """Where a sink writes."""

    sink: str
    is_once: bool
    """Whether the sink promises each row once, or one for each key; otherwise rows may come again."""
    columns: Sequence[int] | None
    """Those on which runs without faults agree, where they differ; None: they are equal."""

    @property
    def is_judged(self) -> bool:
        """Whether runs without faults determine enough; the place itself is a column."""
        return self.columns is None or (self.is_once and len(self.columns) > 1)

    def holds(self, written: RowCounts, calm: RowCounts) -> bool:
        """Return whether what is written is right, whatever other runs without faults have."""
        return not self.is_judged or written == calm or (not self.is_once and calm <= written)

    def expected(self, written: RowCounts, runs: Sequence[RowCounts]) -> RowCounts:
        """Return the rows that should be there, by those that are and those of runs without faults."""
        if not self.is_judged:
            return written
        if self.is_once:
            return settled(written, runs, self.columns)
        return written | runs[0] if all(run == runs[0] for run in runs) else written


class RealSinks:
    """What the script's own sinks do, and what is judged of it.

    Args:
        operators: those of the job.
        folder: that of the script.
    """

    def __init__(self, operators: Sequence[StreamNode], folder: Path) -> None:
        self._sinks = sinks_of(operators)
        self._places: dict[str, _Place] = {}
        self._replaced: dict[str, str] = {}
        """Why sinks of the script do not run for real, by name."""
        names: list[str] = []
        for name, _, what in self._sinks:
            if what is None or not is_of_script(type(what), folder):
                continue
            module = far_module_of(what, folder)
            if module:
                self._replaced[name] = f"it may reach more than files with {module!r}"
            else:
                names.append(name)
        creates = [node.create for node in operators]
        functions = [create.function for create in creates if isinstance(create, OperatorFactory)]
        inside = containers_used(each for each in functions if not isinstance(each, SinkFunction))
        self.ends = RealEnds(names, inside) if names else NONE_REAL

    def replace_all(self, reason: str) -> None:
        """Let stand-ins take their places, and note why."""
        self._replaced |= dict.fromkeys(self.ends.sinks, reason)
        self.ends = NONE_REAL

    def look_at(self, outside: Outside, runs: Sequence[RowCounts]) -> None:
        """Find out where the sinks write, and what of it the records determine.

        Args:
            outside: that of the calm run.
            runs: the rows of runs without faults.
        """
        once = {name: promises_once(what) for name, _, what in self._sinks if what is not None}
        # A container that is empty again is a buffer, and no process keeps that.
        buffers = {name for name, sink in outside.empty_containers() if not once[sink]}
        self.ends = RealEnds(self.ends.sinks, {*self.ends.inside, *buffers})
        parts = [by_place(run) for run in runs]
        for place, sink in outside.owners().items():
            own = [part.get(place, Counter()) for part in parts]
            columns = None if all(run == own[0] for run in own) else agreed_columns(own) or ()
            self._places[place] = _Place(sink, once[sink], columns)
        silent = {*self.ends.sinks} - {each.sink for each in self._places.values()}
        self._replaced |= dict.fromkeys(silent, "nothing is seen of what it writes")

    @property
    def are_judged(self) -> bool:
        """Whether anything that they write is judged."""
        return bool(self._places)

    def expected(
        self,
        visible: RowCounts,
        calm: RowCounts,
        variants: Callable[[], Sequence[RowCounts]],
        settle: Callable[[RowCounts, Sequence[RowCounts]], RowCounts],
    ) -> RowCounts:
        """Return the rows that a run should have, those of the stand-ins included.

        Args:
            visible: those that it has.
            calm: those of the calm run.
            variants: returns those of the other runs without faults.
            settle: returns the rows of stand-ins that should be there, by those that are and those of runs.
        """
        seen, wanted = by_place(visible), by_place(calm)
        # On other systems all sinks are replaced.
        places = self._places if READ in visible else {}
        if seen[""] == wanted[""] and all(
            each.holds(seen.get(place, Counter()), wanted.get(place, Counter()))
            for place, each in places.items()
        ):
            return visible
        runs = [wanted, *map(by_place, variants())]
        rows = visible - seen[""] + settle(seen[""], [run[""] for run in runs])
        for place, each in places.items():
            written = seen.get(place, Counter())
            rows = rows - written + each.expected(written, [run.get(place, Counter()) for run in runs])
        return rows

    def lost_tail(self, rows_of_first: Callable[[int], RowCounts]) -> str:
        """Return how a sink loses rows without a fault, "" if none does.

        Args:
            rows_of_first: returns the rows of the calm run over so many first records of each split.
        """
        runs = [by_place(rows_of_first(length)) for length in range(1, 1 + _PREFIXES)]
        for sink in {each.sink for each in self._places.values() if each.is_once}:
            places = [place for place, each in self._places.items() if each.sink == sink]
            held_back: tuple[int, int] | None = None
            for parts in runs:
                rows = parts[""].items()
                reached = sum(count for row, count in rows if len(self._sinks) == 1 or row[0] == sink)
                seen = sum(parts.get(place, Counter()).total() for place in places)
                if seen < reached:
                    held_back = held_back or (reached, seen)
                elif held_back is not None and seen == reached:
                    return (
                        f"sink {sink!r} loses rows without any fault: of {held_back[0]} rows that reach it"
                        f" {held_back[1]} become visible, and of {reached} all; it has to write what it holds"
                        " back in finish(), behind which comes the last checkpoint"
                    )
        return ""

    def notes(self, pools: dict[str, Pool]) -> Iterator[str]:
        """Yield one sentence for each source and sink of the script."""
        yield from end_notes(pools, [sink for sink in self._sinks if sink.name not in self._own_names()])
        for name, _, what in self._sinks:
            own = [(place, each.is_judged) for place, each in self._places.items() if each.sink == name]
            judged = ", ".join([place for place, is_judged in own if is_judged])
            if judged:
                yield f"sink {name}: {promise_of(what)}; it runs for real, and is judged by what is {judged}"
            elif name in self._own_names():
                why = self._replaced.get(name) or f"what is {own[0][0]} differs without any fault"
                yield (
                    f"sink {name}: {promise_of(what)}; the rows that reach it are judged, and not the sink"
                    f" itself: {why}"
                )

    def _own_names(self) -> set[str]:
        return {*self.ends.sinks, *self._replaced}
