"""A failure on half a page: what is wrong, why, where it first shows, and the story that leads there.

The rules this module lives by:

- Read by a person in the morning, who has not seen the scenario: names as in the diagram, steps as in the
  trace, one witness instead of all.
- The story is short. It keeps what moves a job on (attempts, faults, checkpoints, commits) and drops the
  rest; the whole trace is a replay away.
- All of it comes from visible events and the verdict; a trace, where there is one, adds the steps between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.explanation.cause import cause_of, first_wrong_transaction
from onceproof.harness.explanation.descriptions import reason_text
from onceproof.harness.explanation.facts import Facts, StruckFault, facts_of
from onceproof.harness.explanation.sentences import fault_story, row_text, sentence_of
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    BUDGET_EXHAUSTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    COMMIT_FAILED,
    ERROR,
    FAULT_FIRED,
    JOB_FAILED,
    JOB_FINISHED,
    LEAK,
    ROWS_WRITTEN,
    TRANSACTION_HIDDEN,
    TRANSACTION_VISIBLE,
    Event,
    History,
)
from onceproof.harness.model.scenario import Scenario

_MESSAGES: Final = {"trigger": "trigger", "acknowledge": "acknowledgement", "notify": "completion notice"}

LONGEST_STORY: Final = 24
MOST_ROWS: Final = 6


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is told of a failure."""

    sentence: str
    """What is wrong."""
    cause: str
    """What it comes from, as far as can be seen from outside."""
    witness: dict[str, Any] = field(default_factory=dict)
    """What the checker shows for it."""
    first_divergence: str = ""
    """The first moment at which the run can be told from a right one."""
    story: list[str] = field(default_factory=list)
    """The steps that lead there, one a line."""


def explain(
    scenario: Scenario, history: History, trace: dict[str, Any] | None, verdict: Verdict
) -> Explanation:
    """Return the explanation of a failed run, best of a shrunk scenario; of a passed one, its story."""
    facts = facts_of(history)
    if verdict.passed:
        return Explanation("Every property holds.", "", story=_story(history, {}, trace, facts))
    violation = verdict.violations[0]
    step, divergence = _first_divergence(facts, verdict, history)
    return Explanation(
        sentence=sentence_of(violation),
        cause=cause_of(facts, verdict.violations, step),
        witness=violation.witness,
        first_divergence=divergence,
        story=_story(history, _marked(verdict), trace, facts, _named(verdict)),
    )


def _first_divergence(facts: Facts, verdict: Verdict, history: History) -> tuple[int, str]:
    """Return the first step at which anything shows, and what shows there."""
    moments: list[tuple[int, str]] = []
    for violation in verdict.violations:
        step = violation.witness.get("step")
        if step is not None and violation.property != Liveness.property:
            moments.append((step, _in_a_phrase(violation)))
    wrong = first_wrong_transaction(facts, verdict.violations)
    if wrong is not None:
        moments.append((wrong.step, f"transaction {wrong.name} shows a row that should not be there"))
    if not moments:
        last = history.events[-1][0] if history.events else 0
        return last, f"step {last}: the end of the run"
    step, phrase = min(moments, key=lambda moment: moment[0])
    return step, f"step {step}: {phrase}"


def _in_a_phrase(violation: Violation) -> str:
    where = violation.where.split(", step")[0]
    if violation.property == ConsistentCut.property:
        return f"{violation.anomaly} of {where}"
    return f"{violation.anomaly}, {where}"


def _marked(verdict: Verdict) -> dict[str, set[tuple[Any, ...]]]:
    """Return the rows that the story points at, by their anomaly."""
    return {
        violation.anomaly: {tuple(shown["row"]) for shown in violation.witness["rows"]}
        for violation in verdict.violations
        if violation.property == ExactlyOnce.property
    }


def _named(verdict: Verdict) -> frozenset[str]:
    """Return the transactions that violations name: these are told even where they move nothing."""
    return frozenset(
        violation.witness["transaction"]
        for violation in verdict.violations
        if "transaction" in violation.witness
    )


def _story(
    history: History,
    marked: dict[str, set[tuple[Any, ...]]],
    trace: dict[str, Any] | None,
    facts: Facts,
    named: frozenset[str] = frozenset(),
) -> list[str]:
    lines = list(_without_repetition(history, marked, named))
    if trace is not None:
        lines += _strays(trace, facts)
    # Stable: what shares a step stays in the order in which it happened.
    told = [f"step {step}: {line}" for step, line in sorted(lines, key=lambda line: line[0]) if line]
    return _shortened(told)


