"""Writes tests/coverage.md, families with features and faults: ``python -m tests.family_table``.

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
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation.world import World

PAGE: Final = Path(__file__).with_name("coverage.md")
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

_DEFAULT_SINK: Final = "two-phase commit"
"""The sink that the table leaves out."""

_HEAD: Final = """# Families, features and faults

`python -m tests.family_table` writes this page, and a test compares it with the families.

## Features

The table shows the features that the job of each built-in family used in {runs} runs of the simulation:
its operators besides sources and sinks, its kinds of state, and its sink if that is not the
two-phase-commit sink. Every family also runs with each barrier mode, at random parallelisms, and with
rescales, savepoints and stops.

| family | operators | uses |
| --- | --- | --- |
"""
_FAULTS: Final = """
## Faults

The table shows in how many of the scenarios 0 to {last} of a family each kind of fault is drawn (generation
{generation}): in the family with the fewest, in the median, and in the family with the most. The report of a
run shows how many faults struck, and where.

"""
_STEADY: Final = """
Families whose jobs need a steady clock (`needs_steady_time`) never draw `clock_back`: {names}.
"""
_SERVER_FAULTS: Final = """
Systems that can strike servers add these faults for families that use a server. Some of them come with a
kill of the job.

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
            # A watched operator is of a class beneath the engine's.
            known = [
                each for each in type(operator).__mro__ if each.__module__.startswith("onceproof.engine")
            ]
            name = known[0].__name__.removesuffix("Operator")
            if name.endswith("Source"):
                self.has_event_time = self.has_event_time or name.startswith("Timestamped")
            elif name.endswith("Sink"):
                function: Any = operator
                sink = type(function.function).__name__
                self.sinks.add(_SINKS.get(sink, sink))
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
        sinks = sorted(self.sinks - {_DEFAULT_SINK} if len(self.sinks) == 1 else self.sinks)
        uses = [*sorted(self.state), *(["event time"] if self.has_event_time else []), *sinks]
        return ", ".join(sorted(self.operators)), ", ".join(uses)


def _kind_of(table: Any) -> str:
    if table.name.startswith(EVENT_TIMERS):
        return "event timers"
    if table.name.startswith(PROCESSING_TIMERS):
        return "processing timers"
    times_out = "TTL" in str(table.value_type.descriptor)
    return f"{table.kind} with TTL" if times_out else str(table.kind)


def with_plain_snapshots(scenario: Scenario) -> Scenario:
    """Return a scenario without faults that stays on the heap, where a snapshot has each table as it is."""
    stay = tuple([msgspec.structs.replace(each, state_backend=None) for each in scenario.asked])
    return msgspec.structs.replace(
        scenario,
        state_backend=msgspec.UNSET,
        without_checkpoints=msgspec.UNSET,
        operations=stay or msgspec.UNSET,
        faults=(),
    )


@cache
def features_of(name: str) -> tuple[str, ...]:
    """Return the cells of a family in the table of features."""
    family, features = load_family(name), Features()
    for seed in range(RUNS):
        world = World(family, with_plain_snapshots(generate(family, seed)))
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
    steady = [name for name in names if not allows(name, "clock_back")]
    with_servers = [name for name in names if options_of(load_family(name)).servers]
    return (
        _HEAD.format(runs=RUNS)
        + feature_rows(names)
        + _FAULTS.format(last=SCENARIOS - 1, generation=GENERATION)
        + fault_table(JOB_FAULTS, counted)
        + _STEADY.format(names=", ".join(steady))
        + _SERVER_FAULTS
        + fault_table(SERVER_FAULTS, {name: counted[name] for name in with_servers})
    )


def allows(name: str, kind: FaultKind) -> bool:
    """Return whether scenarios of a family may have a kind of fault."""
    return kind != "clock_back" or not options_of(load_family(name)).needs_steady_time


def fault_table(kinds: Iterable[FaultKind], counted: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of kinds of faults: how often the families that allow a kind draw it."""
    rows = [row("fault", "fewest", "median", "most"), row("---", "--:", "--:", "--:")]
    for kind in kinds:
        drawn = sorted(counts[kind] for name, counts in counted.items() if allows(name, kind))
        rows.append(row(kind, drawn[0], drawn[len(drawn) // 2], drawn[-1]))
    return "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
