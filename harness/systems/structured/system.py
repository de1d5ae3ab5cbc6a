"""Spark's Structured Streaming as a system under test: a family's query, real checkpoints, real SIGKILLs.

Rules:

- A driver process is one incarnation (`incarnations.py`). It runs many scenarios until it is killed. If a
  scenario will kill it, the next driver starts beforehand, because a start takes seconds.
- The run tests Spark, the query and its sink; the engine is not involved. `points.py` maps the faults,
  `history.py` defines checkpoints and transactions, `run.py` runs a query.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol, runtime_checkable

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, FamilyError, Records, options_of
from onceproof.harness.model.family_places import address_of, statements_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.kit.drivers import Driver, Drivers
from onceproof.harness.systems.kit.patience import Patience
from onceproof.harness.systems.kit.system import DriverSystem
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.structured import points
from onceproof.harness.systems.structured.history import StructuredHistory
from onceproof.harness.systems.structured.queries.query_answer import (
    LOOK_SUFFIX,
    LOOKED_SUFFIX,
    Answer,
    Look,
    Mistake,
)

PROGRAM: Final = "onceproof.harness.systems.structured.run"


_drivers: Final = Drivers(lambda: StructuredStreamingSystem.start())
"""Of this process. One that has looked at a query runs its scenarios: a start takes longer than these."""


@runtime_checkable
class Answered(Protocol):
    """A family whose rows the driver of a run computes."""

    def keep(self, records: Records, answer: Answer) -> None:
        """Keep the rows that some records should give."""


def look_at_query(address: str) -> Look:
    """Return what a driver finds out about a user's query or script. Raises FamilyError."""
    find_java(os.environ)
    driver = _drivers.take()
    with TemporaryDirectory(prefix="onceproof-look-") as folder:
        path = Path(folder) / f"query{LOOK_SUFFIX}"
        path.write_text(address, encoding="utf-8")
        driver.run(path, Patience(StructuredStreamingSystem.longest_process_seconds))
        words = driver.last_words()
        _drivers.give_back(driver)
        try:
            data = path.with_suffix(LOOKED_SUFFIX).read_bytes()
        except FileNotFoundError:
            raise FamilyError(f"{address}: the driver ended while it looked at the query: {words}") from None
    looked = msgspec.json.decode(data, type=Look | Mistake)
    if isinstance(looked, Mistake):
        raise FamilyError(looked.mistake)
    return looked


def _look_at_script(family: Family) -> None:
    """Find out once whether Spark can run a script of Flink SQL. Raises FamilyError if not."""
    if (script := statements_of(family)) is not None:
        script.on_spark_streams()
        _look_once(address_of(family))


@cache
def _look_once(address: str) -> None:
    look_at_query(address)


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
        self._drivers = _drivers

    @classmethod
    def refusal(cls, family: Family) -> str:
        """Return why it cannot run a family; what Spark says of a script is known when it is looked at."""
        try:
            if (script := statements_of(family)) is not None:
                script.on_spark_streams()
        except FamilyError as error:
            return str(error)
        return super().refusal(family)

    def refusals(self, trials: Iterable[tuple[Family, Scenario]]) -> dict[str, str]:
        """Return by name why Spark refuses some of the families that are scripts of Flink SQL."""
        found: dict[str, str] = {}
        for family, _ in trials:
            try:
                _look_at_script(family)
            except FamilyError as error:
                found[family.name] = str(error)
        return found

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history. Raises FamilyError."""
        _look_at_script(family)
        return super().run(family, scenario, trace)

    @staticmethod
    def start() -> Driver:
        """Start a driver, which has a Spark."""
        return Driver(PROGRAM)

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a query."""
        return points.prepared(scenario)

    def history_of(self, family: Family, spec: Spec, lengths: Mapping[str, int]) -> StructuredHistory:
        """Return what builds a history of batches."""
        keep = partial(family.keep, read_records(spec.records)) if isinstance(family, Answered) else None
        return StructuredHistory(spec, lengths, options_of(family).table_keys, keep)
