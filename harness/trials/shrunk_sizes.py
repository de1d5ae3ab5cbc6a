"""How small the failures of planted bugs become: what `onceproof mutants` prints of its shrinking.

The rules this module lives by:

- A person reads what is left, so the figures are counts of what is read: records, faults, choices.
- The median alone would hide the failures that stay large. Each of them is named, with its size, and with
  whether the shrinker had the time to show that it needs each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import UNSET

from onceproof.harness.shrinking.reductions import Size, draws_steps
from onceproof.harness.shrinking.removals import is_large
from onceproof.harness.trials.mutant_trials import Killing, Result
from onceproof.reports.text import counted


def shrunk_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield the medians over all failures that were shrunk, and a line for each that stays large."""
    shrunk = [(result.id, each) for result in results if (each := result.killing) and each.size]
    if not shrunk:
        return

    def middle(figure: Callable[[Killing], float]) -> float:
        return median([figure(killing) for _, killing in shrunk])

    yield (
        f"shrunk to: median {middle(lambda each: _size(each).records):g} records,"
        f" {middle(lambda each: _size(each).faults):g} faults,"
        f" {middle(lambda each: _size(each).schedule):g} choices, in"
        f" {middle(lambda each: each.shrink_cpu_seconds):.1f} s of processor time"
    )
    for name, killing in shrunk:
        if is_large(_size(killing)) or not _is_listed(killing):
            yield f"stays large: {name}: {_size_text(_size(killing))}; {_need_text(killing)}"


def _is_listed(killing: Killing) -> bool:
    """Return whether the small scenario lists the choices of its schedule."""
    return killing.shrunk is None or not draws_steps(killing.shrunk.schedule)


def _size(killing: Killing) -> Size:
    assert killing.size is not None
    return killing.size


def _size_text(size: Size) -> str:
    return (
        f"{counted(size.records, 'record')}, {counted(size.faults, 'fault')},"
        f" {counted(size.schedule, 'choice')}"
    )


def _need_text(killing: Killing) -> str:
    if not _is_listed(killing):
        return "its schedule draws each step"
    if killing.shrunk is None or killing.shrunk.needed is UNSET:
        return "not each was left out"
    return "each is needed"
