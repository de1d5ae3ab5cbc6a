"""Whether a family's records and runs are the same in a process with other hash values.

The rules this module lives by:

- The order of a set, and ``hash()`` of a string, differ from process to process. Within one process they do
  not, so a second call finds nothing. Workers and replays are other processes.
- The other process gets the family's address, and answers with one digest for each scenario.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.stopping import stopped_in_time
from onceproof.harness.trials.family_mistakes import FamilyMistake
from onceproof.harness.trials.faultless_runs import undisturbed
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
