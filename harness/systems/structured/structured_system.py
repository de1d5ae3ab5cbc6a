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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, FamilyOptions, options_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.kit.driver_pool import DriverRun
from onceproof.harness.systems.kit.driver_process import Driver
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import DriverSystem, lengths_of
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.structured.query_fault_points import ANSWERS, CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.structured.query_history_builder import StructuredHistory

NAME: Final = "structured_streaming"
CHILD: Final = "onceproof.harness.systems.structured.structured_child"
LONGEST_PROCESS_SECONDS: Final = 180.0


class StructuredStreamingSystem(DriverSystem):
    """Runs scenarios against Structured Streaming, one after another."""

    name = NAME
    option = "streaming_query"
    job_for = "query for Structured Streaming"
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        # A missing Java is an error here, not in each driver.
        find_java(os.environ)
        super().__init__(lambda: Driver(CHILD), folder, process_seconds)

    @staticmethod
    def builder_in(options: FamilyOptions) -> Callable[[Any, Any], Any] | None:
        """Return the function that builds a family's query, if it has one."""
        return options.streaming_query

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a query."""
        return prepared(scenario)

    def run_job(self, family: Family, scenario: Scenario, spec: Spec, folder: Path) -> History:
        """Run the query of a scenario."""
        run = StructuredRun(
            spec,
            lengths_of(scenario),
            folder,
            drivers=self._drivers,
            process_seconds=self._process_seconds,
            table_keys=options_of(family).table_keys,
        )
        return run.run()


@dataclass(slots=True)
class StructuredRun(DriverRun):
    """One query's run, from its first driver to the end of its input."""

    table_keys: int = field(default=0, kw_only=True)

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for batches."""
        return StructuredHistory(self.spec, self.lengths, self.table_keys)
