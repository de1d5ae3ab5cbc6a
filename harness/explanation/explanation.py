"""A failure on half a page: what is wrong, the cause, the step where it first shows, and the events before.

The rules this module lives by:

- The reader has not seen the scenario: tasks are named as in the diagram, steps as in the trace, and one
  witness stands for all.
- The list of events is short: attempts, faults, checkpoints and commits. A replay prints the whole trace.
- Everything follows from visible events and the verdict; a trace, if there is one, adds lost messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from onceproof.harness.checkers import Violation, exactly_once, restore_anywhere
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.explanation.cause import cause_of, first_wrong_transaction, specific_cause_of
from onceproof.harness.explanation.descriptions import reason_text
from onceproof.harness.explanation.facts import Facts, StruckFault, facts_of
from onceproof.harness.explanation.sentences import (
    fault_story,
    rescale_story,
    row_text,
    sentence_of,
)
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
    JOB_RESCALED,
    JOB_STOPPED,
    JOB_UPGRADED,
    LEAK,
    ROWS_FOUND,
    ROWS_GONE,
    ROWS_WRITTEN,
    TRANSACTION_HIDDEN,
    TRANSACTION_VISIBLE,
    Event,
    History,
)
from onceproof.harness.model.scenario import Scenario

_ENDS_OF_PROGRAMS: Final = {
    JOB_FINISHED: "the trial of the program is over",
    BUDGET_EXHAUSTED: "the time of the trial is used up",
}
_MESSAGES: Final = {"trigger": "trigger", "acknowledge": "acknowledgement", "notify": "completion notice"}

LONGEST_STORY: Final = 24
"""The most lines of a story; the middle of a longer one is left out."""
FEWEST_FOLDED: Final = 3
"""So many checkpoints that are aborted in a row for one reason are one line."""
MOST_ROWS: Final = 6
"""The most rows of a transaction that a line of the story shows."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a failed run, or the story of a passed one."""

    sentence: str
    """What is wrong with the output or the job."""
    cause: str
    """The cause, as far as visible events show it."""
    witness: dict[str, Any] = field(default_factory=dict)
    """The witness of the first violation."""
    first_divergence: str = ""
    """The first step at which the run differs visibly from a correct one."""
    story: list[str] = field(default_factory=list)
    """The events that lead there, one a line."""


def explain(
    scenario: Scenario, history: History, trace: dict[str, Any] | None, verdict: Verdict
) -> Explanation:
    """Return the explanation of a failed run, or the story of a passed one.

    Args:
        scenario: the scenario that was run; a shrunk one gives the best explanation.
        history: its visible events.
        trace: its full trace, or None.
        verdict: the verdict on the history.
    """
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
        story=_story(history, _rows_to_mark(verdict), trace, facts, _transactions_in(verdict)),
    )


def explain_continuation(
    history: History, trace: dict[str, Any] | None, verdict: Verdict, checkpoint: int, parallelism: int
) -> Explanation:
    """Return the explanation of a run that passed and whose checkpoint cannot be continued from.

    Args:
        history: of the job restored from the checkpoint, whose completion and visible rows stand at step 0;
            where the state differs, of the run until the checkpoint was complete.
        trace: the full trace of that history, or None.
        verdict: with the violations of restore_anywhere or state_equivalence.
        parallelism: at which the job was restored; 0: the state differs.
    """
    facts = facts_of(history)
    violation = verdict.violations[0]
    # What is wrong with the rows of the restored job is what exactly_once calls so.
    rows = Verdict(
        tuple(
            Violation(ExactlyOnce.property, each.anomaly, each.where, each.witness)
            for each in verdict.violations
            if each.property == restore_anywhere.PROPERTY and each.anomaly in exactly_once.ANOMALIES
        )
    )
    step, divergence = _first_divergence(facts, rows, history)
    if parallelism:
        cause = (
            f"The run that took checkpoint {checkpoint} passes. A job restored from it with parallelism"
            f" {parallelism} fails, with nothing going wrong any more."
        )
        if specific := specific_cause_of(facts, rows.violations):
            cause += f" {specific}"
    elif violation.property == restore_anywhere.PROPERTY:
        cause = f"The run passes, but no job can be restored from checkpoint {checkpoint} any more."
        divergence = f"step {step}: checkpoint {checkpoint} is complete; later its files are gone"
    else:
        backend = violation.witness.get("backend")
        other = f"on the backend {backend}" if backend else "than its input before the cut gives"
        cause = (
            f"The run passes, but checkpoint {checkpoint} holds other state {other}: a job restored from it"
            " would go on from that state."
        )
        divergence = f"step {step}: checkpoint {checkpoint} is complete"
    return Explanation(
        sentence=sentence_of(violation),
        cause=cause,
        witness=violation.witness,
        first_divergence=divergence,
        story=_story(history, _rows_to_mark(rows), trace, facts),
    )


