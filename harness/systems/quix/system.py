"""Quix Streams as a system under test: a family's application on a real broker, real SIGKILLs.

Rules:

- The run tests Quix Streams between topics of Kafka; the engine is not involved. `points.py` maps the faults,
  `history.py` defines checkpoints and transactions, `run.py` runs an application.
- Quix Streams is in an environment of its own in the user's cache, of the version that is named here.
- The broker is kept over scenarios; topics, consumer groups and folders have new names for each.
- One driver process is kept over scenarios. It has imported Quix Streams, forks the workers of an
  application, and is their supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.kit.drivers import Driver
from onceproof.harness.systems.kit.packages import folder_with
from onceproof.harness.systems.kit.system import DriverSystem
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.quix import points
from onceproof.harness.systems.quix.history import QuixHistory
from onceproof.harness.systems.quix.topics import app_topics, seen

PACKAGES: Final = ("quixstreams==3.28.1",)
PROGRAM: Final = "onceproof.harness.systems.quix.run"


class QuixSystem(DriverSystem):
    """Runs scenarios against Quix Streams, one after another.

    Args:
        folder: see DriverSystem.
        process_seconds: see DriverSystem.
        kafka: a broker that runs already; None: one is started with the first scenario.
    """

    name = "quix"
    capabilities = points.CAPABILITIES
    missing = points.MISSING
    answers = points.ANSWERS
    longest_process_seconds = 120.0
    is_forked = True

    def __init__(
        self, folder: Path | None = None, process_seconds: float = 0.0, kafka: TrialKafka | None = None
    ) -> None:
        super().__init__(folder, process_seconds)
        self._kafka = kafka or TrialKafka()

    @staticmethod
    def start() -> Driver:
        """Start a driver, which has imported Quix Streams."""
        return Driver(PROGRAM, str(folder_with(PACKAGES)))

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a worker."""
        return points.prepared(scenario)

    @contextmanager
    def ends(self, scenario: Scenario, spec: Spec) -> Iterator[Spec]:
        """Yield the specification with topics of its own."""
        with app_topics(self._kafka, scenario.records) as topics:
            yield replace(spec, kafka=topics)

    def history_of(self, family: Family, spec: Spec, lengths: Mapping[str, int]) -> QuixHistory:
        """Return what builds a history of transactions of Kafka."""
        assert spec.kafka is not None, "an application lives between topics"
        return QuixHistory(spec, lengths, partial(seen, spec.kafka))

    def close(self) -> None:
        """End the driver and the broker; a later run starts new ones."""
        super().close()
        self._kafka.close()
