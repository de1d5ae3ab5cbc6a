"""Writes harness/docs/coverage.md, families with features and faults: ``python -m tests.family_table``.

The features of a family are what its job has shown in a few runs of the simulation: the operators of its
tasks, and the state in their snapshots. The faults are those that its scenarios draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.state.stored import BROADCAST, UNION
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.generation.generator import GENERATION, generate
from onceproof.harness.generation.server_faults import with_server_faults
from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.systems.simulation.world import World

PAGE: Final = Path(__file__).parents[1] / "harness" / "docs" / "coverage.md"
RUNS: Final = 4
"""Runs of each family to see its features in."""
SCENARIOS: Final = 1000
"""Scenarios of each family whose faults are counted."""
SERVER_FAULTS: Final[tuple[FaultKind, ...]] = tuple(
    kind for kind, row in FAULTS.items() if row.strikes == "server"
)
_LIST_STATES: Final = {BROADCAST: "broadcast", UNION: "union list"}
_SINKS: Final = {
    "SimulatedSink": "two-phase commit",
    "SimulatedPostgresSink": "prepared transactions",
    "SimulatedKafkaSink": "Kafka transactions",
    "SimulatedUpsertSink": "upsert",
    "SimulatedWriteAheadSink": "write-ahead",
    "WriterSinkFunction": "writer and committer",
}

_HEAD: Final = """# Families, features and faults

`python -m tests.family_table` writes this page, and a test compares it with the families.

## Features

What the job of each family has shown in {runs} runs of the simulation: operators besides its sources and
sinks, kinds of state, and how its rows leave it. All families have the positions of their splits in operator
state. Every family runs with each mode of barriers and at drawn parallelisms, with rescales, savepoints and
stops in between.

| family | operators | state and timers | event time | sink |
| --- | --- | --- | --- | --- |
"""
_FAULTS: Final = """
## Faults

In how many of the scenarios 0 to {last} of each family a fault of the kind is drawn (generation
{generation}). The report of a run says how many struck, at which point.

"""
_SERVER_FAULTS: Final = """
Systems that can strike servers draw these on top, for families that have a server
(`harness/generation/server_faults.py`); some of them come with a kill of the job:

"""


class Features:
    """Collects the features of a run; an observer of checkpoints."""

    def __init__(self) -> None:
        self.operators: set[str] = set()
        self.state: set[str] = set()
        self.sinks: set[str] = set()
        self.has_event_time = False

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        pass

    def checkpoint_completed(self, metadata: object, cut: object) -> None:
        pass

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Note the operators of a task and the state in its snapshot."""
        for operator in task.operators:
            name = type(operator).__name__.removesuffix("Operator")
            if name.endswith("Source"):
                self.has_event_time = self.has_event_time or name.startswith("Timestamped")
            elif name.endswith("Sink"):
                function: Any = operator
                sink = type(function.function).__name__
                self.sinks.add(_SINKS.get(sink, f"its own {sink}"))
            else:
                self.operators.add(name)
        for snapshot in effect.snapshot.operators.values():
            keyed: Any = snapshot.keyed
            for table in () if keyed is None else keyed.tables:
                if table.entries:
                    self.state.add(_kind_of(table))
            for stored in () if snapshot.operator is None else snapshot.operator.lists:
                if stored.mode in _LIST_STATES:
                    self.state.add(_LIST_STATES[stored.mode])
            if snapshot.raw_keyed or snapshot.raw_operator:
                self.state.add("raw")

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the family's row."""
        words = (self.operators, self.state, {"yes"} if self.has_event_time else set(), self.sinks)
        return tuple(", ".join(sorted(each)) for each in words)


def _kind_of(table: Any) -> str:
    if table.name.startswith(EVENT_TIMERS):
        return "event timers"
    if table.name.startswith(PROCESSING_TIMERS):
        return "processing timers"
    times_out = "TTL" in str(table.value_type.descriptor)
    return f"{table.kind} with TTL" if times_out else str(table.kind)


@cache
def features_of(name: str) -> tuple[str, ...]:
    """Return the cells of a family in the table of features."""
    family, features = load_family(name), Features()
    for seed in range(RUNS):
        # On the heap each table is in the snapshot as it is.
        drawn = generate(family, seed)
        world = World(family, msgspec.structs.replace(drawn, state_backend=msgspec.UNSET, faults=()))
        world.recorder.observer = features
        world.run()
    return features.cells()


def faults_of(name: str, scenarios: int) -> Mapping[str, int]:
    """Return by kind of fault in how many scenarios of a family one is drawn; of servers on top."""
    family = load_family(name)
    counted: Counter[str] = Counter()
    for seed in range(scenarios):
        drawn = generate(family, seed)
        of_servers = [fault for fault in with_server_faults(family, drawn).faults if fault.server]
        counted.update({fault.kind for fault in (*drawn.faults, *of_servers)})
    return counted


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def feature_rows(names: Iterable[str]) -> str:
    """Return the rows of the table of features."""
    return "".join([row(name, *features_of(name)) for name in names])


def page() -> str:
    """Return the whole page."""
    names = family_names()
    counted = {name: faults_of(name, SCENARIOS) for name in names}
    faults = _FAULTS.format(last=SCENARIOS - 1, generation=GENERATION)
    with_servers = [name for name in names if options_of(load_family(name)).servers]
    return (
        _HEAD.format(runs=RUNS)
        + feature_rows(names)
        + faults
        + _fault_table(names, JOB_FAULTS, counted)
        + _SERVER_FAULTS
        + _fault_table(with_servers, SERVER_FAULTS, counted)
    )


def _fault_table(
    names: Iterable[str], kinds: tuple[FaultKind, ...], counted: Mapping[str, Mapping[str, int]]
) -> str:
    head = row("family", *kinds) + row("---", *["---" for _ in kinds])
    return head + "".join([row(name, *[counted[name][kind] for kind in kinds]) for name in names])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
