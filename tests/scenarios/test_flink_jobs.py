"""A family's own job for Flink gives the rows that its oracle expects, here on the simulation."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from onceproof.harness.model.family import Declared, options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import JOB_FINISHED, rows_at_end
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of

WITH_FLINK_JOB = [name for name in family_names() if "flink" in options_of(load_family(name)).jobs]


@pytest.mark.parametrize("name", WITH_FLINK_JOB)
def test_job_for_flink_gives_the_rows_of_the_oracle_without_faults(name: str) -> None:
    family: Any = load_family(name)
    for_flink: Any = SimpleNamespace(**{**vars(family), "job": family.options.jobs["flink"]})
    seen: Counter[Any] = Counter()
    for seed in range(12):
        scenario = scenario_of(family, seed)
        history = SimulatedSystem().run(for_flink, scenario)
        assert any(kind == JOB_FINISHED for _, kind, *_ in history.events)
        rows = rows_at_end(history)
        seen.update(rows)
        declared = Declared(rows, True, scenario.parameters)
        if scenario.is_exactly_once:
            assert Counter(family.expected(scenario.records, declared)) == Counter(rows)
    assert seen


def test_there_is_a_family_with_a_job_for_flink() -> None:
    assert "nexmark_q8" in WITH_FLINK_JOB
