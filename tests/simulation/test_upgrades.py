"""A job that is replaced by its new version: what its user asks for, and what becomes of its state."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from msgspec.structs import replace

from onceproof.engine.job.events import MasterEvent, StopRequested
from onceproof.engine.job.master import JobMaster
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import JOB_UPGRADED
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.trials.trial import try_scenario

FAMILY = load_family("grown_accounts")


def stopped_for_its_new_version(*faults: Fault) -> Scenario:
    """Return a scenario with many records whose job is stopped, and started as its new version."""
    for seed in count():
        scenario = generate(FAMILY, seed)
        if scenario.record_count() > 40 and [each.kind for each in scenario.asked] == ["stop"]:
            return replace(scenario, seed=None, faults=faults)
    raise AssertionError


def test_each_request_for_the_new_version_has_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    handle = JobMaster.handle

    def noted(master: JobMaster, event: MasterEvent, now: int) -> object:
        if isinstance(event, StopRequested):
            asked[event.number] += 1
        return handle(master, event, now)

    monkeypatch.setattr(JobMaster, "handle", noted)
    # The first savepoint is lost with the process, and two requests would wait for their answers.
    kills = Fault("kill_process", "aligned"), Fault("kill_process", "snapshotted", occurrence=2)
    scenario = stopped_for_its_new_version(*kills)
    trial = try_scenario(FAMILY, scenario, twice=False, continued=False)
    assert trial.verdict.violations == ()
    assert len(asked) > 1
    assert set(asked.values()) == {1}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_new_version_reads_the_state_of_the_old_one_from_either_backend(backend: str) -> None:
    scenario = replace(stopped_for_its_new_version(), state_backend=backend)
    trial = try_scenario(FAMILY, scenario, twice=False, continued=False)
    assert trial.verdict.violations == ()
    assert JOB_UPGRADED in [kind for _, kind, _, _ in trial.history.events]
