"""Apache Flink as a system under test: the family's own job, real processes, real SIGKILLs.

The rules this module lives by:

- The file of a family runs as it is, in PyFlink: the engine has PyFlink's names (`client/engine_names.py`).
  What PyFlink lacks refuses the family in one line.
- Clusters and the client are kept over scenarios (`flink_pool.py`); each scenario has a folder and jobs of
  its own.
- Rows, checkpoints with their cuts, and attempts are seen from outside (`flink_files.py`), and the same
  checkers judge them with the same oracle.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.flink.flink_cluster import SETTINGS, make_configuration
from onceproof.harness.systems.flink.flink_home import find_flink
from onceproof.harness.systems.flink.flink_order import FlinkOrder
from onceproof.harness.systems.flink.flink_points import ANSWERS, CAPABILITIES, MISSING, affordable, prepared
from onceproof.harness.systems.flink.flink_pool import FlinkPool
from onceproof.harness.systems.flink.flink_run import LONGEST_SECONDS, FlinkRun
from onceproof.harness.systems.flink.flink_submitter import Submitter
from onceproof.harness.systems.process.incarnations import trial_folder

NAME: Final = "flink"


class FlinkSystem:
    """Runs scenarios against Flink, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS
    refusal = staticmethod(refusal_of_servers)
    """What PyFlink lacks for a family is known when its job is built."""

    def __init__(self, folder: Path | None = None, seconds: float = LONGEST_SECONDS) -> None:
        self._folder = folder
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
                    order = FlinkOrder(family, prepared(scenario), place)
                    reason = submitter.refusal(order.made(0, 1, scenario.parallelism, "hashmap", None))
                    if reason:
                        refused.setdefault(family.name, reason)
            finally:
                submitter.end()
        return refused

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in a new folder, and return its history; there is no trace. Raises FamilyError."""
        if reason := self.refusal(family):
            raise FamilyError(f"family {family.name} cannot run on Flink: {reason}")
        if self._pool is None:
            self._pool = FlinkPool(find_flink())
        scenario = prepared(scenario)
        kills, left = applicable(scenario.faults, CAPABILITIES, MISSING)
        faults, too_many = affordable(kills)
        with trial_folder(self._folder, outlived=True) as folder:
            order = FlinkOrder(family, scenario, folder)
            history = FlinkRun(scenario, faults, order, self._pool, self._seconds).run()
        for key, count in [*left.items(), *too_many.items()]:
            not_applicable = history.statistics.not_applicable
            not_applicable[key] = not_applicable.get(key, 0) + count
        return history

    def close(self) -> None:
        """End clusters and client; a later run starts new ones."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None
