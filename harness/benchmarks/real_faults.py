"""Real faults of every kind on Spark, and what they cost; a module that runs by itself.

The rules this module lives by:

- A round is thirty faults, half of them where tasks run in the driver's own Java and half on a cluster of
  executors, each kind that there is, the frequent ones several times; and three on a cluster of two hosts,
  where Spark begins slow tasks a second time. Ten rounds are what the table in harness/docs/systems.md shows.
- A share is a part of all rounds, so that shares can be run one after another, or on several machines; what
  each has found is appended to the same folder.
- Of each scenario the records, the settings and the points at which it is hurt follow from the seed. It is
  cut into three epochs, and each has a fault of its own, so that recoveries can be told from one another.
- Everything is judged as any scenario is. One that fails is kept as JSON, and ends the run with exit code 1.
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
from onceproof.harness.model.family import load_family
from onceproof.harness.model.fault_means import LONGEST_DELAY_MS, MOST_REFUSALS
from onceproof.harness.model.faults import FAULTS, MEANS_POINTS, FaultKind, Means, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario, to_json
from onceproof.harness.model.system import find_system
from onceproof.harness.systems.spark.spark_system import SparkSystem

FAMILIES: Final = ("flights", "page_views", "nexmark_q3", "nexmark_q5", "nexmark_q7")
SYSTEMS: Final[dict[str, str]] = {
    "spark": "local[2,4]",
    "spark-cluster": "local-cluster",
    "spark-standalone": "standalone",
}
"""What stands trial, and how the table calls it."""
EPOCHS: Final = 3
RECORDS: Final = range(15, 60)
"""How many records a scenario has: enough for its epochs, and soon read."""
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
"""By system, the faults of a round: three a scenario, one in each epoch, and of a driver the last one."""

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
    """One scenario of the trial."""

    system: str
    kinds: tuple[RealKind, ...]
    scenario: Scenario


class Struck(msgspec.Struct, frozen=True):
    """A fault that struck, and how long it took until a new transaction was committed."""

    words: str
    seconds: float | None


class Told(msgspec.Struct, frozen=True):
    """What came of one scenario."""

    number: int
    system: str
    family: str
    planned: int
    struck: tuple[Struck, ...]
    violations: tuple[str, ...]


def cases(seed: int, rounds: int) -> Iterator[Case]:
    """Yield all scenarios, a system after the other within each round; those on two hosts come last."""
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
    while (drawn := generate(family, seed)).record_count() not in RECORDS:
        seed += 1
    faults = [_fault(kind, epoch, chance) for epoch, kind in enumerate(kinds, 1)]
    return replace(
        drawn,
        # What stands in it is all that there is to it.
        seed=None,
        faults=tuple(faults),
        # Three steps a record; what is left over is read in one more epoch.
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


def run_case(number: int, case: Case, system: SparkSystem, out: Path) -> Told:
    """Run a scenario and judge it; one that fails is kept."""
    family = load_family(case.scenario.family)
    history = system.run(family, case.scenario)
    verdict = judge(case.scenario, history, PythonOracle(family, case.scenario))
    if verdict.violations:
        (out / f"failed-{number}.json").write_text(to_json(case.scenario, indent=1))
    return Told(
        number,
        case.system,
        case.scenario.family,
        len(case.kinds),
        tuple(_struck(case, history)),
        tuple([f"{each.property}, {each.anomaly}: {each.where}" for each in verdict.violations]),
    )


def _struck(case: Case, history: History) -> Iterator[Struck]:
    """Yield what struck: each recovery belongs to the first of the planned faults that it can be of."""
    left = list(zip(case.scenario.faults, case.kinds, strict=True))
    for recovery in history.statistics.recoveries:
        for fault, kind in left:
            if (fault.kind, fault.means, fault.point) == (recovery.kind, recovery.means, recovery.point):
                left.remove((fault, kind))
                yield Struck(kind.words, recovery.commit_seconds)
                break


def read_told(out: Path) -> list[Told]:
    """Return what all shares have told so far; of a scenario that was run twice the last."""
    told: dict[int, Told] = {}
    for path in sorted(out.glob("told-*.jsonl")):
        for line in path.read_bytes().splitlines():
            each = msgspec.json.decode(line, type=Told)
            told[each.number] = each
    return [told[number] for number in sorted(told)]


def table(told: Sequence[Told]) -> Iterator[str]:
    """Yield the lines of the table: each kind, how often it struck where, and the time to recover."""
    words = dict.fromkeys(kind.words for plan in PLANS.values() for kinds in plan for kind in kinds)
    yield f"| fault | {' | '.join(SYSTEMS.values())} | median s | worst s |"
    yield f"| --- | {'--: | ' * len(SYSTEMS)}--: | --: |"
    totals = []
    for word in words:
        counts = []
        seconds: list[float] = []
        for system in SYSTEMS:
            found = [
                each for one in told if one.system == system for each in one.struck if each.words == word
            ]
            counts.append(len(found))
            seconds += [each.seconds for each in found if each.seconds is not None]
        totals.append(counts)
        times = (f"{median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("", "")
        yield f"| {' | '.join([word, *map(str, counts), *times])} |"
    all_counts = [sum(counts) for counts in zip(*totals, strict=True)]
    yield f"| all {sum(all_counts)} | {' | '.join(map(str, all_counts))} | | |"
    failed = sum(bool(one.violations) for one in told)
    planned = sum(one.planned for one in told)
    yield ""
    struck = sum(all_counts)
    yield f"{len(told)} scenarios, {planned} faults planned, {struck} struck, {failed} scenarios FAILED"


def run_share(seed: int, rounds: int, shares: int, first: int, out: Path) -> int:
    """Run one part of all scenarios; the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    code = PASSED
    numbered = list(enumerate(cases(seed, rounds)))
    wanted = numbered[first * len(numbered) // shares : (first + 1) * len(numbered) // shares]
    with (out / f"told-{seed}-{shares}-{first}.jsonl").open("ab", buffering=0) as lines:
        for name in SYSTEMS:
            system = find_system(name)
            assert isinstance(system, SparkSystem)
            with closing(system):
                for number, case in wanted:
                    if case.system != name:
                        continue
                    told = run_case(number, case, system, out)
                    lines.write(msgspec.json.encode(told) + b"\n")
                    print(f"{number}: {case.system}, {told.family}: {_summary(told)}", file=sys.stderr)
                    if told.violations:
                        code = FAILED
    return code


def _summary(told: Told) -> str:
    if told.violations:
        return f"FAILED {'; '.join(told.violations)}"
    return "; ".join(
        f"{each.words} ({'-' if each.seconds is None else f'{each.seconds:.1f} s'})" for each in told.struck
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a share, or print the table of all that have been run."""
    parser = argparse.ArgumentParser(
        prog="python -m onceproof.harness.benchmarks.real_faults", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of thirty faults each")
    parser.add_argument("--shares", type=int, default=1, help="into how many parts all is divided")
    parser.add_argument("--first", type=int, default=0, help="which of them is run, from 0 on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("reports/out/nemesis"))
    parser.add_argument("--table", action="store_true", help="run nothing, print what was found")
    given = parser.parse_args(arguments)
    code = PASSED
    if not given.table:
        code = run_share(given.seed, given.rounds, given.shares, given.first, given.out)
    for line in table(read_told(given.out)):
        print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
