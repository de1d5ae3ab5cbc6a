"""The protocol of a system under test: it runs a scenario and returns the history of visible events.

The rules this module lives by:

- A system declares its capabilities: the faults that it supports, and whether a run repeats itself. A fault
  that it does not support is not planned; it is counted as not applicable, so no report shows it as survived.
- The history has the same events for every system, and the same checkers judge it with the same oracle.
- Each system says of a family whether it can run it, and why not. Runs and comparisons ask it alike.
- Systems are found by name and imported on demand: one may need Spark, another has no heavy dependency.
"""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Protocol, cast, runtime_checkable

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.fault_answers import FaultAnswer, MissingPoints
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.program_family import SYSTEM as PROGRAMS
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_measures import ControlRun, Measured
from onceproof.harness.model.scenario import Fault, OperationKind, Scenario
from onceproof.harness.model.system_homes import HOMES


class System(Protocol):
    """A system under test."""

    @property
    def name(self) -> str:
        """The name on the command line and in reports."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The faults, modes and operations that it supports."""

    @property
    def missing(self) -> MissingPoints:
        """The (kind, point) pairs that never occur here although the kind is supported, with the reason."""

    def refusal(self, family: Family) -> str:
        """Return why it cannot run a family that is no program; "" if it can. A static method."""

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run the scenario to its end; with ``trace`` the history has the full trace, if supported."""


@runtime_checkable
class Closable(Protocol):
    """A system that keeps processes running between two scenarios."""

    def close(self) -> None:
        """Stop what it keeps running."""


@runtime_checkable
class Preparing(Protocol):
    """A system that changes a scenario before it runs it."""

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it is run."""


@runtime_checkable
class NeedsPrograms(Protocol):
    """A system that starts programs which may be missing on a machine."""

    def require_programs(self) -> None:
        """Find what it starts. Raises JavaMissing or ServiceMissing."""


@runtime_checkable
class Trying(Protocol):
    """A system that must build the job of a family to know whether it can run it."""

    def refusals(self, trials: Iterable[tuple[Family, Scenario]]) -> dict[str, str]:
        """Build the job of each family for a scenario of it, and run nothing.

        Return, by the names of those that it cannot run, the reason. Raises ServiceMissing or ServiceError.
        """


@runtime_checkable
class Controlled(Protocol):
    """A system that runs each program once without faults before it runs its scenarios."""

    measured: dict[str, Measured]
    """By the path of its file, what the control run of a program has measured."""

    def control(self, family: ProgramFamily, scenario: Scenario) -> ControlRun:
        """Run a scenario without its faults, and return what it measures."""


@runtime_checkable
class Versioned(Protocol):
    """A system that knows with which versions a family runs."""

    def versions(self, family: Family) -> Iterable[tuple[str, str]]:
        """Yield names of programs, packages and servers, each with its version."""


def prepared(system: System, scenario: Scenario) -> Scenario:
    """Return the scenario with what the system decides before a run, without what its user cannot ask."""
    if scenario.operations is not UNSET:
        scenario = _with_requests_of(system, scenario)
    has_settings = scenario.restarts is not UNSET or not scenario.takes_checkpoints
    if has_settings and Capability.RESTARTS not in system.capabilities:
        scenario = replace(scenario, restarts=UNSET, without_checkpoints=UNSET)
    # Asked for every scenario; an instance check against a protocol takes 20 us each time.
    return cast("Preparing", system).prepared(scenario) if _prepares(type(system)) else scenario


_NEEDED: Final[dict[OperationKind, Capability]] = {
    "rescale": Capability.RESCALE_RUNNING,
    "cancel": Capability.CANCEL,
    "upgrade": Capability.UPGRADE,
}
"""What a system must be able to do for a request that only some can take."""


def _with_requests_of(system: System, scenario: Scenario) -> Scenario:
    able = system.capabilities
    asked = tuple([each for each in scenario.asked if each.kind not in _NEEDED or _NEEDED[each.kind] in able])
    return scenario if asked == scenario.operations else replace(scenario, operations=asked or UNSET)


