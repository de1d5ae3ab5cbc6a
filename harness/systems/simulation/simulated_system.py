"""The simulation as a system on trial."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family
from onceproof.harness.model.fault_answers import MissingPoints, answers
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.leaving_functions import leave
from onceproof.harness.systems.simulation.comparison_runs import RecordedRun, run_recorded
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.fault_injection import FaultInjector
from onceproof.harness.systems.simulation.io_faults import MESSAGE_METHODS, WRITE_METHODS
from onceproof.harness.systems.simulation.schedule import RecordingChooser, chooser_of
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.world import World

NAME = "simulated"
NAME_WITH_DATABASES = "simulated-rocksdb"

CAPABILITIES: Final = frozenset(Capability) - {
    Capability.SERVER_FAULTS,
    Capability.PAUSES,
    Capability.OWN_FAULTS,
    Capability.PAUSED_WORKERS,
    Capability.LOST_FOLDERS,
}

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "tasks": FaultInjector.strike,
        "process": FaultInjector.strike,
        "master": FaultInjector.strike,
        "clock": FaultInjector.strike,
        "listing": FaultInjector.list_short,
        "row": FaultInjector.row_fault,
        "call": FaultInjector.call_fault,
        "database": FaultInjector.database_fault,
        "function": leave,
        "input": SimulatedLog.change,
        "output": TransactionalSystem.take_visible,
        "read": FaultInjector.storage_fault,
        "deletion": FaultInjector.storage_fault,
        "abort": FaultInjector.abort_fault,
        **MESSAGE_METHODS,
        **WRITE_METHODS,
        **COMMIT_METHODS,
    },
    {},
    {
        Capability.SERVER_FAULTS: "Servers are models in its memory: there, commits fail.",
        Capability.PAUSES: "A schedule leaves tasks alone for as long as it likes.",
        Capability.PAUSED_WORKERS: "It has one process, and no worker.",
        Capability.LOST_FOLDERS: "Its storage has no claims of other processes.",
    },
)


class SimulatedSystem:
    """Runs scenarios against the engine's machines in one thread."""

    name: str = NAME
    capabilities = CAPABILITIES
    missing: Final[MissingPoints] = {}
    answers = ANSWERS

    @staticmethod
    def refusal(family: Family) -> str:
        """Return "": it runs the job of any family, and has models of servers."""
        return ""

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """One run; with ``trace`` the history carries the full trace."""
        history = World(family, scenario, tracer=Tracer() if trace else NO_TRACER).run()
        return self._counted(scenario, history)

    def run_recorded(
        self, family: Family, scenario: Scenario, trace: bool = False
    ) -> tuple[History, RecordedRun]:
        """The same run, and its checkpoints: what is restored and compared needs no run of its own."""
        history, recorded = run_recorded(family, scenario, trace)
        return self._counted(scenario, history), recorded

    def _counted(self, scenario: Scenario, history: History) -> History:
        """Return the history with the number of faults that do not apply."""
        history.statistics.not_applicable = applicable(scenario.faults, self.capabilities, self.missing)[1]
        return history


class DatabaseSystem(SimulatedSystem):
    """The simulation with keyed state in databases: some in RocksDB's, most in a model of them."""

    name = NAME_WITH_DATABASES

    def prepared(self, scenario: Scenario) -> Scenario:
        """The scenario on the other backend; with every second seed its checkpoints are incremental."""
        if scenario.incremental is not UNSET:
            return replace(scenario, state_backend="rocksdb")
        return replace(scenario, state_backend="rocksdb", incremental=bool((scenario.seed or 1) % 2))

    def close(self) -> None:
        """Remove the folder of this process."""
        from onceproof.engine.state.rocksdb.working_folders import remove_working_folders

        remove_working_folders()


def record_preemptions(family: Family, scenario: Scenario) -> Schedule:
    """The scenario's schedule as preemptions of the fair one."""
    recorder = RecordingChooser(chooser_of(scenario.schedule))
    World(family, scenario, chooser=recorder).run()
    return Schedule(
        kind="preemptions", horizon=scenario.schedule.horizon, preemptions=tuple(recorder.preemptions)
    )
