"""The lines of a run that a reader needs: without checkpoints of nothing new, and up to the first violation.

The rules this module lives by:

- A checkpoint is empty if its attempt has completed one at the same cut before, and neither of the two holds
  records in flight. Its lines give way to one, which consecutive empty checkpoints share.
- What the job waits for between its checkpoints is left out.
- The lines end with the step in which a violation first shows. One that shows only at the end of the run, as
  a lost row does, ends nothing.
- What is left out is said in a line of its own, so that a reader does not take the part for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.explanation.narrative import JOB, Line, narrative_lines
from onceproof.harness.model.history import (
    CHECKPOINT_COMPLETED,
    EXPIRY_WAIT,
    INTERVAL_WAIT,
    TRANSACTION_VISIBLE,
    Cut,
    History,
)

_OF_A_CHECKPOINT = re.compile(r"\bcheckpoint (\d+)\b")
_STEP = re.compile(r"\bstep (\d+)$")
_PERIODIC = (INTERVAL_WAIT, EXPIRY_WAIT)
_MESSAGES = frozenset({"receives", "sends"})
_OF_THE_PROTOCOL = frozenset(
    {"triggers", "snapshots", "prepares", "stored", "writes", "completes", *_MESSAGES}
)


class UnknownTask(Exception):
    """The run has no such task; the message is one line that names those there are."""


def shown_lines(
    run: History, violations: Sequence[Violation], tasks: Collection[str] = (), whole: bool = False
) -> list[Line]:
    """Return the lines of a run that a reader needs.

    Args:
        violations: those of the run, the first one first.
        tasks: names of tasks, or of vertices with all their subtasks; the lines of other tasks are left out,
            but for those of the job. Empty: all tasks.
        whole: whether empty checkpoints stay, and what comes behind the failure.

    Raises:
        UnknownTask: no line is of one of the tasks.
    """
    lines = narrative_lines(run)
    if tasks:
        lines = _of_tasks(lines, tasks)
    return lines if whole else _until(_first_step_of(run, violations), _without_empty(lines, run))


def _of_tasks(lines: Sequence[Line], tasks: Collection[str]) -> list[Line]:
    known = dict.fromkeys(task for _, task, _, _ in lines)
    for asked in tasks:
        if not any(_is_of(task, [asked]) for task in known):
            raise UnknownTask(f"no task {asked!r} in this run: there are {', '.join(sorted(known))}")
    return [line for line in lines if line[1] == JOB or _is_of(line[1], tasks)]


def _is_of(task: str, asked: Iterable[str]) -> bool:
    return any(task == each or task.rpartition("-")[0] == each for each in asked)


def _without_empty(lines: Sequence[Line], run: History) -> list[Line]:
    """Put one line in the place of the lines of consecutive empty checkpoints."""
    empty, transactions = _empty_checkpoints(run)
    kept: list[Line] = []
    folded: list[int] = []
    """The empty checkpoints that the last line of ``kept`` stands for."""
    for line in lines:
        step, _, verb, details = line
        checkpoint = _checkpoint_of(details) if verb in _OF_THE_PROTOCOL else None
        if checkpoint in empty:
            if verb == "completes":
                if folded:
                    kept.pop()
                folded.append(checkpoint)
                kept.append((step, JOB, "completes", f"{_numbers(folded)}; nothing new was read"))
        elif not (
            (verb == "VISIBLE" and details.partition(":")[0].removeprefix("transaction ") in transactions)
            or (verb == "waits" and details.endswith(_PERIODIC))
        ):
            folded = []
            kept.append(line)
    return kept


def _empty_checkpoints(run: History) -> tuple[set[int], set[str]]:
    """Return the empty checkpoints, and the transactions without rows that they list first."""
    without_rows = {
        transaction
        for _, kind, transaction, payload in run.events
        if kind == TRANSACTION_VISIBLE and not payload["rows"]
    }
    empty: set[int] = set()
    transactions: set[str] = set()
    last: dict[str, Cut] = {}
    for _, kind, subject, payload in run.events:
        if kind == CHECKPOINT_COMPLETED:
            attempt, cut = payload["attempt"], payload["cut"]
            if not payload["in_flight"] and last.get(attempt) == cut:
                empty.add(subject)
                transactions |= without_rows.intersection(payload["transactions"])
            last[attempt] = cut if not payload["in_flight"] else {}
    return empty, transactions


def _checkpoint_of(details: str) -> int | None:
    found = _OF_A_CHECKPOINT.search(details)
    return int(found[1]) if found else None


def _numbers(checkpoints: Sequence[int]) -> str:
    if len(checkpoints) == 1:
        return f"checkpoint {checkpoints[0]}"
    return f"checkpoints {checkpoints[0]} to {checkpoints[-1]}"


def _until(step: int | None, lines: list[Line]) -> list[Line]:
    """Leave out what comes behind a step, and say so."""
    behind = [line for line in lines if step is not None and line[0] > step]
    if not behind:
        return lines
    kept = lines[: -len(behind)]
    more = f"{len(behind):,} more lines after the failure: --whole prints them"
    return [*kept, (behind[-1][0], JOB, "...", more)]


def _first_step_of(run: History, violations: Sequence[Violation]) -> int | None:
    """Return the first step in which a violation shows; None: at the end of the run."""
    shown = {
        transaction: step
        for step, kind, transaction, payload in run.events
        if kind == TRANSACTION_VISIBLE and payload["rows"]
    }
    steps = []
    for violation in violations:
        if found := _STEP.search(violation.where):
            steps.append(int(found[1]))
        elif violation.property == ExactlyOnce.property:
            steps += [
                max(shown[name] for name in row["transactions"])
                for row in violation.witness["rows"]
                if row["visible"] > row["expected"] and shown.keys() >= set(row["transactions"])
            ]
    return min(steps, default=None)
