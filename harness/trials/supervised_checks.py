"""The check of a family in a process of its own: a scenario that never answers is a mistake like others.

Rules:

- The process checks one scenario after another, and notes each before it begins (supervision.py).
- What is found is what ``mistakes_of`` finds: one mistake for each member, in the order of the scenarios.
- The order of a set, and ``hash()`` of a string, differ from process to process. Within one process they do
  not, so a second call finds nothing. Workers and replays are other processes.
- The other process gets the family's address, and answers with one digest for each scenario.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import Final

import msgspec

from onceproof.harness.model.family import Family, FamilyError, source_file
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.systems.simulation.stopping import Stopped, stopped_in_time
from onceproof.harness.trials.family_mistakes import FEW_SCENARIOS, FamilyMistake, distinct, mistakes_in
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.pool import Batch, Done, Start, WorkerPool, error_of, raise_error_of
from onceproof.harness.trials.supervision import Lost, Notes, end_out_of_memory, is_out_of_memory, lost_by
from onceproof.harness.trials.trial import SIMULATED, scenario_of

HASH_SEEDS: Final = ("1", "2")


def mistake_in_another_process(
    family: Family, address: str, seed: int, scenarios: int
) -> FamilyMistake | None:
    """Return the mistake of a family whose records or runs follow hash values; None if they do not.

    Args:
        address: by which another process finds the family.

    Raises:
        FamilyError: the other process cannot run the family.
    """
    first, second = (_digests_of(family, address, seed, scenarios, each) for each in HASH_SEEDS)
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if one == other:
            continue
        where = f"seed {scenario_seed(seed, family.name, number)}"
        cause = "it follows the order of a set, or hash(), which no two processes share: sort, or use a list"
        if one.split()[0] != other.split()[0]:
            return FamilyMistake(
                "generate", f"{where}: generate() gives other records in another process: {cause}"
            )
        return FamilyMistake("job", f"{where}: job() runs otherwise in another process: {cause}")
    return None


def _digests_of(family: Family, address: str, seed: int, scenarios: int, hash_seed: str) -> list[str]:
    # -P: a json.py in the working directory must not stand in for Python's.
    command = [sys.executable, "-P", "-m", __name__, address, str(seed), str(scenarios)]
    ended = subprocess.run(
        command,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(_MARK)]
    if ended.returncode or len(lines) != scenarios:
        last = (ended.stderr.strip().splitlines() or ["it ended early"])[-1]
        raise FamilyError(f"{address}: another process cannot run family {family.name}: {last}")
    return [line.removeprefix(_MARK) for line in lines]


_MARK: Final = "onceproof digest "
"""Begins the lines of an answer: a family may print as well."""


def _answers(address: str, seed: int, scenarios: int) -> Iterator[str]:
    """Yield for each scenario a digest of its records and the trace hash of its undisturbed run."""
    family = load_family(address)
    for number in range(scenarios):
        scenario = scenario_of(family, scenario_seed(seed, family.name, number))
        records = blake2b(to_json(scenario).encode(), digest_size=16).hexdigest()
        with stopped_in_time():
            trace_hash = SIMULATED.run(family, undisturbed(scenario)).trace_hash
        yield f"{_MARK}{records} {trace_hash}"


if __name__ == "__main__":
    for answer in _answers(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        print(answer)


_decoder: Final = msgspec.json.Decoder(list[FamilyMistake])


def supervised_mistakes(
    address: str,
    seed: int,
    scenarios: int = FEW_SCENARIOS,
    parallelisms: Sequence[int] = (),
    budget: Budget = Budget(),  # noqa: B008
) -> list[FamilyMistake]:
    """Return the mistakes of a family, one for each member; see ``mistakes_of``.

    Args:
        address: by which another process finds the family.
        budget: what each scenario may use.

    Raises:
        FamilyError, WorkerDied, WorkerFailed: the family, or a process, failed.
    """
    found: list[FamilyMistake] = []
    start = Start(seed, (address,), SIMULATED.name, checks=tuple(parallelisms), budget=budget)
    with WorkerPool(1, start, lambda line: None) as pool:
        for done in pool.run(iter([Batch(0, scenarios)])):
            raise_error_of([done])
            for line in done.lines:
                found += _decoder.decode(line)
    return distinct(found)


def _mistake_of(lost: Lost, seed: int) -> FamilyMistake:
    """Return a scenario that gave no outcome as a mistake."""
    member = "job" if lost.is_generated else "generate"
    operator = f", in {lost.operator}" if lost.operator else ""
    inside = f", in {', called by '.join(lost.stack)}" if lost.stack else ""
    return FamilyMistake(member, f"seed {seed}: {lost.anomaly}, during {lost.during}{operator}{inside}")


def check_batch(family: Family, seed: int, batch: Batch, parallelisms: Sequence[int], notes: Notes) -> Done:
    """Check the scenarios of a batch, up to the first error."""
    started = perf_counter()
    lines: list[bytes] = []
    errors = ("", "")
    notes.begin_batch()
    lost_by_place = {lost.place: lost for lost in batch.lost}
    try:
        for place, number in enumerate(range(batch.first, batch.first + batch.count)):
            drawn = scenario_seed(seed, family.name, number)
            if (lost := lost_by_place.get(place)) is not None:
                mistakes = [_mistake_of(lost, drawn)]
            else:
                notes.begin(place)
                scenario = scenario_of(family, drawn)
                notes.generated(place)
                try:
                    with stopped_in_time(source_file(family)):
                        mistakes = list(mistakes_in(family, scenario, parallelisms))
                except Stopped as stopped:
                    mistakes = [_mistake_of(lost_by(stopped, is_generated=True), drawn)]
                notes.idle()
            lines.append(msgspec.json.encode(mistakes))
    except Exception as error:
        if is_out_of_memory(error):
            end_out_of_memory()
        errors = error_of(error, batch)
    return Done(batch.first, tuple(lines), perf_counter() - started, *errors)
