"""`onceproof mutants`: measures which mistakes in a job, or bugs in the engine, are found, and how soon.

A mutant counts as killed if the scenarios of each seed kill it. One of which it is known why none does is
measured like the others, and is no failure of the command. What the command prints of several seeds is
the worst of them beside the median, because a bug that one seed finds by luck is not one that a run finds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from statistics import median

import msgspec
from msgspec import Struct

from onceproof.harness.commands.script_options import print_notes
from onceproof.harness.model.exit_codes import FAILED, NOTHING_RAN, PASSED
from onceproof.harness.model.family_places import family_names
from onceproof.harness.model.mutants import Mutant
from onceproof.harness.model.mutants.loading import mutant_of
from onceproof.harness.shrinking.shrinker import MOST_RUNS
from onceproof.harness.trials.mistake_trials import MistakeResult, measure_mistakes
from onceproof.harness.trials.mutant_trials import Result, measure_all, shrunk_lines
from onceproof.harness.trials.runner import load_families, usable_processors
from onceproof.reports.text import counted

_TITLES = (
    "seed  reached  killed  scenarios  records  faults  schedule  cpu s  family            property: breaks"
)


class MutantTrials(Struct, frozen=True):
    """In which scenarios each mutant is tried."""

    families: Sequence[str]
    """Names or paths; empty: all built-in families."""
    scenarios: int
    """The limit for each mutant and seed."""
    seed: int
    seeds: int
    workers: int | None
    shrinks: bool


def mutants_command(
    mutants: Sequence[Mutant], only: Sequence[str], trials: MutantTrials, as_json: bool
) -> int:
    """Measure which planted bugs are killed; return FAILED if one survived a seed unexpectedly.

    ``only`` lists the ids of those to measure; empty: all.
    """
    mutants = [mutant_of(each, mutants) for each in only] or mutants
    width = max([len(each.id) for each in mutants], default=0)
    results: list[Result] = []
    for result in measure_all(
        mutants,
        trials.families or family_names(),
        trials.seed,
        limit=trials.scenarios,
        workers=min(trials.workers or usable_processors(), len(mutants) * trials.seeds),
        shrink_runs=MOST_RUNS if trials.shrinks else 0,
        seeds=trials.seeds,
    ):
        if not as_json:
            if not results:
                print(f"{'id':<{width}}  {_TITLES}")
            _print_result(result, width)
        results.append(result)
    survivors = {result.id for result in results if not result.killed}
    known = {each.id for each in mutants if each.unseen}
    if as_json:
        print(msgspec.json.encode([result.line() for result in results]).decode())
    else:
        _print_summary(results, len(mutants) - len(survivors), len(mutants), trials.seeds)
        for each in mutants:
            if each.id in survivors and each.unseen:
                print(f"known not to be seen: {each.id}: {each.unseen}")
    return FAILED if survivors - known else PASSED if results else NOTHING_RAN


def mistakes_command(
    addresses: Sequence[str], seed: int, limit: int, workers: int | None, as_json: bool
) -> int:
    """Make mistakes in jobs, and list those that no scenario catches; return FAILED if there is one."""
    for address, family in zip(addresses, load_families(addresses), strict=True):
        print_notes(address, family, sys.stderr)
    results: list[MistakeResult] = []
    for result in measure_mistakes(addresses, seed, limit, workers or usable_processors()):
        results.append(result)
        if not as_json:
            end = f"caught by {result.property}" if result.caught else "NOT CAUGHT"
            after = f"after {counted(result.scenarios, 'scenario')}"
            print(f"{_place(result)}: {result.mistake}: {end} {after}", flush=True)
    missed = [result for result in results if not result.caught]
    if as_json:
        print(msgspec.json.encode(results).decode())
    else:
        caught = f"{len(results) - len(missed)} of {counted(len(results), 'mistake')} would be caught"
        print(caught + (f"; {'this one' if len(missed) == 1 else 'these'} would not:" if missed else ""))
        for result in missed:
            print(f"  {_place(result)}: {result.mistake}")
    return FAILED if missed else PASSED


def _place(result: MistakeResult) -> str:
    return f"{os.path.relpath(result.file)}:{result.line}"


def _print_result(result: Result, width: int) -> None:
    shrunk = result.shrunk
    sizes = (shrunk.records, shrunk.faults, shrunk.schedule) if shrunk else ("", "", "")
    reached, killed = ("yes" if each else "NO" for each in (result.reached, result.killed))
    family = "" if result.killing is None else result.killing.family
    print(
        f"{result.id:<{width}}  {result.seed:>4}  {reached:<7}  {killed:<6}  {result.scenarios:>9}"
        f"  {sizes[0]:>7}  {sizes[1]:>6}  {sizes[2]:>8}  {result.cpu_seconds:>5.1f}  {family:<16}"
        f"  {result.property or '-'}: {result.breaks}",
        flush=True,
    )


def _print_summary(results: Sequence[Result], killed: int, mutants: int, seeds: int) -> None:
    over = f" by each of {seeds} seeds" if seeds > 1 else ""
    print(f"{killed} of {mutants} killed{over}")
    kills = [result for result in results if result.killed]
    if kills:
        precise = sum(result.is_precise() for result in kills)
        print(
            f"scenarios to a kill: median {median([result.scenarios for result in kills]):,.0f},"
            f" most {max(result.scenarios for result in kills):,};"
            f" found by the property that it breaks: {precise} of {len(kills)};"
            f" {sum(result.cpu_seconds for result in results):,.0f} s of processor time"
        )
        for line in shrunk_lines(results):
            print(line)
