"""Designed scenarios: studied parameters are set, all else is equal, and the engine passes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from onceproof.harness.model.family import Family, FamilyError, Workload, options_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import FAULT_FIRED
from onceproof.harness.model.scenario import Scenario, from_json, to_json
from onceproof.harness.sensitivity.designed import (
    RECORD_MS,
    RECORDS,
    SPLITS,
    designed_scenario,
    varies_records,
)
from onceproof.harness.sensitivity.experiment import Experiment
from onceproof.harness.sensitivity.parameters import (
    OF_RECORDS,
    PARAMETERS,
    SPACE,
    Settings,
    Whole,
    settings_of,
    space_of,
)
from onceproof.harness.sensitivity.sampling import design
from onceproof.harness.systems.simulation.cost_meter import MeasuredSystem
from onceproof.harness.trials.trial import try_scenario

PLAIN = Settings(
    keys=8,
    skew=1.0,
    disorder_ms=20,
    checkpoint_interval_ms=60,
    parallelism=2,
    fault_time=0.5,
    channel_capacity=3,
)


@pytest.fixture(params=["word_count", "page_views"])
def family(request: pytest.FixtureRequest) -> Family:
    return load_family(request.param)


def made(family: Family, seed: int = 3, **changes: Any) -> Scenario:
    return designed_scenario(family, replace(PLAIN, **changes), seed, {"point": 7})


def key_of(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def keys_of(scenario: Scenario) -> Counter[Any]:
    return Counter(key_of(value) for records in scenario.records.values() for _, value in records)


def test_a_designed_scenario_holds_its_settings_and_survives_json(family: Family) -> None:
    scenario = made(family)
    assert scenario.parameters == {
        "keys": 8,
        "skew": 1.0,
        "disorder_ms": 20,
        "checkpoint_interval_ms": 60,
        "parallelism": 2,
        "fault_time": 0.5,
        "channel_capacity": 3,
        "point": 7,
    }
    assert (scenario.parallelism, scenario.channel_capacity) == (2, 3)
    assert (scenario.checkpoint_interval_ms, scenario.seed) == (60, None)
    assert (scenario.record_count(), len(scenario.records)) == (RECORDS, SPLITS)
    assert from_json(to_json(scenario)) == scenario == made(family)
    assert scenario != made(family, seed=4)


def test_the_number_and_skew_of_keys_are_as_set(family: Family) -> None:
    with_key = options_of(family).with_key
    assert with_key is not None
    assert set(keys_of(made(family, keys=1))) == {key_of(with_key(("", 1), 0))}
    even, skewed = (keys_of(made(family, keys=16, skew=skew)) for skew in (0.0, 2.0))
    assert len(even) == 16
    assert max(even.values()) < RECORDS / 4
    assert skewed[key_of(with_key(("", 1), 0))] > RECORDS / 2
    # More keys than the family has names of its own for.
    assert len(keys_of(made(family, keys=32, skew=0.0))) > 28


def test_disorder_limits_how_far_a_timestamp_lags(family: Family) -> None:
    for disorder in (0, 50):
        late = []
        for records in made(family, disorder_ms=disorder).records.values():
            timestamps = [timestamp for timestamp, _ in records]
            assert min(timestamps) >= 0
            late += [max(timestamps[: place + 1]) - here for place, here in enumerate(timestamps)]
        assert max(late) <= disorder
        assert (max(late) > RECORD_MS) == (disorder > 0)


def test_the_kill_fires_at_the_set_part_of_the_work(family: Family) -> None:
    struck = []
    for fault_time in (0.05, 0.5, 0.95):
        history = MeasuredSystem().run(
            family, made(family, fault_time=fault_time, checkpoint_interval_ms=160)
        )
        fired = [step for step, kind, _, _ in history.events if kind == FAULT_FIRED]
        assert len(fired) == 1
        struck.append(fired[0])
    assert struck == sorted(struck)
    assert struck[2] > 4 * struck[0]


def test_one_setting_changes_nothing_else() -> None:
    family = load_family("word_count")
    scenario, other = made(family), made(family, channel_capacity=8, parallelism=4)
    assert scenario.records == other.records
    assert scenario.faults == other.faults


def test_the_engine_passes_over_the_whole_space(family: Family) -> None:
    # One replicate of each point: another one has the same settings, and the nights run them by the hundred.
    experiment = Experiment(5, tuple(design(SPACE, 4, 5)), replicates=1)
    for number in range(experiment.scenarios):
        verdict = try_scenario(family, experiment.scenario(family, number)).verdict
        assert verdict.passed, verdict


def test_replicates_share_only_their_settings(family: Family) -> None:
    experiment = Experiment(5, tuple(design(SPACE, 16, 5)), replicates=3)
    scenarios = [experiment.scenario(family, number) for number in range(6)]
    settings = [{**scenario.parameters, "replicate": 0} for scenario in scenarios]
    assert settings[0] == settings[1] == settings[2] != settings[3] == settings[4] == settings[5]
    assert [scenario.parameters["replicate"] for scenario in scenarios] == [0, 1, 2, 0, 1, 2]
    assert len({to_json(scenario) for scenario in scenarios}) == 6
    assert experiment.scenario(family, 4) == scenarios[4]


def test_every_corner_of_the_space_gives_a_valid_scenario() -> None:
    family = load_family("word_count")
    for end in ("low", "high"):
        point = {name: float(getattr(marginal, end)) for name, marginal in SPACE.items()}
        scenario = designed_scenario(family, settings_of(point), 1, {})
        for name, parameter in PARAMETERS.items():
            assert scenario.parameters[name] == parameter.setting(point[name])
            assert parameter.text(point[name])
        assert try_scenario(family, scenario, twice=False).verdict.passed


def test_discrete_parameters_have_enough_values_for_the_polynomials() -> None:
    assert all(marginal.atoms >= 4 for marginal in SPACE.values() if isinstance(marginal, Whole))


@pytest.mark.parametrize("name", ["tickets", "running_sum"])
def test_a_family_without_with_key_has_the_same_records_in_every_scenario(name: str) -> None:
    family = load_family(name)
    assert not varies_records(family)
    experiment = Experiment(5, tuple(design(space_of(False), 8, 5)), replicates=1)
    scenarios = [experiment.scenario(family, number) for number in range(experiment.scenarios)]
    assert len({str(scenario.records) for scenario in scenarios}) == 1
    assert scenarios[0].record_count() > 5
    assert not set(OF_RECORDS) & experiment.points[0].keys()
    histories = [MeasuredSystem().run(family, scenario) for scenario in scenarios]
    assert all(try_scenario(family, scenario, twice=False).verdict.passed for scenario in scenarios)
    assert {history.statistics.attempts for history in histories} <= {1, 2}
    # Of the late kills some may come after the end.
    assert sum(history.statistics.attempts == 2 for history in histories) > 4


def test_a_generator_with_too_few_records_is_refused_in_one_line() -> None:
    word_count: Any = load_family("word_count")
    bare: Family = SimpleNamespace(  # type: ignore[assignment]
        name="bare",
        generator_version=1,
        tasks=word_count.tasks,
        generate=lambda random: Workload({"only": ((0, "word"),)}),
        options=word_count.options,
    )
    with pytest.raises(FamilyError, match=f"fewer than {RECORDS} records or {SPLITS} splits"):
        made(bare)
