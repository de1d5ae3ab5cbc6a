"""`onceproof bench search`: kills by each strategy, and the figures of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf

import pytest

from onceproof.harness.benchmarks.search import BUGS, Comparison, StrategyFigures, compare, document_of
from onceproof.harness.commands import bench_search
from onceproof.harness.commands.cli import main
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.trials.enumeration.enumerated_strategy import SMALL_SCOPE
from onceproof.harness.trials.search_trials import STRATEGIES, SearchResult, search

EASY = "FLINK-9269"
SMALL = "unannounced-checkpoint-is-not-committed"
"""A bug that four records show."""


def results(
    strategy: str, scenarios: dict[int, int], killed: bool = True, bug: str = "one"
) -> list[SearchResult]:
    """Return a result for each seed, of a tenth of a second for each scenario."""
    return [SearchResult(strategy, bug, seed, killed, count, count / 10) for seed, count in scenarios.items()]


def figures_of(comparison: Comparison, name: str) -> StrategyFigures:
    return next(each for each in comparison.strategies if each.strategy == name)


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_kills_an_easy_bug_the_same_way_twice(name: str) -> None:
    families = [load_family("word_count")]
    bug = SMALL if name == SMALL_SCOPE else EASY
    first, again = (search(name, find_mutant(bug), families, 1, 60) for _ in range(2))
    assert first.killed
    assert first.false_alarms == 0
    assert (first.scenarios, first.killed) == (again.scenarios, again.killed)


def test_search_that_kills_nothing_ends_at_its_budget() -> None:
    mutant = find_mutant("FLINK-31963")
    result = search("uniform", mutant, [load_family("word_count")], 0, 2)
    assert (result.killed, result.scenarios) == (False, 2)


def test_medians_are_over_seeds_and_then_over_bugs() -> None:
    found = compare(
        [
            *results("situations", {0: 10, 1: 20, 2: 60}),
            *results("situations", {0: 100, 1: 200, 2: 300}, bug="other"),
        ],
        400,
    )
    (figures,) = found.strategies
    assert figures.scenarios.value == (20 + 200) / 2
    assert figures.scenarios.low <= figures.scenarios.value <= figures.scenarios.high
    assert figures.killed == figures.searches == 6
    assert figures.kills_per_cpu_minute.value == pytest.approx(60 * 6 / 69)


def test_bug_that_survives_counts_as_more_than_the_budget() -> None:
    found = compare(
        [*results("situations", {0: 10, 1: 10}), *results("uniform", {0: 400, 1: 400}, False)], 400
    )
    uniform = figures_of(found, "uniform")
    assert uniform.scenarios.value == inf
    assert uniform.kills_per_cpu_minute.value == 0
    document = json.loads(json.dumps(document_of(found, "here")))
    rows = {row["strategy"]: row for row in document["strategies"]}
    assert rows["uniform"]["scenarios"] == {"value": None, "low": None, "high": None}
    assert document["ratios"]["uniform against situations"] == 0


def test_ratio_is_against_the_default_of_a_run() -> None:
    found = compare([*results("situations", {0: 20, 1: 20}), *results("coverage", {0: 10, 1: 10})], 400)
    assert figures_of(found, "coverage").against_baseline == pytest.approx((2, 2, 2))
    assert figures_of(found, "situations").against_baseline == pytest.approx((1, 1, 1))


def test_interval_is_the_same_each_time() -> None:
    given = results("situations", dict(enumerate((5, 9, 2, 80, 31))))
    assert compare(given, 400) == compare(given, 400)


def test_bugs_of_the_default_comparison_exist() -> None:
    assert len(BUGS) == len({find_mutant(bug).id for bug in BUGS}) == 12


def test_command_prints_a_row_for_each_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--only", EASY, "--seeds", "1", "--budget", "3"]
    strategies = ["--strategy", "uniform", "--strategy", "coverage"]
    assert main(["bench", "search", *options, *strategies]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["uniform", "coverage"]
    assert lines[-1].startswith(EASY)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "state", "--budget", "5"], "--budget belongs to `onceproof bench search`"),
        (["bench", "search", "state"], "`onceproof bench search` runs alone"),
        (["bench", "search", "--strategy", "luck"], "unknown strategy 'luck': there are uniform,"),
        (["bench", "search", "--only", "no-such-bug"], "no-such-bug"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 4
    assert says in capsys.readouterr().err


def test_interrupted_comparison_is_one_of_the_bugs_that_are_through(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*rest: object) -> Iterator[SearchResult]:
        yield SearchResult("uniform", EASY, 0, True, 5, 0.5)
        yield SearchResult("uniform", EASY, 1, True, 7, 0.7)
        yield SearchResult("uniform", SMALL, 0, True, 9, 0.9)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_search, "search_all", interrupted)
    only = ["--only", EASY, "--only", SMALL]
    assert main(["bench", "search", *only, "--strategy", "uniform", "--seeds", "2", "--json"]) == 130
    printed = capsys.readouterr()
    assert [row["bug"] for row in json.loads(printed.out)["bugs"]] == [EASY]
    assert f"{EASY}: kills in 2 searches: uniform 2" in printed.err
