"""How long it takes from a SIGKILL to the first new commit, beside Structured Streaming on the same job.

The rules this module lives by:

- The job is the family word_count with the same records in the same epochs, with the engine's state and with
  transformWithState. The time is measured from the kill to the first new rows that become visible.
- Each kind of kill has its own rounds, and each round its own job. The figure is the median; the worst is
  shown as well. A warm-up comes first, because a cold JVM is not measured.
- On both sides a second driver process is ready before the first is killed, so that the start of Spark is not
  measured.
- Where Structured Streaming has no such kill on one machine (an executor, the driver's JVM), it is compared
  by its restart after the kill of its driver.
- Each run is judged by all checkers; a failing run gives no figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from statistics import median
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import FaultKind, Means
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.system import Closable, System, find_system
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.measurement import Measurement

FAMILY: Final = "word_count"
SEED: Final = 1
EPOCHS: Final = 3
ROUNDS: Final = 3
"""Few, because each kill of a driver takes half a minute for the start of another one."""
PEER: Final = "structured_streaming"


class NotRecovered(Exception):
    """A job did not recover as expected; the message is one line."""


class Death(NamedTuple):
    """A kind of kill, the system that it is injected into, and the peer's figure to compare with."""

    system: str
    kind: FaultKind
    means: Means = ""
    peer: str = "driver"


DEATHS: Final[Mapping[str, Death]] = {
    "worker": Death("spark", "kill_task", peer="worker"),
    "driver": Death("spark", "kill_process"),
    "java": Death("spark", "kill_process", "java"),
    "executor": Death("spark-cluster", "kill_task", "executor"),
}
PEER_DEATHS: Final[Mapping[str, FaultKind]] = {"worker": "kill_task", "driver": "kill_process"}

Find = Callable[[str], System]


def measure(rounds: int = ROUNDS, find: Find = find_system) -> Measurement:
    """Return the recovery seconds after each kind of kill, of the engine and of Structured Streaming."""
    figures: dict[str, float] = {}
    floors: dict[str, float] = {}
    with ready(find(PEER)) as system:
        for name, kind in PEER_DEATHS.items():
            seconds = [
                seconds_after(system, scenario_of(Fault(kind, "pre_committed"))) for _ in range(rounds)
            ]
            _note(floors, name, seconds)
    for system_name in dict.fromkeys(death.system for death in DEATHS.values()):
        with ready(find(system_name)) as system:
            for name, death in DEATHS.items():
                if death.system == system_name:
                    fault = Fault(death.kind, "pre_committed", checkpoint=2, means=death.means)
                    _note(figures, name, [seconds_after(system, scenario_of(fault)) for _ in range(rounds)])
    ratios = {
        name: round(floors[f"{death.peer}_seconds"] / figures[f"{name}_seconds"], 3)
        for name, death in DEATHS.items()
    }
    return Measurement("recover", {"rounds": rounds, **figures}, floors, ratios, machine_text())


def scenario_of(*faults: Fault) -> Scenario:
    """Return the job in epochs of equal length, with some faults."""
    drawn = generate(load_family(FAMILY), SEED)
    return replace(
        drawn,
        seed=None,
        faults=faults,
        parallelism=2,
        source_parallelism=0,
        sink_parallelism=0,
        # Three steps for each record.
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        restart_delay_ms=0,
    )


def seconds_after(system: System, scenario: Scenario) -> float:
    """Run the job and return the seconds from the kill to new rows."""
    family = load_family(FAMILY)
    if any(fault.kind == "kill_process" for fault in scenario.faults):
        stand_by(system)
    history = _sound(system, family, scenario)
    found = [recovery.seconds for recovery in history.statistics.recoveries]
    if len(found) != 1 or found[0] is None:
        raise NotRecovered(f"{system.name}: {scenario.faults[0].kind} struck {len(found)} times, not once")
    return float(found[0])


@contextmanager
def ready(system: System) -> Iterator[System]:
    """Yield a system that has run the job once, and close it afterwards."""
    if isinstance(system, Closable):
        with closing(system):
            _sound(system, load_family(FAMILY), scenario_of())
            yield system
    else:
        yield system


def stand_by(system: Any) -> None:
    """Wait until two driver processes are ready: one to be killed, and its successor."""
    drivers = getattr(system, "drivers", None) or getattr(system, "_drivers", None)
    if drivers is None:
        return
    taken = [drivers.take() for _ in range(2)]
    for driver in taken:
        driver.wait_until_ready()
        drivers.give_back(driver)


def _sound(system: System, family: Family, scenario: Scenario) -> Any:
    history = system.run(family, scenario)
    violations = judge(scenario, history, PythonOracle(family, scenario)).violations
    if violations:
        first = violations[0]
        raise NotRecovered(f"{system.name}: {first.property}, {first.anomaly}: {first.where}")
    return history


def _note(figures: dict[str, float], name: str, seconds: list[float]) -> None:
    figures[f"{name}_seconds"] = round(median(seconds), 3)
    figures[f"{name}_seconds_worst"] = round(max(seconds), 3)
