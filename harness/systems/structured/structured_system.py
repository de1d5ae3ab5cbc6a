"""Spark's Structured Streaming on trial: a family's own query, real checkpoint locations, real SIGKILLs.

The rules this module lives by:

- A driver is one incarnation (`incarnations.py`), and serves many scenarios until it is killed; the next one
  is started beforehand where a scenario is going to need it, because it takes seconds.
- What is judged is Spark, the query and its sink; of the engine nothing runs. `structured_points.py` says
  what becomes of a scenario's faults, `structured_retelling.py` what a checkpoint and a transaction are here.
- A family without ``streaming_query`` cannot be run, and says so before a driver is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.process.incarnations import trial_folder
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.recording.history_builder import Retelling
from onceproof.harness.systems.spark.driver_pool import DriverRun, Drivers
from onceproof.harness.systems.spark.driver_process import Driver
from onceproof.harness.systems.structured.query_fault_board import read_structured_board
from onceproof.harness.systems.structured.query_fault_points import CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.structured.query_history_builder import StructuredRetelling
from onceproof.harness.systems.structured.query_io import check_streaming_query

NAME: Final = "structured_streaming"
CHILD: Final = "onceproof.harness.systems.structured.structured_child"
LONGEST_PROCESS_SECONDS: Final = 180.0


class StructuredStreamingSystem:
    """Runs scenarios against Structured Streaming, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        # What is missing is told here and not by each driver.
        find_java(os.environ)
        self._drivers = Drivers(lambda: Driver(CHILD))
        self._folder = folder
        self._process_seconds = process_seconds

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it is run: its faults at their places in a query."""
        return prepared(scenario)

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """One run in folders of its own; there is no trace to be had."""
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
        # Beside what the run itself has found.
        history.statistics.not_applicable.update(left)
        return history

    def close(self) -> None:
        """End the drivers that are left; a run afterwards starts another one."""
        self._drivers.close()


@dataclass(slots=True)
class StructuredRun(DriverRun):
    """One query, from its first driver to the end of its input."""

    table_keys: int = field(default=0, kw_only=True)

    def retelling(self) -> Retelling:
        """Who knows of batches."""
        return StructuredRetelling(self.spec, self.lengths, self.table_keys)

    def points_on(self, board: Path) -> Mapping[str, int]:
        """As the driver and its Python processes have counted them."""
        return read_structured_board(board).points

    def will_die(self) -> bool:
        """Whether a fault still waits that kills the driver."""
        left = read_structured_board(self.spec.board).waiting.left or [1] * len(self.spec.faults)
        return any(
            count and fault.kind == "kill_process"
            for fault, count in zip(self.spec.faults, left, strict=True)
        )
