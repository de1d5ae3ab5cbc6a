"""What a kill does when its time has come: to a task, to all of them, to the job master, or to the process.

Whoever is running dies inside what it does, by an exception that nobody on the way can catch; whoever is not
dies from outside. The job master dies inside what it does only at points that it passes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.runtime.execution import Killed
from onceproof.harness.model.faults import COORDINATOR_POINTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import MasterKilled, ProcessKilled

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.job_process import SimulatedProcess
    from onceproof.harness.systems.simulation.world import World


def strike(world: World, fault: Fault, name: str) -> None:
    """Let a kill strike whoever it is meant for, if he is there."""
    process = world.process
    if process is not None and fault.rescale_to:
        world.keyed_parallelism = fault.rescale_to
    if fault.kind == "kill_master":
        if process is not None:
            _kill_master(world, fault, name)
    elif fault.kind == "kill_process":
        if process is not None:
            _kill_process(world, fault, name)
    else:
        _kill_tasks(world, process, fault, name)


def _kill_master(world: World, fault: Fault, name: str) -> None:
    world.fired(fault, name)
    if not fault.after and fault.point in COORDINATOR_POINTS:
        raise MasterKilled
    world.master_died()


def _kill_process(world: World, fault: Fault, name: str) -> None:
    world.fired(fault, name)
    if not fault.after:
        raise ProcessKilled
    world.process_died()


def _kill_tasks(world: World, process: SimulatedProcess | None, fault: Fault, name: str) -> None:
    """Kill one task or all; those that outlive their master as well, while there is no other."""
    if process is None:
        living = world.outliving.tasks()
    else:
        living = [(process, task) for task in process.tasks.values()]
    victims = [each for each in living if fault.kind == "kill_all" or each[1].name == name]
    running = world.outliving.running_task()
    # A task that is closing is none of the attempt's any more, and can die nevertheless.
    is_closing = running is not None and not any(task is running for _, task in living)
    if not victims and not is_closing:
        return
    world.fired(fault, name)
    for owner, task in victims:
        if task is not running:
            owner.kill(task)
    if is_closing or any(task is running for _, task in victims):
        raise Killed
