"""`onceproof bench search`: the table of the strategies on stdout, a line for each bug on stderr.

An interrupted comparison is one of the bugs that are through.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import inf

import msgspec

from onceproof.harness.benchmarks.search import (
    BUGS,
    Comparison,
    Figure,
    compare,
    document_of,
)
from onceproof.harness.model.exit_codes import INTERRUPTED, PASSED, UsageError
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.trials.search_trials import STRATEGIES, SearchResult, search_all
from onceproof.reports.text import counted


def bench_search_command(
    only: Sequence[str],
    strategies: Sequence[str],
    seed: int,
    seeds: int,
    budget: int,
    workers: int | None,
    as_json: bool,
) -> int:
    """Compare the strategies on some planted bugs, print the figures, and return the exit code.

    :param only: ids of bugs; none named: BUGS
    :param strategies: names of strategies; none named: all
    :param budget: the most scenarios of each search
    """
    mutants = [find_mutant(each) for each in dict.fromkeys(only or BUGS)]
    for name in strategies:
        if name not in STRATEGIES:
            raise UsageError(f"unknown strategy {name!r}: there are {', '.join(STRATEGIES)}")
    names = [each for each in STRATEGIES if each in (strategies or STRATEGIES)]
    results: list[SearchResult] = []
    of_bug = seeds * len(names)
    total = len(mutants) * of_bug
    code = PASSED
    with progress_bar(total, None) as bar:
        try:
            for result in search_all(mutants, names, seed, seeds, budget, min(workers or 1, total)):
                results.append(result)
                bar.advance(len(results), f"{result.bug} by {result.strategy}")
                if len(results) % of_bug == 0:
                    bar.warn(_of_one_bug(results[-of_bug:], names))
        except KeyboardInterrupt:
            # The bugs come one after another: those that are through are a comparison of their own.
            del results[len(results) // of_bug * of_bug :]
            if not results:
                raise
            code = INTERRUPTED
    comparison = compare(results, budget)
    if as_json:
        print(msgspec.json.encode(document_of(comparison, machine_text())).decode())
    for line in _lines(comparison):
        print(line, file=sys.stderr if as_json else sys.stdout)
    return code


def _of_one_bug(results: Sequence[SearchResult], names: Sequence[str]) -> str:
    """Return a line of what the strategies made of a bug."""
    kills = [f"{name} {sum(each.killed for each in results if each.strategy == name)}" for name in names]
    searches = counted(len(results) // len(names), "search", "searches")
    return f"{results[0].bug}: kills in {searches}: {', '.join(kills)}"


def _lines(comparison: Comparison) -> Iterator[str]:
    bugs = len({each.bug for each in comparison.bugs})
    yield (
        f"{counted(bugs, 'planted bug')}, {counted(comparison.seeds, 'seed')}, at most"
        f" {comparison.budget:,} scenarios a search; in brackets intervals of 95 % over the seeds"
    )
    yield (
        f"{'strategy':<12}  {'killed':>9}  {'scenarios':>20}  {'CPU seconds':>22}"
        f"  {'kills per CPU minute':>22}  {'as a multiple':>20}  {'ms each':>7}  false alarms"
    )
    for each in comparison.strategies:
        yield (
            f"{each.strategy:<12}  {f'{each.killed} of {each.searches}':>9}"
            f"  {_whole(each.scenarios, comparison.budget):>20}  {_text(each.cpu_seconds):>22}"
            f"  {_text(each.kills_per_cpu_minute):>22}  {_text(each.against_baseline):>20}"
            f"  {each.scenario_ms:>7.1f}  {each.false_alarms}"
        )
    names = [each.strategy for each in comparison.strategies]
    width = max(len(each.bug) for each in comparison.bugs)
    yield ""
    yield f"{'median scenarios to a kill (CPU s)':<{width}}  " + "  ".join(f"{name:>16}" for name in names)
    for place in range(0, len(comparison.bugs), len(names)):
        of_bug = comparison.bugs[place : place + len(names)]
        cells = [
            f"more than {comparison.budget}"
            if each.scenarios.value == inf
            else f"{each.scenarios.value:,.0f} ({each.cpu_seconds.value:.2f})"
            for each in of_bug
        ]
        yield f"{of_bug[0].bug:<{width}}  " + "  ".join(f"{cell:>16}" for cell in cells)


def _whole(figure: Figure, budget: int) -> str:
    value, low, high = (f">{budget:,}" if each == inf else f"{each:,.0f}" for each in figure)
    return f"{value} [{low}, {high}]"


def _text(figure: Figure) -> str:
    value, low, high = ("-" if each == inf else f"{each:.2f}" for each in figure)
    return f"{value} [{low}, {high}]"
