"""The diagram and the recoveries of a run without a trace, from its visible events.

The rules this module lives by:

- The diagram shows events of the history only: attempts, checkpoints, visible rows, deaths. It has no arrows,
  because messages between tasks are not recorded, and a guess would look like a fact.
- Its lanes are the job, the tasks that events name, and the output as its readers see it.
- The axis shows the order of events, not time. Times are given for recoveries, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.harness.explanation.facts import StruckFault
from onceproof.harness.explanation.sentences import fault_story, row_text
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_TRIGGERED,
    FAULT_FIRED,
    JOB_FINISHED,
    ROWS_FOUND,
    ROWS_WRITTEN,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
    Event,
    History,
    Recovery,
)
from onceproof.harness.model.scenario import ANY_TASK
from onceproof.reports.text import counted, duration

JOB: Final = "job"
OUTPUT: Final = "output"
PROGRAM: Final = "program"
PROCESS: Final = "process"
"""The subject of a TASK_FAILED event when a process dies with all its tasks."""

_MARKS: Final = {
    CHECKPOINT_TRIGGERED: "trigger",
    CHECKPOINT_COMPLETED: "complete",
    CHECKPOINT_ABORTED: "checkpoint_aborted",
}


def visible_trace(history: History) -> dict[str, Any]:
    """Return the visible events of a history in the form of a trace, for the diagram."""
    tasks = list(dict.fromkeys(_tasks_of(history)))
    return {
        "lanes": [JOB, *tasks, OUTPUT],
        "arrows": [],
        "marks": [mark for event in history.events for mark in _marks_of(event)],
        "kills": list(_kills_of(history, tasks)),
        "attempts": _attempts_of(history),
        "steps": history.statistics.steps,
    }


def _tasks_of(history: History) -> Iterator[str]:
    if any(kind == ATTEMPT_STARTED and "outside" in payload for _, kind, _, payload in history.events):
        yield PROGRAM
    for _, kind, subject, payload in history.events:
        if kind == FAULT_FIRED and "server" in payload:
            yield payload["server"]
        elif kind == FAULT_FIRED and payload["task"] != ANY_TASK:
            yield payload["task"]
        elif kind == TASK_FAILED and subject != PROCESS:
            yield subject


def _marks_of(event: Event) -> Iterator[dict[str, Any]]:
    step, kind, subject, payload = event
    if kind in _MARKS:
        yield {"kind": _MARKS[kind], "lane": JOB, "step": step, "label": str(subject)}
    elif kind == JOB_FINISHED:
        yield {"kind": "finished", "lane": JOB, "step": step, "label": ""}
    elif kind in (TRANSACTION_VISIBLE, ROWS_FOUND) and payload["rows"]:
        yield {"kind": "visible", "lane": OUTPUT, "step": step, "label": subject}
    elif kind == ROWS_WRITTEN:
        label = ", ".join(map(row_text, payload["rows"]))
        yield {"kind": "write", "lane": OUTPUT, "step": step, "label": label}


def _kills_of(history: History, tasks: list[str]) -> Iterator[dict[str, Any]]:
    """Yield each kill by a fault, on the lanes of what it killed: tasks, a program, its part, a server."""
    for step, kind, subject, payload in history.events:
        if kind != FAULT_FIRED or subject not in (*KILLS, "kill_server"):
            continue
        if "server" in payload or "outside" in payload:
            program = PROGRAM if payload["task"] == ANY_TASK else payload["task"]
            yield {"step": step, "lanes": [payload.get("server", program)], "label": "kill"}
        else:
            one = subject == "kill_task" and payload["task"] != ANY_TASK
            lanes = [payload["task"]] if one else tasks
            yield {"step": step, "lanes": lanes, "label": "kill" if one else subject.replace("_", " ")}


def _attempts_of(history: History) -> list[dict[str, Any]]:
    """Return the attempts; each but the last ends with the last failure before the next one starts."""
    attempts: list[dict[str, Any]] = []
    failed = 0
    for step, kind, subject, payload in history.events:
        if kind in (FAULT_FIRED, TASK_FAILED):
            failed = step
        elif kind == ATTEMPT_STARTED:
            if attempts:
                attempts[-1]["to"] = max(failed, attempts[-1]["from"])
            shown = {name: payload[name] for name in ("parallelism", "restored")}
            attempts.append({"name": subject, "from": step, "to": None, **shown})
    return attempts


def recovery_text(recovery: Recovery) -> str:
    """Return how a job recovered from a fault, in one sentence, as far as it recovered."""
    outside = recovery.replayed is None and recovery.restored is None and recovery.parallelism_after > 0
    fault = StruckFault(0, recovery.kind, recovery.point, recovery.task, outside)
    parts = [fault_story(fault)]
    if recovery.means:
        parts[0] += f" (by {recovery.means.replace('_', ' ')})"
    if recovery.position is not None:
        had = "it had been given" if outside else "the job had read"
        parts.append(f"{had} {counted(recovery.position, 'record')}")
    if outside:
        parts.append("it started again")
    elif recovery.parallelism_after:
        origin = "the beginning" if recovery.restored is None else f"checkpoint {recovery.restored}"
        again = counted(recovery.replayed or 0, "record")
        parts.append(f"it started again from {origin} and read {again} again")
    if recovery.seconds is not None:
        parts.append(f"new rows became visible after {duration(recovery.seconds)}")
    return "; ".join(parts)
