"""Apache Flink as a system under test: the family's own job, real processes, real SIGKILLs.

Rules:

- The file of a family runs as it is, in PyFlink: the engine has PyFlink's names (`client/engine_names.py`).
  What PyFlink lacks refuses the family in one line.
- Clusters and the client are kept over scenarios (`pool.py`); each scenario has a folder and jobs of
  its own.
- Rows, checkpoints with their cuts, and attempts are seen from outside (`files.py`), and the same
  checkers judge them with the same oracle.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.types import exchange
from onceproof.harness.model.family import KAFKA, Family, FamilyError, options_of
from onceproof.harness.model.family_places import script_of
from onceproof.harness.model.history import History
from onceproof.harness.model.run_record import RunRecord
from onceproof.harness.model.scenario import InputRecord, Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.services.service import LOOPBACK
from onceproof.harness.systems.flink.cluster import SETTINGS, make_configuration
from onceproof.harness.systems.flink.home import INSTALL, FlinkHome, find_flink
from onceproof.harness.systems.flink.order import ROWS, FlinkOrder
from onceproof.harness.systems.flink.points import ANSWERS, CAPABILITIES, MISSING, affordable, prepared
from onceproof.harness.systems.flink.pool import FlinkPool
from onceproof.harness.systems.flink.run import LONGEST_SECONDS, FlinkRun
from onceproof.harness.systems.flink.submitter import Submitter
from onceproof.harness.systems.kit.incarnations import trial_folder
from onceproof.harness.systems.kit.system import lengths_of
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_io import PARTITIONS, make_topics
from onceproof.harness.systems.process.trial_servers import TrialKafka

NAME: Final = "flink"


class FlinkSystem:
    """Runs scenarios against Flink, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    @staticmethod
    def refusal(family: Family) -> str:
        """Return why it cannot run a family that needs servers; "" if it can.

        What PyFlink lacks for it is known when its job is built.
        """
        return "" if set(options_of(family).servers) <= {KAFKA} else refusal_of_servers(family)

    def __init__(
        self,
        folder: Path | None = None,
        seconds: float = LONGEST_SECONDS,
        kafka: TrialKafka | None = None,
    ) -> None:
        self._folder = folder
        self._kafka = kafka or TrialKafka()
        self._seconds = seconds
        self._pool: FlinkPool | None = None

    @staticmethod
    def require_programs() -> None:
        """Find the installed Flink. Raises ServiceMissing."""
        find_flink()

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points that are seen."""
        return prepared(scenario)

    def refusals(self, trials: Iterable[tuple[Family, Scenario]]) -> dict[str, str]:
        """Build the jobs of families in PyFlink, without a cluster; return why some of them cannot run.

        Raises ServiceMissing or ServiceError.
        """
        home = find_flink()
        refused: dict[str, str] = {}
        with tempfile.TemporaryDirectory(prefix="onceproof-flink-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            submitter = Submitter(home, folder, make_configuration(folder / "configuration", SETTINGS))
            try:
                for number, (family, scenario) in enumerate(trials):
                    place = folder / f"trial-{number}"
                    place.mkdir()
                    order = FlinkOrder(family, prepared(scenario), place, _unreached_topics(family, scenario))
                    reason = _lacks_kafka(home, family) or submitter.refusal(
                        order.made(0, 1, scenario.parallelism, "hashmap", None)
                    )
                    if reason:
                        refused.setdefault(family.name, reason)
            finally:
                submitter.end()
        return refused

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in a new folder, and return its history; there is no trace. Raises FamilyError."""
        if reason := self.refusal(family):
            raise FamilyError(f"family {family.name} cannot run on Flink: {reason}")
        home = find_flink()
        if reason := _lacks_kafka(home, family):
            raise FamilyError(f"family {family.name} cannot run on Flink: {reason}")
        if (script := script_of(family)) is not None:
            # It raises where the program lacks an end, before a cluster starts.
            script.elsewhere()
        if self._pool is None:
            self._pool = FlinkPool(home)
        scenario = prepared(scenario)
        kills, left = applicable(scenario.faults, CAPABILITIES, MISSING)
        faults, too_many = affordable(kills)
        with trial_folder(self._folder, outlived=True) as folder, ExitStack() as ends:
            topics = data = None
            if KAFKA in options_of(family).servers:
                # A topic has no end, and the harness drains the job; a source of records has one.
                scenario = replace(scenario, endless=UNSET)
                topics = ends.enter_context(self._kafka.topics(scenario.records, _message_of))
                make_topics(topics.servers, {topics.output_topic(ROWS): PARTITIONS})
                data = self._kafka.server.data
            order = FlinkOrder(family, scenario, folder, topics, data)
            history = FlinkRun(scenario, faults, order, self._pool, self._seconds).run()
            history.record = RunRecord.of(folder)
        for key, count in [*left.items(), *too_many.items()]:
            not_applicable = history.statistics.not_applicable
            not_applicable[key] = not_applicable.get(key, 0) + count
        return history

    def close(self) -> None:
        """End clusters, client and broker; a later run starts new ones."""
        self._kafka.close()
        if self._pool is not None:
            self._pool.close()
        self._pool = None


def _lacks_kafka(home: FlinkHome, family: Family) -> str:
    """Return what a family with topics at its ends lacks in an installed Flink."""
    if KAFKA not in options_of(family).servers or home.has_kafka:
        return ""
    return f"the connector of Kafka is missing: install Maven (mvn), and run `{INSTALL}` again"


def _unreached_topics(family: Family, scenario: Scenario) -> TrialTopics | None:
    """Return topics for a job that is only built; None for a family without them."""
    if KAFKA not in options_of(family).servers:
        return None
    lengths = lengths_of(scenario)
    return TrialTopics(f"{LOOPBACK}:1", f"{LOOPBACK}:1", "built", lengths)


def _message_of(record: InputRecord) -> bytes:
    """Return a record as `LoggedSource.java` takes it apart; the value is pickled, as between operators."""
    timestamp, value = record
    return struct.pack(">q", timestamp) + exchange.encode(value)
