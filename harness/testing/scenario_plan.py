"""The arguments of ``exactly_once``, and their division into tests: shards and regression files.

The rules this module lives by:

- Invalid arguments are refused at once, before the harness is imported.
- The tests and their ids follow from the arguments alone, so that all workers of pytest-xdist collect the
  same tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from onceproof.harness.testing.family_lookup import FamilyLike

SCENARIOS: Final = 200
SIMULATED: Final = "simulated"


class PlanError(ValueError):
    """The arguments of a test are invalid; the message is one line."""


@dataclass(frozen=True, slots=True)
class ScenarioPlan:
    """The arguments of a decorator, or of a call of the fixture. Raises PlanError if they are invalid."""

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
                raise PlanError(f"exactly_once: {name} must be a whole number of 1 or more, not {value!r}")
        if self.system != SIMULATED:
            from onceproof.harness.model.system import UnknownSystem, find_system
            from onceproof.harness.model.system_homes import system_names

            try:
                if self.system not in system_names():
                    find_system(self.system)
            except UnknownSystem as error:
                raise PlanError(f"exactly_once: {error}") from None

    @property
    def label(self) -> str:
        """Name of the family in the id of a test."""
        if isinstance(self.family, str | os.PathLike):
            return Path(os.fspath(self.family)).stem
        name = getattr(self.family, "name", None) or getattr(self.family, "__name__", None)
        return name if isinstance(name, str) else "own"


@dataclass(frozen=True, slots=True)
class PlanPart:
    """The scenarios of one test: a shard of a plan, or the scenario in a file."""

    plan: ScenarioPlan
    scenarios: int
    shard: int = 0
    shards: int = 1
    file: Path | None = None

    @property
    def asked(self) -> range | Path:
        """The numbers of the scenarios, or the file."""
        return self.file or range(self.shard, self.scenarios, self.shards)


def split_plans(
    plans: Sequence[ScenarioPlan],
    scenarios: int | None,
    replayed: Path | None,
    find: Callable[[str | os.PathLike[str]], Path],
) -> dict[str, PlanPart]:
    """Divide the plans of a test into parts, and return them by test id.

    ``scenarios`` overrides the number of all plans; ``replayed`` is a file to run instead of their scenarios;
    ``find`` resolves a path in a test. Raises PlanError if a folder of regressions does not exist.
    """
    parts: dict[str, PlanPart] = {}
    for plan in plans:
        label = (plan.label,) if len(plans) > 1 else ()
        count = scenarios or plan.scenarios
        shards = min(plan.shards, count)
        for shard in range(shards):
            name = (*label, *((f"{shard + 1}of{shards}",) if shards > 1 else ()))
            parts[_name(name, parts)] = PlanPart(plan, count, shard, shards, replayed)
        if plan.regressions is not None:
            folder = find(plan.regressions)
            if not folder.is_dir():
                raise PlanError(f"regressions: no such folder: {folder}")
            for file in sorted(folder.glob("*.json")):
                parts[_name((*label, file.stem), parts)] = PlanPart(plan, 1, file=file)
    return parts


def _name(words: tuple[str, ...], taken: dict[str, PlanPart]) -> str:
    name = "-".join(words) or "scenarios"
    number = 2
    while name in taken:
        name = "-".join((*words, str(number)))
        number += 1
    return name
