"""Spark's Structured Streaming as a system under test: a family's query, real checkpoints, real SIGKILLs.

The rules this module lives by:

- A driver process is one incarnation (`incarnations.py`). It runs many scenarios until it is killed. If a
  scenario will kill it, the next driver starts beforehand, because a start takes seconds.
- The run tests Spark, the query and its sink; the engine is not involved. `query_fault_points.py` maps the
  faults, `query_history_builder.py` defines checkpoints and transactions.
- A family without ``streaming_query`` is refused before a driver starts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.process.driver_pool import DriverRun, Drivers
from onceproof.harness.systems.process.driver_process import Driver
from onceproof.harness.systems.process.incarnations import trial_folder
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.recording.history_builder import HistoryBuilder
from onceproof.harness.systems.structured.query_fault_points import ANSWERS, CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.structured.query_history_builder import QueryHistoryBuilder
from onceproof.harness.systems.structured.query_io import check_streaming_query

NAME: Final = "structured_streaming"
CHILD: Final = "onceproof.harness.systems.structured.structured_child"
LONGEST_PROCESS_SECONDS: Final = 180.0


class StructuredStreamingSystem:
    """Runs scenarios against Structured Streaming, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    @staticmethod
    def refusal(family: Family) -> str:
        """Return why it cannot run a family: without a query, or with servers; "" if it can."""
        if options_of(family).streaming_query is None:
            return "the family has no streaming_query"
        return refusal_of_servers(family)

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        # A missing Java is an error here, not in each driver.
        find_java(os.environ)
        self._drivers = Drivers(lambda: Driver(CHILD))
        self._folder = folder
        self._process_seconds = process_seconds

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a query."""
        return prepared(scenario)

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        check_streaming_query(family)
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, CAPABILITIES, MISSING)
            spec = msgspec.structs.replace(spec_of(family, scenario, folder), faults=faults)
            lengths = {split: len(records) for split, records in scenario.records.items()}
            run = StructuredRun(
                spec,
                lengths,
                folder,
                drivers=self._drivers,
                process_seconds=self._process_seconds,
                table_keys=options_of(family).table_keys,
            )
            history = run.run()
        # The run itself may have added refused rescales.
        history.statistics.not_applicable.update(left)
        return history

    def close(self) -> None:
        """End all idle drivers; a later run starts new ones."""
        self._drivers.close()


@dataclass(slots=True)
class StructuredRun(DriverRun):
    """One query's run, from its first driver to the end of its input."""

    table_keys: int = field(default=0, kw_only=True)

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for batches."""
        return QueryHistoryBuilder(self.spec, self.lengths, self.table_keys)
