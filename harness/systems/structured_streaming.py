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
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from engine.runtime.java import find_java
from harness.family import Family, table_keys_of
from harness.history import History
from harness.scenario import Scenario
from harness.systems.event_log import read_all_events
from harness.systems.incarnations import Ending, JobRun, trial_folder
from harness.systems.protocol import applicable
from harness.systems.retelling import Retelling
from harness.systems.spec import spec_of
from harness.systems.structured_board import read_structured_board
from harness.systems.structured_driver import StructuredDrivers
from harness.systems.structured_io import check_streaming_query
from harness.systems.structured_points import CAPABILITIES, MISSING, prepared
from harness.systems.structured_retelling import StructuredRetelling

NAME: Final = "structured_streaming"
LONGEST_PROCESS_SECONDS: Final = 180.0


class StructuredStreamingSystem:
    """Runs scenarios against Structured Streaming, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        # What is missing is told here and not by each driver.
        find_java(os.environ)
        self._drivers = StructuredDrivers()
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
                table_keys=table_keys_of(family),
            )
            history = run.run()
        history.statistics.not_applicable = left
        return history

    def close(self) -> None:
        """End the drivers that are left; a run afterwards starts another one."""
        self._drivers.close()


@dataclass(slots=True)
class StructuredRun(JobRun):
    """One query, from its first driver to the end of its input."""

    drivers: StructuredDrivers = field(default_factory=StructuredDrivers)
    process_seconds: float = LONGEST_PROCESS_SECONDS
    table_keys: int = 0

    def retelling(self) -> Retelling:
        """Who knows of batches."""
        return StructuredRetelling(self.spec, self.lengths, self.table_keys)

    def run(self) -> History:
        """Start driver after driver until the input is consumed; the points are counted on the board."""
        board = self.folder / "faults.json"
        self.spec = msgspec.structs.replace(self.spec, board=str(board))
        # Spelt out: a class with slots is made anew, and the short form would look in the old one.
        history = JobRun.run(self)
        history.statistics.points = read_structured_board(board).points
        return history

    def live(self, number: int, path: Path) -> Ending:
        """Let one driver run the query, or die of it."""
        driver = self.drivers.take()
        driver.wait_until_ready()
        if self._will_die():
            self.drivers.prepare()
        try:
            answer = driver.run(path, self.process_seconds)
            at = time.monotonic_ns()
            last_words = f"exit code {answer.code}: {driver.last_words()}"
        except BaseException:
            driver.end()
            raise
        self.drivers.give_back(driver)
        return Ending(
            at=at,
            was_killed=answer.code == -signal.SIGKILL,
            in_time=answer.in_time,
            events=read_all_events(self.events_path(number)),
            last_words=last_words,
        )

    def _will_die(self) -> bool:
        """Whether a fault still waits that kills the driver."""
        left = read_structured_board(self.spec.board).waiting.left or [1] * len(self.spec.faults)
        return any(
            count and fault.kind == "kill_process"
            for fault, count in zip(self.spec.faults, left, strict=True)
        )
