"""What a night must have run at the least, on tallies that are written by hand."""

from __future__ import annotations

from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import is_checked_twice, is_continued
from onceproof.harness.trials.minimums import Minimums, properties_asked
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import AT_LEAST_ONCE
from tests.harness.trials.test_tally import outcome

ONCE = next(seed for seed in range(999) if not is_continued(seed) and not is_checked_twice(seed))
TWICE = next(seed for seed in range(999) if is_checked_twice(seed) and not is_continued(seed))
CONTINUED = next(seed for seed in range(999) if is_continued(seed) and not is_checked_twice(seed))


def run_of(*outcomes: Outcome) -> RunResult:
    names = ("word_count", "tickets")
    result = RunResult(tuple(map(load_family, names)), names, 7, 1)
    for each in outcomes:
        result.tally.add(each)
    return result


def test_kills_count_for_the_properties_that_their_scenario_was_asked() -> None:
    result = run_of(
        outcome(seed=ONCE, kills=1),
        outcome(seed=TWICE, kills=2),
        outcome(seed=CONTINUED, kills=4),
        outcome(seed=ONCE, kills=8, points={AT_LEAST_ONCE: 1}),
        outcome(seed=ONCE, kills=16, family="tickets"),
    )
    asked = properties_asked(result, "word_count")
    assert asked["liveness"] == (4, 15)
    assert asked["exactly_once"] == (3, 7)
    assert asked["mode"] == (1, 8)
    assert asked["determinism"] == (1, 2)
    assert asked["restore_anywhere"] == (1, 4)
    assert properties_asked(result, "tickets")["exactly_once"] == (1, 16)
    assert Minimums(kills=3).shortfalls(result) == ("1 property had under 3 kills: determinism 2",)
    [text] = Minimums(kills=24).shortfalls(result)
    assert text.startswith("5 properties had under 24 kills: determinism 2, restore anywhere 4, ")
    assert text.endswith(" and 2 more")


def test_a_family_without_its_least_scenarios_is_named_with_the_number_of_others() -> None:
    result = run_of(*[outcome(seed=ONCE)] * 3, outcome(seed=ONCE, family="tickets"))
    assert Minimums(scenarios=1).shortfalls(result) == ()
    assert Minimums(scenarios=3).shortfalls(result) == ("1 family had under 3 scenarios: tickets 1",)
    assert Minimums(scenarios=9).shortfalls(result) == (
        "2 families had under 9 scenarios: tickets 1 and word_count 3",
    )
    nothing = run_of()
    assert Minimums(scenarios=9).shortfalls(nothing) == (
        "2 families had under 9 scenarios: tickets 0 and word_count 0",
    )


def test_scenarios_are_owed_to_all_families_until_the_last_one_has_its_least() -> None:
    result = run_of(*[outcome(seed=ONCE)] * 3, outcome(seed=ONCE, family="tickets"))
    assert Minimums().owed(result) == 0
    assert Minimums(scenarios=1).owed(result) == 0
    # The families take turns: what one of them lacks is run of both.
    assert Minimums(scenarios=9).owed(result) == 16


def test_scenarios_are_owed_while_a_property_was_asked_under_too_few_kills() -> None:
    few = [outcome(seed=seed, kills=5) for seed in (TWICE, CONTINUED)]
    result = run_of(*few, outcome(seed=ONCE, kills=5, points={AT_LEAST_ONCE: 1}))
    assert Minimums(kills=5).owed(result) == 0
    assert Minimums(kills=6).owed(result) == 3
    # Something is owed where nothing has run, too.
    assert Minimums(kills=1).owed(run_of()) == 2