def _first_divergence(facts: Facts, verdict: Verdict, history: History) -> tuple[int, str]:
    """Return the first step at which a violation shows, and the text for it."""
    divergences: list[tuple[int, str]] = []
    for violation in verdict.violations:
        step = violation.witness.get("step")
        if step is not None and violation.property != Liveness.property:
            divergences.append((step, _violation_phrase(violation)))
    wrong = first_wrong_transaction(facts, verdict.violations)
    if wrong is not None:
        divergences.append((wrong.step, f"{wrong.words} contains an unexpected row"))
    if not divergences:
        last = history.events[-1][0] if history.events else 0
        return last, f"step {last}: the end of the run"
    step, phrase = min(divergences, key=lambda divergence: divergence[0])
    return step, f"step {step}: {phrase}"


def _violation_phrase(violation: Violation) -> str:
    where = violation.where.split(", step")[0]
    if violation.property == ConsistentCut.property:
        return f"{violation.anomaly} of {where}"
    return f"{violation.anomaly}, {where}"


def _rows_to_mark(verdict: Verdict) -> dict[str, set[tuple[Any, ...]]]:
    """Return by anomaly the rows that the story marks."""
    return {
        violation.anomaly: {tuple(shown["row"]) for shown in violation.witness["rows"]}
        for violation in verdict.violations
        if violation.property == ExactlyOnce.property
    }


def _transactions_in(verdict: Verdict) -> frozenset[str]:
    """Return the transactions that violations name: the story shows these even when they are empty."""
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
    lines = list(_event_lines(history, marked, named))
    if trace is not None:
        lines += _stray_messages(trace, facts)
    # The sort is stable, so events of one step keep their order.
    shown = sorted([line for line in lines if line[1]], key=lambda line: line[0])
    return _shortened([f"step {step}: {line}" for step, line in _without_repeated_aborts(shown)])


