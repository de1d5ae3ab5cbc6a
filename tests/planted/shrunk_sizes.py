"""Measures how small the failures of planted bugs become: ``python -m tests.planted.shrunk_sizes [ID ...]``.

The rules this module lives by:

- Each planted bug is shrunk from the scenario that is recorded to kill it, so no time goes into a search.
- The limit is a number of runs, and the times are processor time: what other processes do changes no figure.
- ``--sample N`` takes N of the planted bugs, drawn with ``--seed``.
- ``--out FOLDER`` keeps each small scenario, as `onceproof explain` does, for a look at what stays large.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from onceproof.harness.shrinking.shrinker import MOST_RUNS
from onceproof.harness.trials.failures import write_scenario
from onceproof.harness.trials.mutant_trials import Result, shrunk_lines
from tests.planted.catalogue import built_in_mutants
from tests.planted.kills import recorded_kills, tried_where_recorded


def main() -> None:
    """Shrink what kills each planted bug, and print its size before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("only", nargs="*", metavar="ID", help="these planted bugs only")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--shrink-runs", type=int, default=MOST_RUNS, help="runs for each")
    parser.add_argument("--out", type=Path, help="folder for the small scenarios")
    asked = parser.parse_args()
    kills = recorded_kills()
    only = asked.only or sorted(kills)
    if asked.sample:
        only = Random(asked.seed).sample(only, asked.sample)
    results = []
    for each in built_in_mutants():
        if each.id not in only:
            continue
        result = tried_where_recorded(each, kills.get(each.id), asked.shrink_runs)
        if result is None:
            print(f"{each.id}: not killed where it is recorded: python -m tests.planted.kills", flush=True)
            continue
        results.append(result)
        print(line_of(result), flush=True)
        if asked.out and result.killing and result.killing.shrunk:
            write_scenario(result.killing.shrunk, asked.out / f"{each.id}.json")
    print(f"{len(results)} of {len(only)} planted bugs")
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