def _without_repetition(
    history: History, marked: dict[str, set[tuple[Any, ...]]], named: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield each event that is told; of checkpoints in a row that cover the same input the first only."""
    covered = None
    for event in history.events:
        told = _told(event, marked)
        if not told and event[1] == TRANSACTION_VISIBLE and event[2] in named:
            told = f"transaction {event[2]} becomes visible, without a row in it"
        if event[1] == CHECKPOINT_COMPLETED:
            if event[3]["cut"] == covered:
                continue
            covered = event[3]["cut"]
        elif told:
            covered = None
        yield event[0], told


def _strays(trace: dict[str, Any], facts: Facts) -> Iterator[tuple[int, str]]:
    """Yield the messages that were lost, or arrived in another attempt than the one that sent them."""
    for arrow in trace.get("arrows", ()):
        name = _MESSAGES.get(arrow["kind"])
        if name is None:
            continue
        sender, sent = arrow["from"]
        message = f"the {name} of checkpoint {arrow['label']} that {sender} sent"
        if arrow["to"] is None:
            yield sent, f"{message} is lost"
            continue
        receiver, arrived = arrow["to"]
        before, after = facts.running_at(sent), facts.running_at(arrived)
        if before is not None and after is not None and before.name != after.name:
            yield arrived, f"{message} at step {sent}, in attempt {before.name}, reaches {receiver}"


def _told(event: Event, marked: dict[str, set[tuple[Any, ...]]]) -> str:
    """Return what an event means for the job, "" for what needs no telling."""
    step, kind, subject, payload = event
    if kind == ATTEMPT_STARTED:
        restored = payload["restored"]
        origin = "from the beginning" if restored is None else f"from checkpoint {restored}"
        return f"attempt {subject} starts {origin}, parallelism {payload['parallelism']}"
    if kind == FAULT_FIRED:
        return fault_story(StruckFault(step, subject, payload["point"], payload["task"]))
    if kind == CHECKPOINT_COMPLETED:
        cut = ", ".join(f"{split} {offset}" for split, offset in payload["cut"].items())
        return f"checkpoint {subject} is complete; it covers {cut or 'no input'}"
    if kind == CHECKPOINT_ABORTED:
        return f"checkpoint {subject} is given up: {reason_text(payload['reason'])}"
    if kind == TRANSACTION_VISIBLE:
        # An empty transaction moves nothing.
        return (
            f"transaction {subject} becomes visible: {_rows(payload['rows'], marked)}"
            if payload["rows"]
            else ""
        )
    if kind == ROWS_WRITTEN:
        return f"{subject} writes by key: {_rows(payload['rows'], marked)}"
    if kind == TRANSACTION_HIDDEN:
        return f"transaction {subject} is gone"
    if kind == COMMIT_FAILED:
        return f"the commit of transaction {subject} is answered with an error"
    if kind == ERROR:
        return f"{subject} raises {payload['type']} in {payload['function']}: {payload['text']}"
    if kind == LEAK:
        return f"left behind: {subject} {payload['name']}"
    return {
        JOB_FINISHED: "the job is done",
        JOB_FAILED: f"the job gives up: {payload.get('cause', '')}",
        BUDGET_EXHAUSTED: "the steps of the scenario are used up",
    }.get(kind, "")


def _rows(rows: list[Any], marked: dict[str, set[tuple[Any, ...]]]) -> str:
    """Return some of the rows, those in question first and marked."""
    told = []
    for row in sorted(rows, key=lambda row: not any(tuple(row) in of for of in marked.values())):
        anomalies = [anomaly for anomaly, of in marked.items() if tuple(row) in of]
        told.append(row_text(row) + (f" [{anomalies[0]}]" if anomalies else ""))
    rest = len(told) - MOST_ROWS
    return ", ".join(told[:MOST_ROWS]) + (f" and {rest} more" if rest > 0 else "")


def _shortened(lines: list[str]) -> list[str]:
    """Return the story without its middle, where it is too long to be read."""
    if len(lines) <= LONGEST_STORY:
        return lines
    half = LONGEST_STORY // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"... {left_out} events later", *lines[-half:]]