def _without_repeated_aborts(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines; many checkpoints that are aborted one after another for one reason are one line."""
    for reason, group in groupby(lines, lambda line: _reason_of_abort(line[1])):
        run = list(group)
        if not reason or len(run) < FEWEST_FOLDED:
            yield from run
            continue
        first, last = (line.split()[1] for _, line in (run[0], run[-1]))
        end = run[-1][0]
        yield run[0][0], f"{len(run)} checkpoints, {first} to {last}, are aborted until step {end}: {reason}"


def _reason_of_abort(line: str) -> str:
    """Return why a line says that a checkpoint is aborted; "": it says something else."""
    found = re.fullmatch(r"checkpoint \S+ is aborted: (.*)", line, re.DOTALL)
    return found[1] if found else ""


def _event_lines(
    history: History, marked: dict[str, set[tuple[Any, ...]]], named: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield (step, text) of each event; "" for events that the story leaves out.

    Of consecutive checkpoints with the same cut, only the first is shown.
    """
    covered = None
    is_program = any(
        kind == ATTEMPT_STARTED and "outside" in payload for _, kind, _, payload in history.events
    )
    for event in history.events:
        text = (_ENDS_OF_PROGRAMS.get(event[1]) if is_program else None) or _event_text(event, marked)
        if not text and event[1] == TRANSACTION_VISIBLE and event[2] in named:
            text = f"transaction {event[2]} becomes visible, without any rows"
        if event[1] == CHECKPOINT_COMPLETED:
            if event[3]["cut"] == covered:
                continue
            covered = event[3]["cut"]
        elif text:
            covered = None
        yield event[0], text


def _stray_messages(trace: dict[str, Any], facts: Facts) -> Iterator[tuple[int, str]]:
    """Yield the messages that were lost, or that arrived in a later attempt than they were sent in."""
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


def _event_text(event: Event, marked: dict[str, set[tuple[Any, ...]]]) -> str:
    """Return the text of an event, or "" if the story leaves it out."""
    _, kind, subject, payload = event
    if kind == ATTEMPT_STARTED and "outside" in payload:
        again = "" if subject == "1" else " again"
        return f"the program starts{again} (attempt {subject}), parallelism {payload['parallelism']}"
    if kind == ATTEMPT_STARTED:
        restored = payload["restored"]
        origin = "from the beginning" if restored is None else f"from checkpoint {restored}"
        return f"attempt {subject} starts {origin}, parallelism {payload['parallelism']}"
    if kind == FAULT_FIRED:
        return fault_story(StruckFault.of(event))
    if kind == CHECKPOINT_COMPLETED:
        cut = ", ".join(f"{split} {offset}" for split, offset in payload["cut"].items())
        return f"checkpoint {subject} is complete; it covers {cut or 'no input'}"
    if kind == CHECKPOINT_ABORTED:
        return f"checkpoint {subject} is aborted: {reason_text(payload['reason'])}"
    if kind == TRANSACTION_VISIBLE:
        # An empty transaction changes no output.
        return (
            f"transaction {subject} becomes visible: {_rows(payload['rows'], marked)}"
            if payload["rows"]
            else ""
        )
    if kind == ROWS_WRITTEN:
        return f"{subject} writes by key: {_rows(payload['rows'], marked)}"
    if kind == ROWS_FOUND:
        return f"the harness finds new rows ({subject}): {_rows(payload['rows'], marked)}"
    if kind == ROWS_GONE:
        return f"the harness does not find these rows any more ({subject}): {_rows(payload['rows'], marked)}"
    if kind == TRANSACTION_HIDDEN:
        return f"the rows of transaction {subject} are no longer visible"
    if kind == COMMIT_FAILED:
        return f"the commit of transaction {subject} returns an error"
    if kind == ERROR:
        return f"{subject} raises {payload['type']} in {payload['function']}: {payload['text']}"
    if kind == LEAK:
        return f"left behind: {subject} {payload['name']}"
    if kind == JOB_STOPPED and "outside" in payload:
        return "the program was asked to end, and ended"
    if kind == JOB_RESCALED:
        return rescale_story(payload["parallelism"])
    if kind == JOB_UPGRADED:
        return "the new version of the job begins from the state of the old one"
    return {
        JOB_FINISHED: "the job finishes",
        JOB_FAILED: f"the job fails: {payload.get('cause', '')}",
        BUDGET_EXHAUSTED: "the step budget of the scenario is used up",
    }.get(kind, "")


def _rows(rows: list[Any], marked: dict[str, set[tuple[Any, ...]]]) -> str:
    """Return up to MOST_ROWS rows as text, the marked ones first, each with its anomaly."""
    texts = []
    for row in sorted(rows, key=lambda row: not any(tuple(row) in of for of in marked.values())):
        anomalies = [anomaly for anomaly, of in marked.items() if tuple(row) in of]
        texts.append(row_text(row) + (f" [{anomalies[0]}]" if anomalies else ""))
    rest = len(texts) - MOST_ROWS
    return ", ".join(texts[:MOST_ROWS]) + (f" and {rest} more" if rest > 0 else "")


def _shortened(lines: list[str]) -> list[str]:
    """Return the story, without its middle if it has more than LONGEST_STORY lines."""
    if len(lines) <= LONGEST_STORY:
        return lines
    half = LONGEST_STORY // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"... {left_out} events later", *lines[-half:]]
