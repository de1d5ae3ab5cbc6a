"""How many scenarios a second the simulation runs, beside the same case written by hand.

The rules this module lives by:

- The reference case: two sources, two counts and two sinks over hash edges, 50 words, about three
  checkpoints, one kill that also rescales, the final rows checked. The floor is that case and nothing else:
  no engine, one fault, no error handling. Every scenario is another one, in its words and in its schedule.
- Floor and simulation take turns, scenario by scenario, so that whatever else the machine does hits both. CPU
  time is measured, not the clock on the wall: what others do on the machine is none of our work.
- Each scenario is run in several rounds. Its best time counts, since other work only adds to it; beside it
  stands the median of whole rounds.
- Both check their rows within the time that is measured. Simulation with a full verdict, by all checkers, is
  a figure of its own, in rounds of its own.
- The floor takes fewer steps for the case: its tasks need not be restored one by one, say that they run or
  have finished, or pass on the end of their data. So steps a second are compared, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from statistics import median
from typing import Final

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, History
from onceproof.harness.model.scenario import Fault, Scenario, Schedule
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from tests.benchmarks import minimal_simulation
from tests.benchmarks.measurement import Measurement

SCENARIOS: Final = 100
ROUNDS: Final = 20

WORDS: Final = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
WORDS_A_SPLIT: Final = 25

_SYSTEM: Final = SimulatedSystem()
_CHECKER: Final = ExactlyOnce()


class WrongRows(Exception):
    """The measured case gave wrong rows; the message is one line."""


def reference_scenario(family: Family, seed: int) -> Scenario:
    """Return the reference case with the words and the schedule of a seed."""
    draw = Random(seed).random
    return Scenario(
        family=family.name,
        generator_version=family.generator_version,
        seed=None,
        parameters={},
        records={
            split: tuple([(place, WORDS[int(draw() * len(WORDS))]) for place in range(WORDS_A_SPLIT)])
            for split in ("left", "right")
        },
        parallelism=2,
        max_parallelism=16,
        source_parallelism=2,
        sink_parallelism=2,
        channel_capacity=8,
        checkpoint_interval_ms=60,
        checkpoint_timeout_ms=2_000,
        tolerable_failures=3,
        retained=1,
        restart_delay_ms=5,
        faults=(Fault(kind="kill_task", point="notified", task="count-1", checkpoint=2, rescale_to=3),),
        schedule=Schedule(kind="uniform", seed=seed, horizon=100_000),
        step_budget=10_000,
    )


def measure(scenarios: int = SCENARIOS, rounds: int = ROUNDS) -> Measurement:
    """Measure the simulation beside its floor."""
    family = load_family("word_count")
    cases = [reference_scenario(family, seed) for seed in range(scenarios)]
    words = [[[str(word) for _, word in split] for split in case.records.values()] for case in cases]
    histories = [_simulate(family, case) for case in cases]
    simulated, judged, floored = _Times(scenarios), _Times(scenarios), _Times(scenarios)
    with _as_in_a_worker():
        for _ in range(rounds):
            for seed, case in enumerate(cases):
                floored.add(seed, lambda: minimal_simulation.Run(words[seed], seed).run())  # noqa: B023 (called at once)
                simulated.add(seed, lambda: _simulate(family, case))  # noqa: B023
            for seed, case in enumerate(cases):
                judged.add(seed, lambda: _judge(family, case))  # noqa: B023
    best, usual = simulated.best(), simulated.usual()
    means = _means(histories)
    steps = means["steps"]
    floor_steps = sum(_steps_of(words[seed], seed) for seed in range(scenarios)) / scenarios
    return Measurement(
        name="simulate",
        figures={
            "scenarios_per_second": round(scenarios / best, 1),
            "scenarios_per_second_median": round(scenarios / usual, 1),
            "judged_scenarios_per_second": round(scenarios / judged.best(), 1),
            "steps_per_second": round(scenarios * steps / best, 1),
            "microseconds_a_scenario": round(1e6 * best / scenarios, 1),
            **{name: round(value, 2) for name, value in means.items()},
        },
        floors={
            "scenarios_per_second": round(scenarios / floored.best(), 1),
            "scenarios_per_second_median": round(scenarios / floored.usual(), 1),
            "steps_per_second": round(scenarios * floor_steps / floored.best(), 1),
            "steps": round(floor_steps, 2),
        },
        ratios={
            "scenarios_per_second": round(floored.best() / best, 3),
            "scenarios_per_second_median": round(floored.usual() / usual, 3),
            "steps_per_second": round(steps / best * floored.best() / floor_steps, 3),
            "steps": round(steps / floor_steps, 3),
        },
        machine=machine_text(),
    )


def _steps_of(words: list[list[str]], seed: int) -> int:
    """Return how many steps the floor takes for a case."""
    run = minimal_simulation.Run(words, seed)
    run.run()
    steps: int = run.steps
    return steps


def _simulate(family: Family, case: Scenario) -> History:
    history = _SYSTEM.run(family, case)
    violations = _CHECKER.check(case, history, PythonOracle(family, case))
    if violations:
        raise WrongRows(f"the reference case {case.schedule.seed} ends in wrong rows: {violations[0]}")
    return history


def _judge(family: Family, case: Scenario) -> None:
    verdict = judge(case, _SYSTEM.run(family, case), PythonOracle(family, case))
    if not verdict.passed:
        raise WrongRows(f"the reference case {case.schedule.seed} fails: {verdict.violations[0]}")


def _means(histories: list[History]) -> dict[str, float]:
    """What a scenario consists of, on average."""
    kinds = [event[1] for history in histories for event in history.events]
    return {
        "steps": sum(history.statistics.steps for history in histories) / len(histories),
        "checkpoints": kinds.count(CHECKPOINT_COMPLETED) / len(histories),
        "attempts": kinds.count(ATTEMPT_STARTED) / len(histories),
    }


class _Times:
    """The times of each scenario over the rounds."""

    def __init__(self, scenarios: int) -> None:
        self._seconds: list[list[float]] = [[] for _ in range(scenarios)]

    def add(self, scenario: int, run: Callable[[], object]) -> None:
        """Run once, and take the CPU time."""
        started = time.process_time()
        run()
        self._seconds[scenario].append(time.process_time() - started)

    def best(self) -> float:
        """All scenarios at the best time of each."""
        return sum(map(min, self._seconds))

    def usual(self) -> float:
        """The median of the rounds, each over all scenarios."""
        return median(map(sum, zip(*self._seconds, strict=True)))


@contextmanager
def _as_in_a_worker() -> Iterator[None]:
    """What is loaded by now is kept from the garbage collector, as a worker does before its first batch."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
