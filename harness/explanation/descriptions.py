"""Faults, operations, schedules and scenarios in words, and the commands that replay them.

The rules this module lives by:

- A printed command can be copied into a shell unchanged.
- A fault is described in this order: what happens, at which task, when.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import UNSET

from onceproof.engine.checkpoint.failure_counter import (
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
from onceproof.harness.model.family_places import family_names
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, OperationKind, Scenario
from onceproof.reports.text import counted, joined

SIMULATED: Final = "simulated"
"""The system that a command uses if its ``--system`` is missing."""

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
    EXPIRED: "it timed out",
    FAILOVER: "the job restarts",
    SUBSUMED: "a later checkpoint completed",
    SUSPENDED: "the job is suspended",
    SHUT_DOWN: "the job has ended",
    SCHEDULER_STOPPED: "the job stops",
    DECLINED_SUBSUMED: "a later checkpoint has started",
    DECLINED_ON_CANCELLATION_BARRIER: "a task received a cancellation barrier",
    DECLINED_INPUT_END_OF_STREAM: "an input of a task had ended",
}


def reason_text(reason: str) -> str:
    """Return why a checkpoint was aborted: Flink's failure reasons in words, other texts unchanged."""
    return _REASONS.get(reason, reason[:1].lower() + reason[1:] if " " in reason else reason)


def fault_text(fault: Fault) -> str:
    """`kill count-1 at committing, checkpoint 1, 2nd time, 3 steps later, then run with parallelism 2`."""
    verb = FAULTS[fault.kind].verb
    task = "a task" if fault.task == ANY_TASK else fault.task
    what = verb.format(task=task, server=fault.server, name=fault.name)
    place = f"the mark {fault.mark}" if fault.mark else fault.point
    parts = [f"{what} at {place.replace('_', ' ')}"]
    if fault.task != ANY_TASK and "{task}" not in verb:
        parts[0] += f" of {fault.task}"
    if fault.checkpoint:
        parts.append(f"checkpoint {fault.checkpoint}")
    if fault.occurrence > 1:
        parts.append(f"{ordinal(fault.occurrence)} time")
    if fault.after:
        parts.append(f"{steps(fault.after)} later")
    if fault.delay:
        row = FAULTS[fault.kind]
        lasts = steps(fault.delay) if row.holds_up else f"{fault.delay:,} ms"
        parts.append(f"{'for' if row.strikes in ('server', 'own') else 'by'} {lasts}")
    if fault.rescale_to:
        parts.append(f"then run with parallelism {fault.rescale_to}")
    return ", ".join(parts)


_OPERATIONS: Final[Mapping[OperationKind, str]] = {
    "savepoint": "take a savepoint",
    "stop": "stop with a savepoint",
    "cancel": "cancel with a savepoint",
    "terminate": "end the program in order, and start it again",
    "rescale": "rescale the running job",
    "upgrade": "kill the job, and start its new version",
}


def operation_text(operation: Operation) -> str:
    """Return a requested operation in words.

    Example: `stop with a savepoint at completed, checkpoint 2, then run with parallelism 3 on rocksdb`.
    """
    parts = [f"{_OPERATIONS[operation.kind]} at {operation.point.replace('_', ' ')}"]
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
    if operation.upgrades and operation.kind != "upgrade":
        parts.append("then start the new version")
    if operation.claims:
        parts.append("which the job may delete")
    return ", ".join(parts)


def choice_text(step: int, label: str) -> str:
    """Return a choice of a schedule in words; ``label`` is an ``Action.label``.

    Example: `at step 12, out of turn: count-0 takes the next element of its channel 1`.
    """
    verb, _, rest = label.partition(" ")
    task, _, number = rest.rpartition(" ")
    target, _, channel = rest.rpartition("/")
    texts = {
        "poll": f"{rest} reads its next record",
        "deliver": f"{target} takes the next element of its channel {channel}",
        "restore": f"{rest} is restored",
        "store": f"the snapshot of {task} for checkpoint {number} reaches the storage",
        "metadata": f"the metadata of checkpoint {rest} reaches the storage",
        "trigger": f"the trigger of checkpoint {number} reaches {task}",
        "acknowledge": f"the acknowledgement of {task} for checkpoint {number} arrives",
        "notify": f"the notification of checkpoint {number} reaches {task}",
        "timer": f"the timer {rest} fires",
    }
    return f"at step {step}, out of turn: {texts.get(verb, label)}"


def priority_text(action: str, priority: int) -> str:
    """Return a priority of a schedule in words: `writes of snapshots wait for all other steps`."""
    if priority == 0:
        return f"{_ACTIONS[action]} come in turn"
    return f"{_ACTIONS[action]} {'come before' if priority > 0 else 'wait for'} all other steps"


def change_text(step: int, action: str, priority: int) -> str:
    """Return a change of priority in words: `from step 40 on, timers come before all other steps`."""
    return f"from step {step} on, {priority_text(action, priority)}"


def ordinal(number: int) -> str:
    """Return an ordinal: `1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def steps(count: int) -> str:
    """Return a number of steps: `1 step`, `2 steps`."""
    return f"{count} step{'' if count == 1 else 's'}"


def scenario_text(scenario: Scenario) -> str:
    """Return a scenario's seed, family, size, faults and schedule in one line."""
    name = "a scenario" if scenario.seed is None else f"seed {scenario.seed}"
    count, splits = scenario.record_count(), len(scenario.records)
    end = " without an end" if scenario.is_endless else ""
    return (
        f"{name} of {scenario.family}: {count} record{'' if count == 1 else 's'} in {splits}"
        f" split{'' if splits == 1 else 's'}{end}, parallelism {scenario.parallelism},"
        f" {len(scenario.faults)} fault{'' if len(scenario.faults) == 1 else 's'},"
        f" {_operations_text(scenario)}{scenario.schedule.kind} schedule"
    )


def needed_text(scenario: Scenario) -> str:
    """Return that a shrunk scenario that stays large needs each of its parts; "" if that was not shown."""
    needed = scenario.needed
    if needed is UNSET:
        return ""
    counts = (
        (needed.records, "record"),
        (needed.faults, "fault"),
        (needed.operations, "request"),
        (needed.choices, "choice"),
    )
    parts = [counted(count, name) for count, name in counts if count]
    return f"The failure needs its {joined(parts)}: removing any one of them makes it disappear."


def replay_command(subject: int | Path, family: str, system: str = SIMULATED) -> str:
    """Return the command that replays a scenario.

    Args:
        subject: a seed, or the path of a scenario's JSON file.
        family: the family's name, or the path of its file.
        system: the name of the system to run it on.
    """
    return _command("replay", subject, family, system)


def explain_command(subject: int | Path, family: str, system: str = SIMULATED) -> str:
    """Return the command that shrinks and explains a scenario; parameters as of :func:`replay_command`."""
    return _command("explain", subject, family, system)


def _command(name: str, subject: int | Path, family: str, system: str) -> str:
    words = ["onceproof", name, str(subject)]
    # A scenario's file names its family; the option is needed only if the family is not built in.
    if isinstance(subject, int) or family not in family_names():
        words += ["--family", family]
    if system != SIMULATED:
        words += ["--system", system]
    return shlex.join(words)


def _operations_text(scenario: Scenario) -> str:
    count = len(scenario.asked)
    return f"{count} request{'' if count == 1 else 's'}, " if count else ""
