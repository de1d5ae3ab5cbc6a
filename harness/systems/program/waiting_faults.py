"""The faults and stops of a trial that have not struck yet, and what they wait for.

Rules:

- Passes are counted over all starts of the program. A fault waits for a number of them, then for its
  milliseconds, and strikes once.
- How many rows a program shows, what it prints and how much it writes is not known beforehand. What waits for
  more of it than there is strikes when nothing more comes, and before the last records are given
  (``hurry``): each planned fault strikes while the program still has something to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.program_file import READ_POINT, STARTED_POINT
from onceproof.harness.model.scenario import Fault, InputRecord, Operation

_IN_OUR_HANDS: Final = (READ_POINT, STARTED_POINT)
"""Passed as the harness gives records and starts the program: it knows whether they come."""


def records_in_turn(
    splits: Mapping[str, Sequence[InputRecord]],
) -> tuple[list[tuple[str, InputRecord]], int]:
    """Return the records of all splits in turn, the last one of each at the end, and where these begin."""
    last = {split: records[-1:] for split, records in splits.items() if len(records) > 1}
    first = {split: records[:-1] if split in last else records for split, records in splits.items()}
    found: list[tuple[str, InputRecord]] = []
    for part in (first, last):
        for in_turn in zip_longest(*part.values()):
            found += [
                (split, record) for split, record in zip(part, in_turn, strict=True) if record is not None
            ]
    return found, len(found) - len(last)


@dataclass(slots=True)
class _Waiting:
    """A fault or a stop that has not struck yet."""

    wanted: Fault | Operation
    left: int
    due: float | None = None
    """When it strikes; None: its point has not been passed as often as it waits for."""

    @property
    def name(self) -> str:
        """Of the point, or of the mark."""
        mark = self.wanted.mark if isinstance(self.wanted, Fault) else ""
        return mark or self.wanted.point

    @property
    def waits_s(self) -> float:
        """From the pass to the strike. The delay of what is no kill is how long it lasts."""
        is_kill = isinstance(self.wanted, Fault) and FAULTS[self.wanted.kind].is_kill
        return self.wanted.delay / 1000 if isinstance(self.wanted, Fault) and is_kill else 0.0


class WaitingFaults:
    """What a trial has still to suffer."""

    def __init__(self, wanted: Iterable[Fault | Operation]) -> None:
        self._waiting = [_Waiting(each, each.occurrence) for each in wanted]

    @property
    def are_due(self) -> bool:
        """Whether one is about to strike."""
        return any(each.due is not None for each in self._waiting)

    @property
    def may_come(self) -> bool:
        """Whether one is about to strike, or waits for what the program decides."""
        return any(each.due is not None or each.name not in _IN_OUR_HANDS for each in self._waiting)

    def passed(self, name: str, times: int, now: float) -> None:
        """Count passes of a point or mark."""
        for each in self._waiting:
            if each.name == name and each.due is None:
                each.left -= times
                if each.left <= 0:
                    each.due = now + each.waits_s

    def waits_for(self, name: str) -> bool:
        """Return whether one waits for passes of a point or mark."""
        return any(each.name == name and each.due is None for each in self._waiting)

    def hurry(self, now: float) -> None:
        """Let strike what waits for more of what the program decides than there is; the first of them."""
        for each in self._waiting:
            if each.due is None and each.name not in _IN_OUR_HANDS:
                each.due = now + each.waits_s
                return

    def take_due(
        self, now: float, can_strike: Callable[[Fault | Operation], bool]
    ) -> Fault | Operation | None:
        """Return one that strikes now, and wait for it no more.

        ``can_strike`` returns whether what it strikes runs; until it does, it is waited for.
        """
        for each in self._waiting:
            if each.due is not None and now >= each.due and can_strike(each.wanted):
                self._waiting.remove(each)
                return each.wanted
        return None
