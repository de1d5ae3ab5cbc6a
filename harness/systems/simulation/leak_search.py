"""What must not be left behind, nor be gone, when a job has finished and nothing happens any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.task.task import TaskState

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.world import World


def look_for_leaks(world: World) -> None:
    """Enter what was left behind, and files of savepoints that are gone, into the history."""
    history, step = world.history, world.clock.step
    for transaction in world.external.unsettled():
        history.leak(step, f"{transaction.state} transaction", transaction.name)
    for path in world.storage.list("chk-"):
        history.leak(step, "metadata" if path.endswith(METADATA) else "orphan file", path)
    world.operations.look_for_losses()
    process = world.process
    assert process is not None
    for task in process.tasks.values():
        if task.state is not TaskState.FINISHED:
            history.leak(step, "unfinished task", task.name)
