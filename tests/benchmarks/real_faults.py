"""Real faults of every kind on Spark, and what they cost; a module that runs by itself.

The rules this module lives by:

- A round has thirty faults of all kinds, half with tasks in the driver's JVM and half on a cluster of
  executors, and three more on a cluster of two hosts, where Spark starts slow tasks a second time. The table
  in harness/docs/systems.md shows ten rounds.
- A share is a part of all rounds, so that shares can run one after another or on several machines; the
  results of all shares are in one folder.
- The seed decides the records, the settings and the protocol points of each scenario. It has three epochs
  with one fault in each, so that each recovery belongs to one fault.
- Every scenario is judged by all checkers. A failing one is written as JSON, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import MEANS_POINTS, FaultKind, Means, Point
from onceproof.harness.model.fault_means import LONGEST_DELAY_MS, MOST_REFUSALS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario, to_json
from onceproof.harness.model.system import find_system
from onceproof.harness.systems.spark.system import SparkSystem

FAMILIES: Final = ("flights", "page_views", "nexmark_q3", "nexmark_q5", "nexmark_q7")
SYSTEMS: Final[dict[str, str]] = {
    "spark": "local[2,4]",
    "spark-cluster": "local-cluster",
    "spark-standalone": "standalone",
}
"""The systems under test, and their names in the table."""
EPOCHS: Final = 3
RECORDS: Final = range(15, 60)
"""The number of records of a scenario: enough for its epochs, and few enough to be fast."""
ROUNDS: Final = 10


class RealKind(NamedTuple):
    """A kind of real fault."""

    words: str
    kind: FaultKind
    means: Means = ""
    is_late: bool = False


WORKER: Final = RealKind("SIGKILL of a worker", "kill_task")
WORKERS: Final = RealKind("SIGKILL of all workers", "kill_all")
LATE_WORKER: Final = RealKind("SIGKILL of a worker, at a random time", "kill_task", is_late=True)
EXECUTOR: Final = RealKind("SIGKILL of an executor's Java", "kill_task", "executor")
EXECUTORS: Final = RealKind("SIGKILL of the Java of all executors", "kill_all", "executor")
LATE_EXECUTOR: Final = RealKind(
    "SIGKILL of an executor's Java, at a random time", "kill_task", "executor", is_late=True
)
ZOMBIE: Final = RealKind("SIGSTOP of a worker, SIGCONT when another one is done", "kill_task", "zombie")
SHUFFLE: Final = RealKind("SIGKILL of a worker, shuffle files deleted", "kill_task", "shuffle")
TORN: Final = RealKind("SIGKILL in the middle of a write", "tear_write")
FULL: Final = RealKind("checkpoint folder full for a while", "fail_write", "full")
READ_ONLY: Final = RealKind("checkpoint folder read-only for a while", "fail_write", "read_only")
DRIVER: Final = RealKind("SIGKILL of the driver's Python", "kill_process")
LATE_DRIVER: Final = RealKind(
    "SIGKILL of the driver's Python, at a random time", "kill_process", is_late=True
)
JAVA: Final = RealKind("SIGKILL of the driver's Java", "kill_process", "java")

SLOW: Final = RealKind("a task so slow that Spark runs it twice", "kill_task", "slow")

PLANS: Final[dict[str, tuple[tuple[RealKind, RealKind, RealKind], ...]]] = {
    "spark": (
        (WORKER, ZOMBIE, SHUFFLE),
        (WORKERS, WORKER, FULL),
        (ZOMBIE, TORN, DRIVER),
        (LATE_WORKER, READ_ONLY, JAVA),
        (SHUFFLE, LATE_WORKER, WORKER),
    ),
    "spark-cluster": (
        (EXECUTOR, WORKER, ZOMBIE),
        (SHUFFLE, EXECUTORS, FULL),
        (WORKER, EXECUTOR, JAVA),
        (READ_ONLY, ZOMBIE, LATE_DRIVER),
        (LATE_EXECUTOR, EXECUTOR, EXECUTOR),
    ),
    "spark-standalone": ((SLOW, ZOMBIE, SLOW),),
}
"""By system, the faults of a round: three for each scenario, one in each epoch; a driver dies in the last."""

_TASK_POINTS: Final[tuple[Point, ...]] = (
    "barrier_received",
    "aligned",
    "pre_committed",
    "snapshotted",
    "uploaded",
    "acknowledged",
)
_DRIVER_POINTS: Final[tuple[Point, ...]] = (
    "triggered",
    "aligned",
    "pre_committed",
    "metadata_written",
    "completed",
    "notified",
    "committed",
)


class Case(NamedTuple):
    """A scenario of the benchmark and its system."""

    system: str
    kinds: tuple[RealKind, ...]
    scenario: Scenario


class Struck(msgspec.Struct, frozen=True):
    """A fault that fired, and the seconds until a new transaction was committed."""

    words: str
    seconds: float | None


class CaseResult(msgspec.Struct, frozen=True):
    """The result of one scenario."""

    number: int
    system: str
    family: str
    planned: int
    struck: tuple[Struck, ...]
    violations: tuple[str, ...]


def cases(seed: int, rounds: int) -> Iterator[Case]:
    """Yield all scenarios by round and system; those on two hosts come last."""
    turns = [(turn, system) for turn in range(rounds) for system in list(SYSTEMS)[:-1]]
    turns += [(turn, list(SYSTEMS)[-1]) for turn in range(rounds)]
    place = 0
    for turn, system in turns:
        for number, kinds in enumerate(PLANS[system]):
            chance = Chance(Random(derived_seed("nemesis", seed, turn, system, number)))
            # The next round has other families for the same kinds.
            yield Case(system, kinds, _scenario(FAMILIES[(place + turn) % len(FAMILIES)], kinds, chance))
            place += 1


def _scenario(name: str, kinds: Sequence[RealKind], chance: Chance) -> Scenario:
    """Draw a scenario of a family that is large enough, with a fault of each kind in an epoch of its own."""
    family = load_family(name)
    seed = chance.integer(0, 10**6)
    # Where no failed checkpoint is tolerated the time-out is ample: none expires but by a fault.
    while (drawn := generate(family, seed)).record_count() not in RECORDS or drawn.tolerable_failures:
        seed += 1
    faults = [_fault(kind, epoch, chance) for epoch, kind in enumerate(kinds, 1)]
    return replace(
        drawn,
        # The scenario is changed below, so it no longer follows from the seed.
        seed=None,
        faults=tuple(faults),
        # Three steps for each record; a remainder is read in one more epoch.
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        max_parallelism=max(8, drawn.max_parallelism),
        tolerable_failures=1,
        restart_delay_ms=1,
    )


def _fault(kind: RealKind, epoch: int, chance: Chance) -> Fault:
    points = _DRIVER_POINTS if kind.kind == "kill_process" else MEANS_POINTS.get(kind.means, _TASK_POINTS)
    point = chance.choice([each for each in points if each != "element"])
    delay = 0
    if kind.is_late:
        delay = chance.integer(1, LONGEST_DELAY_MS)
    elif kind.kind == "fail_write":
        point = chance.choice(("snapshotted", "metadata_written"))
        delay = chance.integer(1, MOST_REFUSALS)
    elif kind.kind == "tear_write":
        point = "snapshotted"
    rescale_to = chance.integer(1, 4) if chance.chance(0.25) else 0
    return Fault(
        kind.kind,
        point,
        checkpoint=epoch,
        delay=delay,
        rescale_to=rescale_to if FAULTS[kind.kind].is_kill else 0,
        means=kind.means,
    )


def run_case(number: int, case: Case, system: SparkSystem, out: Path) -> CaseResult:
    """Run a scenario and judge it; a failing one is written to ``out``."""
    family = load_family(case.scenario.family)
    history = system.run(family, case.scenario)
    verdict = judge(case.scenario, history, PythonOracle(family, case.scenario))
    if verdict.violations:
        (out / f"failed-{number}.json").write_text(to_json(case.scenario, indent=1))
    return CaseResult(
        number,
        case.system,
        case.scenario.family,
        len(case.kinds),
        tuple(_struck(case, history)),
        tuple([f"{each.property}, {each.anomaly}: {each.where}" for each in verdict.violations]),
    )


def _struck(case: Case, history: History) -> Iterator[Struck]:
    """Yield the fired faults: each recovery belongs to the first planned fault that matches it."""
    left = list(zip(case.scenario.faults, case.kinds, strict=True))
    for recovery in history.statistics.recoveries:
        for fault, kind in left:
            if (fault.kind, fault.means, fault.point) == (recovery.kind, recovery.means, recovery.point):
                left.remove((fault, kind))
                yield Struck(kind.words, recovery.commit_seconds)
                break


def read_results(out: Path) -> list[CaseResult]:
    """Return the results of all shares so far, by number; of a repeated scenario the last."""
    results: dict[int, CaseResult] = {}
    for path in sorted(out.glob("results-*.jsonl")):
        for line in path.read_bytes().splitlines():
            each = msgspec.json.decode(line, type=CaseResult)
            results[each.number] = each
    return [results[number] for number in sorted(results)]


def table(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield the lines of the table: how often each kind fired on each system, and the recovery times."""
    words = dict.fromkeys(kind.words for plan in PLANS.values() for kinds in plan for kind in kinds)
    yield f"| fault | {' | '.join(SYSTEMS.values())} | median s | worst s |"
    yield f"| --- | {'--: | ' * len(SYSTEMS)}--: | --: |"
    totals = []
    for word in words:
        counts = []
        seconds: list[float] = []
        for system in SYSTEMS:
            found = [
                each for one in results if one.system == system for each in one.struck if each.words == word
            ]
            counts.append(len(found))
            seconds += [each.seconds for each in found if each.seconds is not None]
        totals.append(counts)
        times = (f"{median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("", "")
        yield f"| {' | '.join([word, *map(str, counts), *times])} |"
    all_counts = [sum(counts) for counts in zip(*totals, strict=True)]
    yield f"| all {sum(all_counts)} | {' | '.join(map(str, all_counts))} | | |"
    failed = sum(bool(one.violations) for one in results)
    planned = sum(one.planned for one in results)
    yield ""
    struck = sum(all_counts)
    yield f"{len(results)} scenarios, {planned} faults planned, {struck} fired, {failed} scenarios FAILED"


def run_share(seed: int, rounds: int, shares: int, first: int, out: Path) -> int:
    """Run one share of all scenarios and return the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    code = PASSED
    numbered = list(enumerate(cases(seed, rounds)))
    wanted = numbered[first * len(numbered) // shares : (first + 1) * len(numbered) // shares]
    with (out / f"results-{seed}-{shares}-{first}.jsonl").open("ab", buffering=0) as lines:
        for name in SYSTEMS:
            system = find_system(name)
            assert isinstance(system, SparkSystem)
            with closing(system):
                for number, case in wanted:
                    if case.system != name:
                        continue
                    result = run_case(number, case, system, out)
                    lines.write(msgspec.json.encode(result) + b"\n")
                    print(f"{number}: {case.system}, {result.family}: {_summary(result)}", file=sys.stderr)
                    if result.violations:
                        code = FAILED
    return code


def _summary(result: CaseResult) -> str:
    if result.violations:
        return f"FAILED {'; '.join(result.violations)}"
    return "; ".join(
        f"{each.words} ({'-' if each.seconds is None else f'{each.seconds:.1f} s'})" for each in result.struck
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a share, and print the table of all shares that have run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.real_faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of thirty faults each")
    parser.add_argument("--shares", type=int, default=1, help="number of parts of all rounds")
    parser.add_argument("--first", type=int, default=0, help="number of the share to run, from 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("reports/out/nemesis"))
    parser.add_argument("--table", action="store_true", help="run nothing, print the table only")
    given = parser.parse_args(arguments)
    code = PASSED
    if not given.table:
        code = run_share(given.seed, given.rounds, given.shares, given.first, given.out)
    for line in table(read_results(given.out)):
        print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
