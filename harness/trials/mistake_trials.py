"""Which mistakes in a user's job its scenarios would catch: each is made in turn, in a copy of the job.

Rules:

- A mistake is caught by a scenario that fails with it and passes without it. The family's own oracle judges,
  of a program its runs without faults, never what the edited job says.
- Mistakes are made in lines that the first scenarios execute; in others they would show nothing.
- A mistake has a number in its file, by which another process finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from onceproof.harness.explanation.edits import Edit
from onceproof.harness.explanation.job_mistakes import job_mistakes
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.outside_state import OutsideState
from onceproof.harness.trials.counterfactuals import JUDGING, JobSource
from onceproof.harness.trials.mutant_trials import failure_of
from onceproof.harness.trials.trial import scenario_of

SCENARIOS: Final = 200
"""A mistake has so many scenarios to be caught in."""
FIRST_SCENARIOS: Final = 30
"""Those whose lines are edited."""
LONGEST_RUN_SECONDS: Final = 20.0
"""The processor time of a scenario: a program runs several times more, to judge itself."""


class MistakeResult(Struct, frozen=True):
    """What became of one mistake."""

    family: str
    file: str
    line: int
    mistake: str
    """What is different in the job, in words and code."""
    caught: bool
    scenarios: int
    """How many ran, the one that caught it included."""
    property: str | None
    """The property that it breaks first."""


class _Job(NamedTuple):
    source: JobSource
    edits: Sequence[Edit]


def measure_mistakes(
    addresses: Sequence[str], seed: int, limit: int = SCENARIOS, workers: int = 1
) -> Iterator[MistakeResult]:
    """Make each mistake in each job, and yield what became of it, by file and line.

    Args:
        addresses: of families in files, and of programs.
        seed: of the run whose scenarios are tried.
        limit: how many of them a mistake has.
        workers: how many processes.

    Raises:
        FamilyError: a job has no source that can be edited, or nothing in it to edit.
    """
    lines = {address: _executed_lines(address, seed) for address in addresses}
    jobs = {address: _job(address, lines[address]) for address in addresses}
    numbered = [(address, number) for address, job in jobs.items() for number in range(len(job.edits))]
    if workers <= 1:
        for address, number in numbered:
            yield _measure(jobs[address], number, seed, limit)
        return
    with ProcessPoolExecutor(min(workers, len(numbered)), mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(_measure_in_worker, address, lines[address], number, seed, limit)
            for address, number in numbered
        ]
        try:
            for result in waiting:
                yield result.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _source(address: str) -> JobSource:
    source = JobSource.of(load_family(address))
    if source is None:
        raise FamilyError(
            f"{address}: mistakes are made in jobs of Python: give FILE.py, a family or a PyFlink program"
        )
    return source


def _executed_lines(address: str, seed: int) -> frozenset[int]:
    """Return the lines of a job that its first scenarios execute. Raises FamilyError if one fails."""
    source = _source(address)
    family = source.family
    watch = _watch(source, traced=True)
    with source.copied(None, watch) as copied:
        for number in range(FIRST_SCENARIOS):
            scenario = scenario_of(family, scenario_seed(seed, family.name, number))
            failure = failure_of(copied, scenario, run_seconds=LONGEST_RUN_SECONDS)
            if failure is not None:
                raise FamilyError(
                    f"{address}: the job fails as it is, by {failure.violations[0].property}: run `onceproof"
                    " run` and mend it first"
                )
    return frozenset(watch.lines)


def _watch(source: JobSource, *, traced: bool = False) -> OutsideState:
    inputs = Path(source.file).absolute().parent
    return OutsideState([source.module.__name__], inputs, is_traced=traced)


def _job(address: str, lines: frozenset[int]) -> _Job:
    """Return the source of a job and the mistakes in its executed lines. Raises FamilyError."""
    source = _source(address)
    edits = job_mistakes(source.tree, lines, JUDGING)
    if not edits:
        raise FamilyError(
            f"{address}: it has no state, timer, key or comparison of its own to make a mistake in: give the"
            " file that defines the job's functions"
        )
    return _Job(source, edits)


_job_of_worker: Final = cache(_job)
"""A worker stays in one folder, in which an address means one job."""


def _measure_in_worker(
    address: str, lines: frozenset[int], number: int, seed: int, limit: int
) -> MistakeResult:
    return _measure(_job_of_worker(address, lines), number, seed, limit)


def _measure(job: _Job, number: int, seed: int, limit: int) -> MistakeResult:
    family, edit = job.source.family, job.edits[number]
    count, broken = 0, None
    with job.source.copied(edit, _watch(job.source)) as edited:
        while count < limit and broken is None:
            scenario = scenario_of(family, scenario_seed(seed, family.name, count))
            count += 1
            failure = failure_of(edited, scenario, run_seconds=LONGEST_RUN_SECONDS)
            if failure is not None and _passes(family, scenario):
                broken = failure.violations[0].property
    return MistakeResult(
        family.name, job.source.file, edit.line, edit.what, broken is not None, count, broken
    )


def _passes(family: Family, scenario: Scenario) -> bool:
    return failure_of(family, scenario, run_seconds=LONGEST_RUN_SECONDS) is None
