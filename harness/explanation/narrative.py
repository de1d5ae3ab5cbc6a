"""A run as text in aligned columns, one line for each event: the output of `onceproof replay --trace`.

The rules this module lives by:

- A line holds the step, the task, a verb and the details, so that lines can be searched and runs compared
  with diff.
- A message has its line where it arrives, with the step at which it was sent; a lost one where it was sent.
- Within a step causes come first: messages that arrived, then what the task did, then visible events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from onceproof.harness.model import history as kinds
from onceproof.harness.model.history import Event, History
from onceproof.harness.model.scenario import ANY_TASK
from onceproof.reports.text import counted

Line: TypeAlias = tuple[int, str, str, str]
"""(step, task, verb, details)."""

JOB: Final = "job"
USED_UP: Final = "the step budget of the scenario is used up"
# The order of lines within a step.
_MESSAGE, _TASK_ACTION, _VISIBLE_EVENT = range(3)

_MARKS: Final = {
    "trigger": ("triggers", "checkpoint"),
    "snapshot": ("snapshots", "its state for checkpoint"),
    "prepare": ("prepares", "its transaction for checkpoint"),
    "stored": ("stored", "its snapshot for checkpoint"),
    "metadata": ("writes", "the metadata of checkpoint"),
    "restored": ("restored", ""),
    "aborted": ("aborts", "a transaction"),
    "finished": ("finished", ""),
    "write": ("writes", "row"),
}
# The history has events for these, with more details.
_MARKS_OF_EVENTS: Final = ("complete", "visible", "checkpoint_aborted")

_MESSAGES: Final = {
    "record": "record",
    "barrier": "barrier of checkpoint",
    "trigger": "trigger of checkpoint",
    "acknowledge": "acknowledgement of checkpoint",
    "notify": "completion of checkpoint",
    "control": "message",
}


def narrative_lines(run: History) -> list[Line]:
    """Return the lines of a run by step; without a trace, the visible events only."""
    lines: list[tuple[int, int, Line]] = []
    trace = run.trace or {}
    lines += [(line[0], _MESSAGE, line) for line in map(_message, trace.get("arrows", ()))]
    lines += [
        (mark["step"], _TASK_ACTION, _mark(mark))
        for mark in trace.get("marks", ())
        if mark["kind"] not in _MARKS_OF_EVENTS
    ]
    lines += [(event[0], _VISIBLE_EVENT, line) for event in run.events for line in _event(event)]
    # The sort is stable, so lines of one step and rank keep their order.
    return [line for _, _, line in sorted(lines, key=lambda entry: entry[:2])]


def align_columns(lines: Sequence[Line]) -> list[str]:
    """Return each line as text, its columns padded to the widest entry."""
    if not lines:
        return []
    widths = [max(len(str(line[column])) for line in lines) for column in range(3)]
    return [
        f"{step:>{widths[0]}}  {task:<{widths[1]}}  {what:<{widths[2]}}  {rest}".rstrip()
        for step, task, what, rest in lines
    ]


def _message(arrow: dict[str, Any]) -> Line:
    sender, sent = arrow["from"]
    what = _MESSAGES[arrow["kind"]]
    if arrow["to"] is None or arrow["lost"]:
        return sent, sender, "sends", f"{what} {arrow['label']}, which is lost"
    receiver, step = arrow["to"]
    return step, receiver, "receives", f"{what} {arrow['label']} from {sender}, sent at {sent}"


def _mark(mark: dict[str, Any]) -> Line:
    what, of = _MARKS.get(mark["kind"], (mark["kind"], ""))
    return mark["step"], mark["lane"], what, f"{of} {mark['label']}".strip()


def _event(event: Event) -> Iterator[Line]:
    step, kind, subject, payload = event
    match kind:
        case kinds.ATTEMPT_STARTED:
            restored = payload["restored"]
            source = "from the beginning" if restored is None else f"from checkpoint {restored}"
            what = f"attempt {subject} with parallelism {payload['parallelism']}, {source}"
            yield step, JOB, "starts", what
        case kinds.FAULT_FIRED:
            whole = "program" if "outside" in payload and payload["task"] == ANY_TASK else payload["task"]
            struck: dict[str, str] = {"server": whole, **payload}
            yield step, struck["server"], "FAULT", f"{subject} at {payload['point']}"
        case kinds.TASK_FAILED:
            by = "by a fault" if payload["injected"] else "WITHOUT A FAULT"
            yield step, subject, "dies", f"{by}: {payload['cause']}"
        case kinds.CHECKPOINT_COMPLETED:
            cut = ", ".join(f"{split} {offset}" for split, offset in payload["cut"].items())
            yield step, JOB, "completes", f"checkpoint {subject}; read so far: {cut}"
        case kinds.CHECKPOINT_ABORTED:
            yield step, JOB, "aborts", f"checkpoint {subject}: {payload['reason']}"
        case kinds.TRANSACTION_VISIBLE:
            rows = ", ".join(map(_row, payload["rows"])) or "no rows"
            yield step, JOB, "VISIBLE", f"transaction {subject}: {rows}"
        case kinds.ROWS_WRITTEN:
            yield step, subject, "WRITES", ", ".join(map(_row, payload["rows"]))
        case kinds.ROWS_FOUND:
            yield step, JOB, "FOUND", f"{subject}: {', '.join(map(_row, payload['rows']))}"
        case kinds.ROWS_GONE:
            yield step, JOB, "GONE", f"{subject}: {', '.join(map(_row, payload['rows']))}"
        case kinds.TRANSACTION_HIDDEN:
            yield step, JOB, "HIDDEN", f"transaction {subject}"
        case kinds.COMMIT_FAILED:
            yield step, JOB, "FAILED", f"commit of transaction {subject}"
        case kinds.ERROR:
            where = f"{payload['type']} in {payload['function']}: {payload['text']}"
            yield step, str(subject), "ERROR", where
        case kinds.SAVEPOINT_COMPLETED:
            yield step, JOB, "completes", f"savepoint {subject}"
        case kinds.JOB_STOPPED:
            how = "in order" if "outside" in payload else "with a savepoint, to be restarted from it"
            yield step, JOB, "is cancelled" if "cancelled" in payload else "stops", how
        case kinds.STOP_FAILED:
            yield step, JOB, "FAILED", f"to stop with a savepoint: {payload['reason']}"
        case kinds.JOB_UPGRADED:
            yield step, JOB, "is upgraded", "the new version begins from the state of the old one"
        case kinds.JOB_RESCALED:
            left = f", with {counted(payload['open'], 'open transaction')}" if payload.get("open") else ""
            yield step, JOB, "rescales", f"to parallelism {payload['parallelism']}, as its user asks{left}"
        case kinds.JOB_FINISHED:
            yield step, JOB, "finished", ""
        case kinds.JOB_FAILED:
            yield step, JOB, "FAILED", payload["cause"]
        case kinds.BUDGET_EXHAUSTED:
            yield from ((step, JOB, "STUCK", what) for what in (USED_UP, *payload.get("circle", ())))
        case kinds.INPUT_READ:
            yield step, JOB, "has read", ", ".join(_splits_read(payload))
        case kinds.PART_DEAD:
            yield step, subject, "stays dead", "nothing has started it again"
        case kinds.DEVIATED:
            yield step, JOB, "DEVIATION", f"{subject}: {payload['expected']} was due, got {payload['got']}"
        case kinds.LEAK:
            yield step, JOB, "LEAK", f"{subject}: {payload['name']}"
        case kinds.WAIT_BEGUN:
            yield step, JOB, "waits", f"{payload['ms']} ms at most: {subject}"
        case kinds.LOGGED:
            yield step, JOB, "logs", subject
        case kinds.WRITE_REFUSED:
            yield step, subject, "learns", f"that its write for checkpoint {payload['checkpoint']} has failed"
        case kinds.CHECKPOINT_DECLINED:
            yield step, subject, "declines", f"checkpoint {payload['checkpoint']}"


def _splits_read(payload: dict[str, Any]) -> Iterator[str]:
    for split, count in payload["read"].items():
        yield f"{split} {count} of {payload['input'][split]}"


def _row(row: Sequence[Any]) -> str:
    return "=".join(map(str, row))
