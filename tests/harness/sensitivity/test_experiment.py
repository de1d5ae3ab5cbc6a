"""From trials to means at each point, to sentences, and to the section of a report."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.sensitivity.experiment import COSTS, DesignedTrial, Experiment, means_of
from onceproof.harness.sensitivity.parameters import SPACE
from onceproof.harness.sensitivity.report_section import cost_sentence, sensitivity_of, with_sensitivity
from onceproof.harness.sensitivity.sampling import Effect, Explained, design
from onceproof.reports.model import Report

FAMILY = load_family("word_count")
REPLAYED, RECOVERY, ALIGNMENT = COSTS


@cache
def experiment() -> Experiment:
    """Return the experiment of these tests. Its design imports chaospy, which a collection need not do."""
    return Experiment(1, tuple(design(SPACE, 100, 1)), replicates=4)


@cache
def first_scenario() -> Scenario:
    return experiment().scenario(FAMILY, 0)


def trial(number: int, costs: tuple[float, float, float], passed: bool = True) -> DesignedTrial:
    """Return a trial that cost so much, without running anything."""
    history = History()
    history.statistics.records_replayed, history.statistics.recovery_steps = int(costs[0]), int(costs[1])
    scenario: Scenario = replace(first_scenario(), parameters={"number": number})
    outcome = outcome_of(scenario, history, Verdict(()))
    signature: Any = None if passed else ("exactly_once", "lost")
    return DesignedTrial(
        number, scenario, replace(outcome, passed=passed, signature=signature), int(costs[2])
    )


def trials(noise: float = 0.0) -> list[DesignedTrial]:
    """Return trials in which the interval drives the first cost, chance the second, and nothing the third."""
    random = Random(2)
    made = []
    for number in range(experiment().scenarios):
        point = experiment().points[number // experiment().replicates]
        replayed = 10 * point["checkpoint_interval_ms"] + noise * (random.random() - 0.5)
        made.append(trial(number, (replayed, 1000 * random.random(), 40)))
    return made


def test_passed_scenarios_of_a_point_are_averaged() -> None:
    some = [
        trial(0, (10, 1, 2)),
        trial(1, (20, 3, 2)),
        trial(2, (900, 1, 2), passed=False),
        trial(9, (7, 1, 2)),
    ]
    means = means_of(experiment(), some, 0)
    assert means.values == (15.0, 7.0)
    assert means.points == (experiment().points[0], experiment().points[2])


def test_chance_is_the_variance_among_scenarios_of_one_point() -> None:
    nothing_but_chance = means_of(experiment(), trials(), 1).chance
    assert nothing_but_chance is not None
    assert nothing_but_chance == pytest.approx(1, abs=0.25)
    none = means_of(experiment(), trials(), 0).chance
    assert none == pytest.approx(0, abs=1e-9)
    some = means_of(experiment(), trials(noise=2000), 0).chance
    assert some is not None
    # Variances: of a uniform draw over 2000, of the mean of four; of ten times a uniform one over 140.
    by_chance, by_interval = 2000**2 / 12 / 4, 1400**2 / 12
    assert some == pytest.approx(by_chance / (by_chance + by_interval), abs=0.1)
    assert means_of(experiment(), trials(), 2).chance is None


def test_the_report_names_the_driver_of_each_cost_or_none() -> None:
    study = sensitivity_of("word_count", experiment(), trials(), "onceproof sensitivity")
    replayed, recovery, alignment = study.drivers
    assert replayed.is_explained
    shares = {one.parameter: (one.first_order, one.total) for one in replayed.influences}
    assert shares["checkpoint interval"] == pytest.approx((1, 1), abs=0.001)
    assert shares["number of keys"] == pytest.approx((0, 0), abs=0.001)
    assert replayed.sentence.startswith(
        "The checkpoint interval drives this cost almost alone, with a part in 100% of all differences:"
        " 340 records"
    )
    assert not recovery.is_explained
    # Indices of a model that does not explain the cost are not kept.
    assert recovery.influences == ()
    assert recovery.sentence.startswith("Not explained")
    assert alignment.sentence == "This cost is the same in every scenario: 40 steps."
    assert (study.scenarios, study.points, study.failed) == (400, 100, 0)


def test_with_too_few_passed_scenarios_no_cost_is_measured() -> None:
    failed = [trial(number, (1, 1, 1), passed=number < 8) for number in range(experiment().scenarios)]
    study = sensitivity_of("word_count", experiment(), failed)
    assert study.failed == 392
    for drivers in study.drivers:
        assert drivers.sentence == "Not measured: only at 2 points did a scenario pass."
        assert drivers.influences == ()


def effects(**totals: float) -> dict[str, Effect]:
    return {name: Effect(total, total, 3.0, 20.5) for name, total in totals.items()}


def sentence(q2: float = 0.9, most_degree: int = 3, **totals: float) -> str:
    return cost_sentence(RECOVERY, Explained(5.0, 1.0, 2, most_degree, q2, effects(**totals)))


def test_the_drivers_of_a_cost_in_a_sentence() -> None:
    assert sentence(keys=0.6, parallelism=0.3, skew=0.2, disorder_ms=0.01) == (
        "The number of keys drives this cost most, with a part in 60% of all differences:"
        " 3 steps on average at 1 key, 20.5 at 23 keys. Next come the parallelism (30%)"
        " and the skew of the keys (20%); nothing else matters much."
    )
    assert sentence(parallelism=0.7, fault_time=0.5) == (
        "The parallelism drives this cost most, with a part in 70% of all differences:"
        " 3 steps on average at 1 subtask, 20.5 at 4 subtasks. Next comes the moment of the kill (50%)."
    )


def test_an_unexplained_cost_in_a_sentence() -> None:
    assert sentence(q2=0.3, keys=1).endswith("or not in a simple way.")
    assert sentence(q2=0.3, most_degree=2, keys=1).endswith("More scenarios may explain it.")


def test_an_experiment_replaces_the_earlier_one_of_its_family() -> None:
    first, second, other = (
        sensitivity_of(name, replace_seed(seed), trials())
        for name, seed in (("word_count", 1), ("word_count", 2), ("page_views", 1))
    )
    report = Report(sensitivity=(first, other))
    assert [(study.family, study.seed) for study in with_sensitivity(report, second)] == [
        ("page_views", 1),
        ("word_count", 2),
    ]


def replace_seed(seed: int) -> Experiment:
    return Experiment(seed, experiment().points, experiment().replicates)
