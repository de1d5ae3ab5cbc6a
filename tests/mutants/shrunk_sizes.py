"""Measures how small the failures of planted bugs become: ``python -m tests.mutants.shrunk_sizes [ID ...]``.

The rules this module lives by:

- Each planted bug is shrunk from the scenario that is recorded to kill it, so no time goes into a search.
- The limit and the times are processor time: what other processes do changes no figure.
- ``--out FOLDER`` keeps each small scenario, as `onceproof explain` does, for a look at what stays large.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

from onceproof.harness.model.mutants import built_in_mutants
from onceproof.harness.shrinking import shrinker
from onceproof.harness.trials.failures import write_scenario
from onceproof.harness.trials.mutant_trials import SHRINK_SECONDS, Result
from onceproof.harness.trials.shrunk_sizes import shrunk_lines
from tests.mutants.kills import recorded_kills, tried_where_recorded


def main() -> None:
    """Shrink what kills each planted bug, and print its size before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("only", nargs="*", metavar="ID", help="these planted bugs only")
    parser.add_argument("--limit", type=float, default=SHRINK_SECONDS, help="seconds for each")
    parser.add_argument("--out", type=Path, help="folder for the small scenarios")
    asked = parser.parse_args()
    kills = recorded_kills()
    vars(shrinker)["perf_counter"] = process_time
    results = []
    for each in built_in_mutants():
        if each.id not in (asked.only or kills):
            continue
        result = tried_where_recorded(each, kills.get(each.id), asked.limit)
        if result is None:
            print(f"{each.id}: not killed where it is recorded: python -m tests.mutants.kills", flush=True)
            continue
        results.append(result)
        print(line_of(result), flush=True)
        if asked.out and result.killing and result.killing.shrunk:
            write_scenario(result.killing.shrunk, asked.out / f"{each.id}.json")
    print(f"{len(results)} of {len(asked.only or kills)} planted bugs")
    for line in shrunk_lines(results):
        print(line)


def line_of(result: Result) -> str:
    """Return the sizes before and after, the time and the failure of a planted bug."""
    killing = result.killing
    assert killing is not None
    before, after = (
        f"{size.records}/{size.faults}/{size.schedule}" if size else "-"
        for size in (killing.before, killing.size)
    )
    return (
        f"{result.id:<55} {before:>11} -> {after:<9} {killing.shrink_cpu_seconds:5.2f} s"
        f" {killing.shrink_runs:5} runs  {killing.family}: {', '.join(killing.signature)}"
    )


if __name__ == "__main__":
    main()
