"""The tally of a run: counts, groups of failures, and the example."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.model.seeds import is_continued
from onceproof.harness.trials.tally import MOST_EXAMPLES, Tally


def outcome(**changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "family": "word_count",
        "generator_version": 1,
        "seed": 1,
        "passed": True,
        "signature": None,
        "violations": (),
        "trace_hash": "00",
        "steps": 100,
        "attempts": 1,
        "checkpoints": 2,
        "kills": 0,
        "rescales": 0,
        "records": 10,
        "records_replayed": 0,
        "recovery_steps": 0,
        "milliseconds": 1.0,
        "coverage": {},
        "planned": {},
        "not_applicable": {},
        "points": {"element": 20},
    }
    return Outcome(**{**fields, **changes})


def failed(signature: tuple[str, str], seed: int = 1, family: str = "word_count") -> Outcome:
    violation = (*signature, "somewhere", "{}")
    return outcome(passed=False, signature=signature, seed=seed, family=family, violations=(violation,))


def teaching(seed: int, **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "seed": seed,
        "attempts": 2,
        "kills": 1,
        "rescales": 1,
        "records_replayed": 3,
        "recovery_steps": 9,
        "coverage": {"kill_all/completed": 1},
    }
    return outcome(**{**fields, **changes})


def test_counts_are_summed_over_outcomes() -> None:
    tally = Tally()
    tally.add(outcome(coverage={"kill_all/element": 2}, planned={"kill_all/element": 3}, kills=2))
    tally.add(outcome(family="page_views", attempts=3, records_replayed=7, recovery_steps=5))
    assert (tally.scenarios, tally.failed, tally.kills) == (2, 0, 2)
    assert sorted(tally.families) == ["page_views", "word_count"]
    assert (tally.fired["kill_all/element"], tally.planned["kill_all/element"]) == (2, 3)
    assert tally.points["element"] == 40
    # Only a job that had to start again has a cost of recovery.
    assert (tally.replayed, tally.recovery_steps) == ({7: 1}, {5: 1})


def test_failures_are_grouped_by_family_and_signature_and_the_first_is_kept() -> None:
    tally = Tally()
    lost, phantom = ("exactly_once", "lost"), ("exactly_once", "phantom")
    for each in (failed(lost, 5), failed(phantom, 6), failed(lost, 4), failed(lost, 9, "page_views")):
        tally.add(each)
    groups = {key: (group.first.seed, group.count) for key, group in tally.groups.items()}
    assert groups == {
        ("word_count", lost): (5, 2),
        ("word_count", phantom): (6, 1),
        ("page_views", lost): (9, 1),
    }
    assert tally.families["word_count"].broken["exactly_once"] == 3
    assert tally.failed == 4


def test_a_scenario_counts_once_for_a_property_that_it_breaks_twice() -> None:
    tally = Tally()
    violations = (
        ("exactly_once", "lost", "", "{}"),
        ("exactly_once", "phantom", "", "{}"),
        ("fencing", "x", "", "{}"),
    )
    tally.add(outcome(passed=False, signature=("exactly_once", "lost"), violations=violations))
    assert tally.families["word_count"].broken == {"exactly_once": 1, "fencing": 1}


def test_the_example_has_a_kill_and_a_rescale_and_is_small() -> None:
    tally = Tally()
    tally.add(teaching(1, steps=300))
    tally.add(teaching(2, steps=120))
    for unfit in (
        teaching(3, kills=2),
        teaching(4, rescales=0),
        teaching(5, checkpoints=1),
        teaching(6, records=60),
        teaching(9, checkpoints=9),
        teaching(7, records_replayed=0),
        teaching(8, coverage={"kill_all/completed": 1, "lose_message/notified": 1}),
        teaching(None),  # type: ignore[arg-type]
    ):
        tally.add(unfit)
    assert [seed for _, _, seed in tally.examples] == [2, 1]


def test_example_candidates_are_few_and_do_not_depend_on_the_order() -> None:
    outcomes = [teaching(seed, steps=100 + seed * 37 % 50) for seed in range(100)]
    forwards, backwards = Tally(), Tally()
    for each in outcomes:
        forwards.add(each)
    for each in reversed(outcomes):
        backwards.add(each)
    assert forwards.examples == backwards.examples
    assert len(forwards.examples) == MOST_EXAMPLES
    assert forwards.trace_hash() == backwards.trace_hash()


def test_scenarios_that_failed_before_count_no_continuation() -> None:
    continued = next(seed for seed in range(64) if is_continued(seed))
    tally = Tally()
    lost = (("exactly_once", "lost", "", "{}"),)
    refused = (("restore_anywhere", "refused", "", "{}"),)
    tally.add(outcome(seed=continued))
    tally.add(outcome(seed=continued, passed=False, signature=("exactly_once", "lost"), violations=lost))
    tally.add(
        outcome(seed=continued, passed=False, signature=("restore_anywhere", "refused"), violations=refused)
    )
    [family] = tally.families.values()
    assert family.continued == 2


def test_timers_that_fired_only_at_the_end_count_if_none_fired_before() -> None:
    tally = Tally()
    tally.add(outcome(timers_at_end=3))
    tally.add(outcome(timers_at_end=2))
    assert tally.families["word_count"].timers_only_at_end == 5
    tally.add(outcome(timers_at_end=2, timers_before_end=1))
    assert tally.families["word_count"].timers_only_at_end == 0


def test_each_family_has_its_own_kills_and_costs() -> None:
    tally = Tally()
    tally.add(outcome(attempts=2, kills=1, records_replayed=4, recovery_seconds=(0.5, 2.0)))
    tally.add(outcome(not_applicable={"lose_message/notified": 2}))
    tally.add(outcome(family="page_views", attempts=3, kills=2, records_replayed=7))
    first, second = tally.families["word_count"], tally.families["page_views"]
    assert (first.kills, first.not_applicable, first.replayed) == (1, 2, {4: 1})
    assert first.recovery_seconds == {0.5: 1, 2.0: 1}
    assert (second.kills, second.not_applicable, second.replayed) == (2, 0, {7: 1})
    assert second.recovery_seconds == {}


OUTCOMES = [
    *(teaching(seed, steps=200 - seed, milliseconds=float(seed)) for seed in range(80)),
    *(failed(("exactly_once", "lost"), seed, "page_views") for seed in range(80, 90)),
    outcome(waited_milliseconds=2.0, recovery_seconds=(0.5,), watched={"expiry": 1}, notes=("slow",)),
]


@given(st.lists(st.integers(0, 6), min_size=len(OUTCOMES), max_size=len(OUTCOMES)), st.randoms())
def test_tallies_merged_in_any_order_are_the_tally_of_all(parts: list[int], random: Random) -> None:
    whole, tallies = Tally(), [Tally() for _ in range(7)]
    for number, (part, each) in enumerate(zip(parts, OUTCOMES, strict=True)):
        whole.add(each, number)
        tallies[part].add(each, number)
    random.shuffle(tallies)
    merged = Tally()
    for tally in tallies:
        merged.merge(tally)
    assert merged == whole


def test_the_hash_of_a_run_tells_whose_trace_is_whose() -> None:
    def hash_of(*traces: tuple[str, int, str]) -> str:
        tally = Tally()
        for family, seed, trace in traces:
            tally.add(outcome(family=family, seed=seed, trace_hash=trace))
        return tally.trace_hash()

    traces = [("a", 1, "x"), ("b", 1, "y"), ("a", 2, "x")]
    assert hash_of(*traces) == hash_of(*traces[::-1])
    assert hash_of(*traces) != hash_of(("a", 1, "y"), ("b", 1, "x"), ("a", 2, "x"))
    assert hash_of(*traces) != hash_of(*traces[:2])
    # Twice the same scenario is not none.
    assert hash_of(*traces, *traces) != hash_of(*traces, traces[0], traces[0], traces[1], traces[1])
