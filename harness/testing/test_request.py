"""What a test asks for, and the tests that are made of it.

The rules this module lives by:

- What cannot be meant is refused when it is asked for, before anything of the harness is imported.
- The tests that are made, and their names, follow from what is asked for alone: every worker of pytest-xdist
  makes the same ones, however many there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from onceproof.harness.testing.families import FamilyLike

SCENARIOS: Final = 200
SIMULATED: Final = "simulated"


class PlanError(ValueError):
    """What a test asks for cannot be meant; the message is one line."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a decorator, or a call of the fixture, asks for. Raises PlanError."""

    family: FamilyLike = None
    scenarios: int = SCENARIOS
    shards: int = 1
    system: str = SIMULATED
    regressions: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.family, FunctionType):
            raise PlanError("exactly_once needs parentheses: write @exactly_once(...)")
        for name in ("scenarios", "shards"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise PlanError(f"exactly_once: {name} is a whole number of 1 or more, not {value!r}")
        if self.system != SIMULATED:
            from onceproof.harness.model.system import UnknownSystem, find_system, system_names

            try:
                if self.system not in system_names():
                    find_system(self.system)
            except UnknownSystem as error:
                raise PlanError(f"exactly_once: {error}") from None

    @property
    def label(self) -> str:
        """The family in the name of a test."""
        if isinstance(self.family, str | os.PathLike):
            return Path(os.fspath(self.family)).stem
        name = getattr(self.family, "name", None) or getattr(self.family, "__name__", None)
        return name if isinstance(name, str) else "own"


@dataclass(frozen=True, slots=True)
class Part:
    """What one test runs: a shard of a plan's scenarios, or the one in a file."""

    plan: Plan
    scenarios: int
    shard: int = 0
    shards: int = 1
    file: Path | None = None

    @property
    def asked(self) -> range | Path:
        """The scenarios' numbers, or the file."""
        return self.file or range(self.shard, self.scenarios, self.shards)


def parts_of(
    plans: Sequence[Plan],
    scenarios: int | None,
    replayed: Path | None,
    find: Callable[[str | os.PathLike[str]], Path],
) -> dict[str, Part]:
    """Return the parts of a test's plans by what the names of its tests say of them.

    ``scenarios`` is another number for all plans, ``replayed`` a file to be run instead of them; ``find``
    returns where a path in a test leads. Raises PlanError where there is no folder of regressions.
    """
    parts: dict[str, Part] = {}
    for plan in plans:
        label = (plan.label,) if len(plans) > 1 else ()
        count = scenarios or plan.scenarios
        shards = min(plan.shards, count)
        for shard in range(shards):
            name = (*label, *((f"{shard + 1}of{shards}",) if shards > 1 else ()))
            parts[_name(name, parts)] = Part(plan, count, shard, shards, replayed)
        if plan.regressions is not None:
            folder = find(plan.regressions)
            if not folder.is_dir():
                raise PlanError(f"regressions: no such folder: {folder}")
            for file in sorted(folder.glob("*.json")):
                parts[_name((*label, file.stem), parts)] = Part(plan, 1, file=file)
    return parts


def _name(words: tuple[str, ...], taken: dict[str, Part]) -> str:
    name = "-".join(words) or "scenarios"
    number = 2
    while name in taken:
        name = "-".join((*words, str(number)))
        number += 1
    return name