def requests_left(scenario: Scenario, as_run: Scenario) -> dict[tuple[str, str], int]:
    """Return how many requests a system has left out of a scenario as it ran, by (kind, point)."""
    if len(as_run.asked) >= len(scenario.asked):
        return {}
    kept = {each.kind for each in as_run.asked}
    left = [each for each in scenario.asked if each.kind in _NEEDED and each.kind not in kept]
    return dict(Counter([(each.kind, each.point) for each in left]))


@cache
def _prepares(kind: type[System]) -> bool:
    return issubclass(kind, Preparing)


@contextmanager
def let_go(system: System) -> Iterator[None]:
    """Close the system when the context ends, if it is Closable."""
    try:
        yield
    finally:
        if isinstance(system, Closable):
            system.close()


class UnknownSystem(Exception):
    """No system has that name; the message is one line."""


def find_system(name: str) -> System:
    """Return a system by its name; UnknownSystem if there is none.

    Raises ExtraMissing where a package that it needs is not installed.
    """
    system: System = _class_of(name)()
    return system


def capabilities_of(name: str) -> frozenset[Capability]:
    """Return a system's capabilities without creating it; UnknownSystem if there is none."""
    capabilities: frozenset[Capability] = _class_of(name).capabilities
    return capabilities


def answers_of(name: str) -> Mapping[FaultKind, FaultAnswer]:
    """Return what a system answers to each row of the fault table; UnknownSystem if there is none."""
    answers: Mapping[FaultKind, FaultAnswer] = _class_of(name).answers
    return answers


def reason_against(name: str, family: Family) -> str:
    """Return why a system cannot run a family, in words that continue a line; "" if it can.

    The system is not created. Raises UnknownSystem if there is none of that name.
    """
    if isinstance(family, ProgramFamily):
        return "" if name == PROGRAMS else f"a program runs on the system {PROGRAMS}"
    system = _class_of(name)
    reason: str = system.refusal(family) or refusal_of_upgrades(system.capabilities, family)
    return reason


def refusal_of_upgrades(capabilities: Container[Capability], family: Family) -> str:
    """Return why a system would run the old version of a job only; "" if it runs both."""
    upgrades = options_of(family).upgraded is not None and Capability.UPGRADE not in capabilities
    return "it does not upgrade jobs" if upgrades else ""


def refusal_of_servers(family: Family) -> str:
    """Return why a system that starts no server cannot run a family; "" if the family needs none."""
    servers = options_of(family).servers
    return f"it starts no server, and the family needs {' and '.join(servers)}" if servers else ""


def _class_of(name: str) -> Any:
    home = HOMES.get(name)
    if home is None:
        near = difflib.get_close_matches(name, HOMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(HOMES)}"
        raise UnknownSystem(f"unknown system {name!r}: {hint}")
    from onceproof.engine.extras import require

    require(f"system {name}", *home.extras)
    return getattr(importlib.import_module(f"onceproof.harness.systems.{home.module}"), home.class_name)


def can_strike(system: System, kind: FaultKind, point: Point) -> bool:
    """Return whether faults of a kind can strike a system at a point."""
    return FAULTS[kind].needs in system.capabilities and (kind, point) not in system.missing


def applicable(
    faults: Iterable[Fault],
    capabilities: frozenset[Capability],
    missing: Container[tuple[FaultKind, Point]] = (),
    servers: Container[str] = (),
    immortal: Container[str] = (),
) -> tuple[tuple[Fault, ...], dict[tuple[str, str], int]]:
    """Return the faults that a system supports, and the number of unsupported ones by (kind, point).

    ``missing`` are the pairs that never occur there although the kind is supported, ``servers`` the names of
    those that the family needs; those in ``immortal`` would lose everything as they die, and are not killed.
    """
    taken: list[Fault] = []
    left: dict[tuple[str, str], int] = {}
    for fault in faults:
        row = FAULTS[fault.kind]
        needed = {row.needs}
        if row.is_kill and fault.rescale_to:
            needed.add(Capability.RESCALE)
        is_there = not fault.server or fault.server in servers
        if fault.kind == "kill_server" and fault.server in immortal:
            is_there = False
        if needed <= capabilities and (fault.kind, fault.point) not in missing and is_there:
            taken.append(fault)
        else:
            key = (fault.kind, fault.point)
            left[key] = left.get(key, 0) + 1
    return tuple(taken), left
