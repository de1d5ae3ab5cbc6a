"""What `onceproof mutants` prints of its shrinking: medians, and each failure that stays large by name."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.shrinking.removals import needed_of
from onceproof.harness.trials.mutant_trials import Killing, Result, shrunk_lines

Make = Callable[..., Scenario]
LOST: Signature = ("exactly_once", "lost")


def killed(name: str, shrunk: Scenario, cpu_seconds: float) -> Result:
    killing = Killing(
        "word_count", LOST, shrunk, shrunk=shrunk, size=size_of(shrunk), shrink_cpu_seconds=cpu_seconds
    )
    return Result(
        name, "planted", "exactly_once", True, True, "exactly_once", 3, killing.size, 1.0, "", killing
    )


def with_count(make_scenario: Make, records: int) -> Scenario:
    return make_scenario(records={"words": tuple((time, "bee") for time in range(records))})


def test_the_summary_has_medians_and_names_what_stays_large(make_scenario: Make) -> None:
    large = with_count(make_scenario, 12)
    drawn = make_scenario(schedule=Schedule("uniform", 7))
    results = [
        killed("one", with_count(make_scenario, 1), 0.4),
        killed("three", with_count(make_scenario, 3), 0.2),
        killed("twelve", large, 2.0),
        killed("needs-twelve", replace(large, needed=needed_of(large, LOST)), 1.0),
        killed("drawn", drawn, 4.0),
    ]
    assert list(shrunk_lines(results)) == [
        "shrunk to: median 6 records, 0 faults, 0 choices, in 1.0 s of processor time",
        "stays large: twelve: 12 records, 0 faults, 0 choices; not each was left out",
        "stays large: needs-twelve: 12 records, 0 faults, 0 choices; each is needed",
        "stays large: drawn: 6 records, 0 faults, 1 choice; its schedule draws each step",
    ]


def test_nothing_is_said_of_failures_that_were_not_shrunk(make_scenario: Make) -> None:
    result = killed("one", with_count(make_scenario, 1), 0.4)
    assert result.killing is not None
    unshrunk = replace(result, killing=Killing("word_count", LOST, result.killing.scenario))
    survivor = replace(result, killed=False, killing=None)
    assert list(shrunk_lines([unshrunk, survivor])) == []
