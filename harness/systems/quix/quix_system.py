"""Quix Streams as a system under test: a family's application on a real broker, real SIGKILLs.

The rules this module lives by:

- The run tests Quix Streams between topics of Kafka; the engine is not involved. `app_fault_points.py` maps
  the faults, `app_history_builder.py` defines checkpoints and transactions.
- Quix Streams is in an environment of its own in the user's cache, of the version that is named here.
- The broker is kept over scenarios; topics, consumer groups and folders have new names for each.
- One driver process is kept over scenarios. It has imported Quix Streams, forks the workers of an
  application, and is their supervisor.
- A family without ``quix_app`` is refused before a driver starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from onceproof.harness.model.family import Family, FamilyOptions
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.kit.driver_pool import DriverRun
from onceproof.harness.systems.kit.driver_process import Driver
from onceproof.harness.systems.kit.packages import folder_with
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import DriverSystem, lengths_of
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.quix.app_fault_points import ANSWERS, CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.quix.app_history_builder import QuixHistory
from onceproof.harness.systems.quix.app_topics import app_topics, seen

NAME: Final = "quix"
PACKAGES: Final = ("quixstreams==3.28.1",)
CHILD: Final = "onceproof.harness.systems.quix.app_child"
LONGEST_PROCESS_SECONDS: Final = 120.0


class QuixSystem(DriverSystem):
    """Runs scenarios against Quix Streams, one after another.

    Args:
        kafka: a broker that runs already; None: one is started with the first scenario.
    """

    name = NAME
    option = "quix_app"
    job_for = "application for Quix Streams"
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    def __init__(
        self,
        folder: Path | None = None,
        process_seconds: float = LONGEST_PROCESS_SECONDS,
        kafka: TrialKafka | None = None,
    ) -> None:
        super().__init__(lambda: Driver(CHILD, str(folder_with(PACKAGES))), folder, process_seconds)
        self._kafka = kafka or TrialKafka()

    @staticmethod
    def builder_in(options: FamilyOptions) -> Callable[[Any, Any], Any] | None:
        """Return the function that builds a family's application, if it has one."""
        return options.quix_app

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a worker."""
        return prepared(scenario)

    def run_job(self, family: Family, scenario: Scenario, spec: Spec, folder: Path) -> History:
        """Run the application of a scenario between topics of its own."""
        with app_topics(self._kafka, scenario.records) as topics:
            run = AppRun(
                replace(spec, kafka=topics),
                lengths_of(scenario),
                folder,
                drivers=self._drivers,
                process_seconds=self._process_seconds,
            )
            return run.run()

    def close(self) -> None:
        """End the driver and the broker; a later run starts new ones."""
        super().close()
        self._kafka.close()


@dataclass(slots=True)
class AppRun(DriverRun):
    """One application's run, from its first start until all is processed."""

    def kills_driver(self, fault: Fault) -> bool:
        """Return False: the processes that die are forks of the driver."""
        return False

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for transactions of Kafka."""
        topics = self.spec.kafka
        assert topics is not None, "an application lives between topics"
        return QuixHistory(self.spec, self.lengths, partial(seen, topics))
