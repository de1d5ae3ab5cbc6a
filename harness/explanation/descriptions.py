"""The harness's own things in words: faults, scenarios, and the commands that replay them.

The rules this module lives by:

- A command is printed so that it can be copied into a shell as it stands.
- A fault is described in the order of a plan: what happens, to which task, when.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from onceproof.engine.checkpoint.failures import (
    EXPIRED,
    FAILOVER,
    SCHEDULER_STOPPED,
    SHUT_DOWN,
    SUBSUMED,
    SUSPENDED,
)
from onceproof.engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
)
from onceproof.harness.model.family import family_names
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, Scenario

SIMULATED: Final = "simulated"
"""The system that a command means if it names none."""

_ACTIONS: Final = {
    "poll": "reads of the sources",
    "deliver": "records and barriers between tasks",
    "restore": "restores of tasks",
    "message_trigger": "triggers of checkpoints",
    "message_acknowledge": "acknowledgements",
    "message_notify": "notices of completion",
    "message_control": "all other messages",
    "store": "writes of snapshots",
    "metadata": "writes of metadata",
    "timer": "timers",
}


_REASONS: Final = {
    EXPIRED: "its time was up",
    FAILOVER: "the job starts again",
    SUBSUMED: "a later one is complete",
    SUSPENDED: "the job does not run",
    SHUT_DOWN: "the job has ended",
    SCHEDULER_STOPPED: "the job stops",
    DECLINED_SUBSUMED: "a later one has begun",
    DECLINED_ON_CANCELLATION_BARRIER: "a task was told to give it up",
    DECLINED_INPUT_END_OF_STREAM: "a task had all its input",
}


def reason_text(reason: str) -> str:
    """Why a checkpoint is given up: what Flink has a name for in words, anything else as it is."""
    return _REASONS.get(reason, reason[:1].lower() + reason[1:] if " " in reason else reason)


def fault_text(fault: Fault) -> str:
    """`kill count-1 at committing, checkpoint 1, 2nd time, 3 steps later, then run with parallelism 2`."""
    verb = FAULTS[fault.kind].verb
    what = verb.format(task="a task" if fault.task == ANY_TASK else fault.task)
    parts = [f"{what} at {fault.point.replace('_', ' ')}"]
    if fault.task != ANY_TASK and what == verb:
        parts[0] += f" of {fault.task}"
    if fault.checkpoint:
        parts.append(f"checkpoint {fault.checkpoint}")
    if fault.occurrence > 1:
        parts.append(f"{ordinal(fault.occurrence)} time")
    if fault.after:
        parts.append(f"{steps(fault.after)} later")
    if fault.delay:
        parts.append(f"by {steps(fault.delay)}")
    if fault.rescale_to:
        parts.append(f"then run with parallelism {fault.rescale_to}")
    return ", ".join(parts)


def operation_text(operation: Operation) -> str:
    """`stop with a savepoint at completed, checkpoint 2, then run with parallelism 3 on rocksdb`."""
    what = "stop with a savepoint" if operation.kind == "stop" else "take a savepoint"
    parts = [f"{what} at {operation.point.replace('_', ' ')}"]
    if operation.task != ANY_TASK:
        parts[0] += f" of {operation.task}"
    if operation.checkpoint:
        parts.append(f"checkpoint {operation.checkpoint}")
    if operation.occurrence > 1:
        parts.append(f"{ordinal(operation.occurrence)} time")
    if operation.after:
        parts.append(f"{steps(operation.after)} later")
    if operation.parallelism or operation.state_backend:
        how = f" with parallelism {operation.parallelism}" if operation.parallelism else ""
        where = f" on {operation.state_backend}" if operation.state_backend else ""
        parts.append(f"then run{how}{where}")
    if operation.claims:
        parts.append("which the job may delete")
    return ", ".join(parts)


def choice_text(step: int, label: str) -> str:
    """`at step 12, before its turn: count-0 takes what is next on its channel 1`; see `Action.label`."""
    verb, _, rest = label.partition(" ")
    task, _, number = rest.rpartition(" ")
    target, _, channel = rest.rpartition("/")
    told = {
        "poll": f"{rest} reads its next record",
        "deliver": f"{target} takes what is next on its channel {channel}",
        "restore": f"{rest} is restored",
        "store": f"the snapshot of {task} for checkpoint {number} reaches the storage",
        "metadata": f"the metadata of checkpoint {rest} reaches the storage",
        "trigger": f"{task} is told to begin checkpoint {number}",
        "acknowledge": f"the acknowledgement of {task} for checkpoint {number} arrives",
        "notify": f"{task} is told that checkpoint {number} is complete",
        "timer": f"the timer {rest} fires",
    }
    return f"at step {step}, before its turn: {told.get(verb, label)}"


def priority_text(action: str, priority: int) -> str:
    """`writes of snapshots wait for all else`."""
    if priority == 0:
        return f"{_ACTIONS[action]} come in turn"
    return f"{_ACTIONS[action]} {'come before' if priority > 0 else 'wait for'} all else"


def change_text(step: int, action: str, priority: int) -> str:
    """`from step 40 on, timers come before all else`."""
    return f"from step {step} on, {priority_text(action, priority)}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def steps(count: int) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} step{'' if count == 1 else 's'}"


def scenario_text(scenario: Scenario) -> str:
    """A scenario in one line."""
    name = "a scenario" if scenario.seed is None else f"seed {scenario.seed}"
    count = scenario.record_count()
    return (
        f"{name} of {scenario.family}: {count} record{'' if count == 1 else 's'} in {len(scenario.records)}"
        f" split{'' if len(scenario.records) == 1 else 's'}, parallelism {scenario.parallelism},"
        f" {len(scenario.faults)} fault{'' if len(scenario.faults) == 1 else 's'},"
        f" {_asked_text(scenario)}{scenario.schedule.kind} schedule"
    )


def replay_command(subject: int | Path, family: str, system: str = SIMULATED) -> str:
    """The command that replays a seed or a scenario's file; ``family`` is a name or a path."""
    return _command("replay", subject, family, system)


def shrink_command(subject: int | Path, family: str, system: str = SIMULATED) -> str:
    """The command that shrinks a seed or a scenario's file."""
    return _command("shrink", subject, family, system)


def _command(name: str, subject: int | Path, family: str, system: str) -> str:
    words = ["onceproof", name, str(subject)]
    # A file names its family; only one that is not built in has to be told where it is.
    if isinstance(subject, int) or family not in family_names():
        words += ["--family", family]
    if system != SIMULATED:
        words += ["--system", system]
    return shlex.join(words)


def _asked_text(scenario: Scenario) -> str:
    count = len(scenario.asked)
    return f"{count} request{'' if count == 1 else 's'}, " if count else ""
