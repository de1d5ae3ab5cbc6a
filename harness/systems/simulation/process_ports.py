"""What a simulated process of the job reaches outside of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.conformance_watch import ConformanceWatch
from onceproof.harness.systems.simulation.fault_injection import FaultInjector
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_job import SimulatedJob
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.systems.simulation.user_requests import UserRequests


class RunControl(Protocol):
    """Ends the run, or starts the job again."""

    def job_finished(self) -> None:
        """Called when all output is committed and the checkpoints are deleted."""

    def job_stopped(self, *, is_cancelled: bool = False) -> None:
        """Called when the job has ended with a savepoint; it is started again from there."""

    def job_failed(self, cause: str) -> None:
        """Called when the job has failed for good."""

    def machine_failed(self, where: str, error: BaseException) -> None:
        """Called when a task has raised an error that no fault injected."""


@dataclass(frozen=True, slots=True)
class ProcessPorts:
    """What a process of the job reaches outside of itself."""

    scenario: Scenario
    clock: Clock
    agenda: Agenda
    storage: SimulatedStorage
    recorder: RunRecorder
    faults: FaultInjector
    requests: UserRequests
    job: SimulatedJob
    deliver: Callable[[Any], None]
    """Lets a message arrive."""
    run: RunControl
    watch: ConformanceWatch
