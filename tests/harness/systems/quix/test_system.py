"""An application of Quix Streams on a real broker under a real SIGKILL, judged by the same checkers."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, JOB_FINISHED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.quix.system import QuixSystem
from onceproof.harness.trials.trial import scenario_of, try_scenario


@pytest.mark.slow
@pytest.mark.local_kill
def test_killed_application_goes_on_from_its_changelog_with_more_workers(kafka_broker: KafkaBroker) -> None:
    family = load_family("running_sum")
    # The states of all workers are gone with their machine: they come from the changelog.
    kill = Fault("kill_process", "committed", occurrence=2, rescale_to=2)
    lost = Fault("lose_message", "notified")
    scenario = msgspec.structs.replace(
        scenario_of(family, 29), faults=(kill, lost), parallelism=1, source_parallelism=1, operations=()
    )
    with closing(QuixSystem(kafka=TrialKafka(kafka_broker))) as system:
        trial = try_scenario(family, scenario, system=system)
    history = trial.history
    assert trial.verdict.passed, trial.verdict.violations
    assert history.statistics.coverage == {("kill_process", "committed"): 1}
    assert history.statistics.not_applicable == {("lose_message", "notified"): 1}
    assert history.statistics.recoveries[0].seconds is not None
    attempts = [payload for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED]
    assert [each["parallelism"] for each in attempts] == [1, 2]
    assert attempts[1]["restored"] == 2
    assert sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in history.events) > 2
    assert history.events[-1][1] == JOB_FINISHED


def test_family_without_an_application_is_refused_before_anything_starts() -> None:
    family = load_family("page_views")
    with (
        closing(QuixSystem()) as system,
        pytest.raises(FamilyError, match="has no job for quix: give it a function"),
    ):
        system.run(family, scenario_of(family, 1))
