"""What must not be left behind, nor be gone, when a job has finished and nothing happens any more."""

from __future__ import annotations

from collections.abc import Iterable

from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.task.task import Task, TaskState
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.systems.simulation.user_requests import UserRequests


def report_leaks(
    recorder: RunRecorder,
    external: TransactionalSystem,
    storage: SimulatedStorage,
    requests: UserRequests,
    tasks: Iterable[Task],
) -> None:
    """Enter what was left behind into the history, and files of savepoints that are gone."""
    for transaction in external.unsettled():
        if transaction.name not in external.neighbours and transaction.name not in external.begun_late:
            recorder.leak(f"{transaction.state} transaction", transaction.name)
    for name, state in external.neighbours.items():
        if external.transactions[name].state != state:
            recorder.leak("lost transaction of another job", name)
    for path in storage.paths("chk-"):
        recorder.leak("metadata" if path.endswith(METADATA) else "orphan file", path)
    requests.report_lost_files()
    for task in tasks:
        if task.state is not TaskState.FINISHED:
            recorder.leak("unfinished task", task.name)
