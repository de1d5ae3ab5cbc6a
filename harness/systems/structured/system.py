"""Spark's Structured Streaming as a system under test: a family's query, real checkpoints, real SIGKILLs.

Rules:

- A driver process is one incarnation (`incarnations.py`). It runs many scenarios until it is killed. If a
  scenario will kill it, the next driver starts beforehand, because a start takes seconds.
- The run tests Spark, the query and its sink; the engine is not involved. `points.py` maps the faults,
  `history.py` defines checkpoints and transactions, `run.py` runs a query.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.kit.drivers import Driver
from onceproof.harness.systems.kit.system import DriverSystem
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.structured import points
from onceproof.harness.systems.structured.history import StructuredHistory

PROGRAM: Final = "onceproof.harness.systems.structured.run"


class StructuredStreamingSystem(DriverSystem):
    """Runs scenarios against Structured Streaming, one after another."""

    name = "structured_streaming"
    capabilities = points.CAPABILITIES
    missing = points.MISSING
    answers = points.ANSWERS
    longest_process_seconds = 180.0
    is_forked = False

    def __init__(self, folder: Path | None = None, process_seconds: float = 0.0) -> None:
        # A missing Java is an error here, not in each driver.
        find_java(os.environ)
        super().__init__(folder, process_seconds)

    @staticmethod
    def start() -> Driver:
        """Start a driver, which has a Spark."""
        return Driver(PROGRAM)

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a query."""
        return points.prepared(scenario)

    def history_of(self, family: Family, spec: Spec, lengths: Mapping[str, int]) -> StructuredHistory:
        """Return what builds a history of batches."""
        return StructuredHistory(spec, lengths, options_of(family).table_keys)
