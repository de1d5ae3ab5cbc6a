"""What a run or a campaign is to do: what the command line names, else what is set, else ours.

The rules this module lives by:

- Here and nowhere else the three are put together, so that an option means the same in every command.
- How many scenarios and for how long is one decision: whoever names one of them on the command line has
  made it, and the other one's setting does not count.
- The folder that is set is the one of the night; `run` and `campaign` have each a folder below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.family import family_names, has_streaming_query, load_family
from onceproof.harness.model.system import Capability, capabilities_of
from onceproof.harness.settings.project_settings import Settings

Value = TypeVar("Value")

SCENARIOS: Final = 1000
SEED: Final = 0
SYSTEM: Final = "simulated"
OUT: Final = Path("reports", "out")
RUN: Final = "run"
CAMPAIGN: Final = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run or a campaign is to do, decided."""

    families: tuple[str, ...]
    """Names or paths."""
    left_out: tuple[str, ...]
    """Built-in families that the system cannot run, where all are meant."""
    scenarios: int | None
    max_time: float | None
    """Seconds; of the two limits at least one is set, and the first that is met ends the run."""
    seed: int
    system: str
    workers: int | None
    """None: as many as processors."""
    shrink_time: float | None
    """For how many seconds each failure is shrunk; None: as long as is usual on the system."""
    out: Path
    junit: Path | None
    """The file of a JUnit report; None: none is written."""
    known: tuple[KnownSignature, ...]
    as_json: bool
    command: str
    """As it was typed."""


def plan(
    settings: Settings,
    folder: str,
    *,
    families: Sequence[str] | None = None,
    scenarios: int | None = None,
    max_time: float | None = None,
    seed: int | None = None,
    system: str | None = None,
    workers: int | None = None,
    shrink_time: float | None = None,
    out: Path | None = None,
    junit: Path | None = None,
    as_json: bool = False,
    command: str = "",
) -> Plan:
    """Return what is to be done; ``folder`` is where results go below the folder that is set."""
    if scenarios is None and max_time is None:
        scenarios, max_time = settings.scenarios, settings.max_time
        if scenarios is None and max_time is None:
            scenarios = SCENARIOS
    on_trial = _first(system, settings.system, SYSTEM)
    named = families_of(settings, families, on_trial)
    return Plan(
        families=named,
        left_out=() if families or settings.families else _without(family_names(), named),
        scenarios=scenarios,
        max_time=max_time,
        seed=_first(seed, settings.seed, SEED),
        system=on_trial,
        workers=workers if workers is not None else settings.workers,
        shrink_time=shrink_time if shrink_time is not None else settings.shrink_time,
        out=out or (settings.out or OUT) / folder,
        junit=junit,
        known=settings.known,
        as_json=as_json,
        command=command,
    )


def families_of(
    settings: Settings, families: Sequence[str] | None = None, system: str = SYSTEM
) -> tuple[str, ...]:
    """Return the families that are asked for.

    They are the ones named, else the ones set, else all built-in ones that the system can run.
    """
    asked = families or settings.families
    if asked:
        return tuple(asked)
    if Capability.ENGINE not in capabilities_of(system):
        return tuple([name for name in family_names() if has_streaming_query(load_family(name))])
    return tuple(family_names())


def _without(names: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple([name for name in names if name not in taken])


def _first(named: Value | None, configured: Value | None, ours: Value) -> Value:
    if named is not None:
        return named
    return configured if configured is not None else ours
