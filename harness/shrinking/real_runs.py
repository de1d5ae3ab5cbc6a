"""Shrinking where each run is a real one: ``python -m harness.systems.structured_shrinking FILE.json``.

The rules this module lives by:

- A run takes seconds, and does not repeat step by step, so there is no time for hundreds of them: what
  shrinks most is tried first, and a limit of runs ends it. A smaller one counts if it fails with the same
  signature in one run, so the smallest has failed; where a race decides, fewer are found.
- The scenario is shrunk as it is run, with its faults at their places in a query. A death of the driver is
  dearer than one of the query, and is made one where that fails as well.
- What is left is explained from the history of its own run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.checkers import Signature
from harness.explanation import wording
from harness.explanation.explanation import explain
from harness.family import Family, load_family
from harness.scenario import FaultKind, Scenario, Schedule, read_scenario, to_json
from harness.systems.protocol import applicable
from harness.systems.structured_points import CAPABILITIES, MISSING, prepared
from harness.systems.structured_streaming import NAME, StructuredStreamingSystem
from harness.trial import Trial, try_scenario

MOST_RUNS: Final = 24
CHEAPER: Final[dict[FaultKind, FaultKind]] = {"kill_process": "kill_task", "kill_all": "kill_task"}


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest scenario that was found."""

    scenario: Scenario
    trial: Trial
    """Its run."""
    signature: Signature
    runs: int


def shrink(
    scenario: Scenario, try_one: Callable[[Scenario], Trial], most_runs: int = MOST_RUNS
) -> Shrunk | None:
    """Return the smallest scenario found that fails as the given one does; None where that does not fail."""
    smallest = _as_run(scenario)
    trial = try_one(smallest)
    signature = trial.verdict.signature
    if signature is None:
        return None
    runs, refused = 1, set[str]()
    while runs < most_runs:
        candidate = next((each for each in smaller(smallest) if to_json(each) not in refused), None)
        if candidate is None:
            break
        runs += 1
        tried = try_one(candidate)
        if tried.verdict.signature == signature:
            smallest, trial = candidate, tried
        else:
            refused.add(to_json(candidate))
    return Shrunk(smallest, trial, signature, runs)


def _as_run(scenario: Scenario) -> Scenario:
    """Return a scenario with nothing in it that has no meaning here."""
    there = prepared(scenario)
    faults, _ = applicable(there.faults, CAPABILITIES, MISSING)
    return replace(there, seed=None, faults=faults, schedule=Schedule())


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that are somewhat smaller, those first that are smaller by most."""
    faults = scenario.faults
    cheap = tuple([replace(fault, kind=CHEAPER.get(fault.kind, fault.kind)) for fault in faults])
    if cheap != faults:
        yield _prepared(scenario, faults=cheap)
    for place in range(len(faults)):
        if len(faults) > 1:
            yield _prepared(scenario, faults=faults[:place] + faults[place + 1 :])
    if scenario.parallelism > 1 or scenario.source_parallelism > 1:
        yield _prepared(scenario, parallelism=1, source_parallelism=0)
    for split in scenario.records:
        if len(scenario.records) > 1:
            yield _prepared(
                scenario, records={name: each for name, each in scenario.records.items() if name != split}
            )
    cut = max(map(len, scenario.records.values()))
    while cut > 1:
        cut = -(-cut // 2)
        yield from _with_shorter_splits(scenario, cut)


def _with_shorter_splits(scenario: Scenario, cut: int) -> Iterator[Scenario]:
    """Leave out so many records in a row of a split that has more."""
    for split, records in scenario.records.items():
        if len(records) > cut:
            for begin in range(0, len(records), cut):
                shorter = {**scenario.records, split: records[:begin] + records[begin + cut :]}
                yield _prepared(scenario, records=shorter)


def _prepared(scenario: Scenario, **changes: object) -> Scenario:
    return prepared(replace(scenario, **changes))


def lines_of(shrunk: Shrunk, before: Scenario) -> Iterator[str]:
    """Yield what can be said of a failure that was shrunk."""
    scenario, trial = shrunk.scenario, shrunk.trial
    yield f"{', '.join(shrunk.signature)}: {shrunk.runs:,} runs"
    yield f"  records {before.record_count()} -> {scenario.record_count()}"
    yield f"  faults  {len(before.faults)} -> {len(scenario.faults)}"
    for fault in scenario.faults:
        yield f"  {wording.fault_text(fault)}"
    explanation = explain(scenario, trial.history, trial.history.trace, trial.verdict)
    yield explanation.sentence
    if explanation.cause:
        yield f"cause: {explanation.cause}"
    yield "what happened"
    yield from (f"  {line}" for line in explanation.story)


def main(arguments: list[str]) -> int:
    """Shrink a scenario that failed, write it beside the one that was found, and explain it."""
    parser = argparse.ArgumentParser(prog="structured_shrinking", description=main.__doc__)
    parser.add_argument("file", type=Path, help="the scenario, as a run has kept it")
    parser.add_argument("--family", help="the family, where it is not built in")
    parser.add_argument("--runs", type=int, default=MOST_RUNS, help="how many runs it may take")
    given = parser.parse_args(arguments)
    scenario = read_scenario(given.file)
    asked = given.family or scenario.family
    family: Family = load_family(asked)
    with closing(StructuredStreamingSystem()) as system:

        def try_one(candidate: Scenario) -> Trial:
            return try_scenario(family, candidate, system=system)

        shrunk = shrink(scenario, try_one, given.runs)
    if shrunk is None:
        print(f"{given.file}: it has not failed again: there is nothing to shrink", file=sys.stderr)
        return 0
    path = given.file.with_name(f"{given.file.name.removesuffix('.json')}.shrunk.json")
    path.write_text(to_json(shrunk.scenario, indent=2) + "\n", encoding="utf-8")
    for line in lines_of(shrunk, scenario):
        print(line)
    print(wording.replay_command(path, asked, NAME))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
