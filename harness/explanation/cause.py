"""What preceded a failure, as far as visible events show it.

Rules:

- The text names what preceded the first wrong output: the fault, the checkpoint, the attempt, and the step of
  the protocol that was missed. The most specific text that fits is taken; if none fits, it names the last
  faults.
- The text claims no more than the history shows, and accuses neither the engine nor the job: that takes a
  counterfactual run (`trials/counterfactuals.py`). The content of a snapshot is not visible, so a wrong
  restore is described by the output that follows it.
- A confirmed cause is asserted only if the job passes with that one thing different: the failing scenario,
  the scenario that it was shrunk from, and others of the family.
- It is a value: equal causes are one finding, in whichever scenarios they show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import PurePath
from typing import Final, TypeAlias

from onceproof.harness.checkers import Violation, consistent_cut, exactly_once, fencing
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.explanation.facts import Checkpoint, Facts, Visible
from onceproof.harness.explanation.sentences import fault_story, rescale_story, row_text


@dataclass(frozen=True, slots=True)
class ConfirmedCause:
    """What is wrong in a job, at which line, and the counterfactual without which it would be a guess."""

    operator: str
    """The operator or the function of it; empty where the line belongs to the job as a whole."""
    what: str
    """What is wrong: `self.seen` of Dedup is kept outside Flink state."""
    file: str
    line: int
    counterfactual: str
    """What was different in the runs that passed: with `self.seen` carried over from the checkpoint."""

    @property
    def place(self) -> str:
        """The line as an editor finds it, without the folder."""
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def sentence(self) -> str:
        """Return the cause in two sentences."""
        where = f" in {self.operator}" if self.operator else ""
        counterfactual = f"{self.counterfactual[:1].upper()}{self.counterfactual[1:]}"
        return f"{self.place}{where}: {self.what}. {counterfactual}, every property holds."


MOST_NAMED: Final = 3
"""How many faults a cause names, the last ones."""
Violations: TypeAlias = Sequence[Violation]


def cause_of(facts: Facts, violations: Violations, step: int) -> str:
    """Return the cause of a failure as one or two sentences.

    Args:
        facts: the facts of the failed run.
        violations: all violations of the run.
        step: the first step at which the failure shows.
    """
    text = specific_cause_of(facts, violations)
    if text:
        return text
    faults = [(fault.step, fault_story(fault)) for fault in facts.faults_before(step)]
    rescales = [(at, rescale_story(parallelism)) for at, parallelism in facts.rescales if at <= step]
    before = sorted([*faults, *rescales], key=itemgetter(0))
    if not before:
        return "No fault had fired before."
    last = "; ".join(f"at step {at} {what}" for at, what in before[-2:])
    return f"Before that, {last}."


def specific_cause_of(facts: Facts, violations: Violations) -> str:
    """Return the cause of a failure as the output shows it; "" where it shows none."""
    for explain_by in _EXPLANATIONS_BY_SPECIFICITY:
        text = explain_by(facts, violations)
        if text:
            return text
    return ""


def _with_anomaly(violations: Violations, property_name: str, anomaly: str) -> Violation | None:
    matching = (each for each in violations if (each.property, each.anomaly) == (property_name, anomaly))
    return next(matching, None)


def _commit_before_completion(facts: Facts, violations: Violations) -> str:
    early = _with_anomaly(violations, ConsistentCut.property, consistent_cut.EARLY_COMMIT)
    if early is None:
        return ""
    name, step = early.witness["transaction"], early.witness["step"]
    listing = facts.first_listing(name)
    later = (
        f"; checkpoint {listing.number}, which completed at step {listing.step}, is the first to list it"
        if listing
        else ", and no later checkpoint lists it"
    )
    said = [rescale_story(parallelism) for at, parallelism in facts.rescales if at == step]
    rescaled = f" In that step {said[0]}." if said else ""
    return (
        f"Transaction {name} was committed at step {step}, when no completed checkpoint listed it{later}."
        f"{rescaled}"
    )


def _foreign_snapshot(facts: Facts, violations: Violations) -> str:
    found = _with_anomaly(violations, Fencing.property, fencing.FOREIGN_SNAPSHOT)
    if found is None:
        return ""
    step = found.witness["step"]
    number = next(checkpoint.number for checkpoint in facts.checkpoints if checkpoint.step == step)
    return (
        f"Checkpoint {number} of attempt {found.witness['attempt']} accepted an acknowledgement that attempt"
        f" {', '.join(found.witness['writers'])} had sent: its snapshots belong to different cuts."
    )


def _never_committed(facts: Facts, violations: Violations) -> str:
    """Explain a listed transaction that was never committed, if the output shows the loss."""
    if not any(_shows_loss(violation) for violation in violations):
        return ""
    for name, checkpoint in facts.never_visible():
        restores = [attempt for attempt in facts.attempts if attempt.restored == checkpoint.number]
        if restores:
            restore = restores[0]
            return (
                f"Transaction {name} was pre-committed and listed by checkpoint {checkpoint.number}, which"
                f" completed at step {checkpoint.step}. Attempt {restore.name}, restored from that checkpoint"
                f" at step {restore.step}, did not commit it, and no later attempt did."
            )
        return (
            f"Transaction {name} was pre-committed and listed by checkpoint {checkpoint.number}, which"
            f" completed at step {checkpoint.step}, but it was never committed."
        )
    return ""


def _shows_loss(violation: Violation) -> bool:
    if violation.property == ExactlyOnce.property:
        return violation.anomaly in (exactly_once.LOST, exactly_once.WRONG_VALUE)
    return violation.anomaly == consistent_cut.SKIPPED_COMMIT


def _committed_twice(facts: Facts, violations: Violations) -> str:
    """Explain a commit that was repeated after a failure, because its success was not recorded."""
    found = _with_anomaly(violations, Fencing.property, fencing.VISIBLE_TWICE)
    if found is None:
        return ""
    name, step = found.witness["transaction"], found.witness["step"]
    before = next(each.step for each in facts.visible if each.name == name)
    attempt = facts.running_at(step)
    faults = [fault for fault in facts.faults if before <= fault.step < step]
    if attempt is None or not faults or not before < attempt.step < step:
        return ""
    origin = "without a checkpoint" if attempt.restored is None else f"from checkpoint {attempt.restored}"
    return (
        f"Transaction {name} became visible at step {before}. At step {faults[-1].step}"
        f" {fault_story(faults[-1])}. Attempt {attempt.name}, which started {origin} at step {attempt.step},"
        f" committed the transaction again at step {step}."
    )


def _written_again(facts: Facts, violations: Violations) -> str:
    """Explain rows of a program that a later start of it wrote again, of which nothing more is known."""
    duplicate = _with_anomaly(violations, ExactlyOnce.property, exactly_once.DUPLICATED)
    if duplicate is None:
        return ""
    row = duplicate.witness["rows"][0]["row"]
    looks = [each for each in facts.holding(row) if not each.is_transaction]
    for first, again in pairwise(looks):
        ends = [
            *((fault.step, fault_story(fault)) for fault in facts.faults),
            *((step, "the program was asked to end, and ended") for step in facts.stops),
        ]
        between = [(step, text) for step, text in ends if first.step <= step < again.step]
        if first.attempt != again.attempt and between:
            return (
                f"Row {row_text(row)} of start {first.attempt} was there at step {first.step}."
                f" {_in_order(between)} Start {again.attempt} wrote it again."
            )
    return ""


def _in_order(happened: Sequence[tuple[int, str]]) -> str:
    """Return what happened at some steps as a sentence, or "": a program's own faults and those of servers.

    Which of them matters the events do not show, so none is left out but the first of many.
    """
    last = sorted(happened)[-MOST_NAMED:]
    return " ".join([f"At step {step} {text}." for step, text in last])


def _vanished(facts: Facts, violations: Violations) -> str:
    """Explain rows of a program that a reader had seen and that are gone."""
    hidden = _with_anomaly(violations, Fencing.property, fencing.HIDDEN)
    if hidden is None or "rows" not in hidden.witness:
        return ""
    row, step = hidden.witness["rows"][0], hidden.witness["step"]
    looks = [each for each in facts.holding(row) if each.step < step]
    attempt = facts.running_at(step)
    if not looks or attempt is None:
        return ""
    text = f"Row {row_text(row)} of start {looks[-1].attempt} was there at step {looks[-1].step}."
    struck = [
        (fault.step, fault_story(fault)) for fault in facts.faults if looks[-1].step <= fault.step < step
    ]
    if any(fault.server for fault in facts.faults if looks[-1].step <= fault.step < step):
        return f"{text} {_in_order(struck)} At step {step} it was gone, while start {attempt.name} ran."
    if attempt.name == looks[-1].attempt:
        return f"{text} The same start took it away again."
    return f"{text} Start {attempt.name} took it away."


def _not_written(facts: Facts, violations: Violations) -> str:
    """Explain rows that a program lost after faults around it, of which nothing more is known."""
    lost = _with_anomaly(violations, ExactlyOnce.property, exactly_once.LOST)
    struck = [(fault.step, fault_story(fault)) for fault in facts.faults if fault.outside]
    if lost is None or not struck:
        return ""
    row = row_text(lost.witness["rows"][0]["row"])
    return f"Row {row} never came. {_in_order(struck)}"


def _after_restore(facts: Facts, violations: Violations) -> str:
    """Explain a failure whose first wrong output comes from a restored attempt."""
    wrong = first_wrong_transaction(facts, violations)
    if wrong is None:
        return ""
    attempt = facts.attempt(wrong.attempt)
    restored = None if attempt is None else facts.checkpoint(attempt.restored)
    if attempt is None or restored is None:
        return ""
    cut = _first_wrong_cut(violations)
    if cut is not None and cut.witness["step"] < attempt.step:
        return ""
    return (
        f"Attempt {attempt.name} was restored from checkpoint {restored.number} at step {attempt.step}"
        f"{_with_rescale(facts, attempt.name)}; its transaction {wrong.name} is the first with wrong rows."
        f" {_restored_state_text(facts, violations, restored)}"
    )


def _restored_state_text(facts: Facts, violations: Violations, restored: Checkpoint) -> str:
    """Return how the wrong rows depart from the restored checkpoint."""
    duplicate = _with_anomaly(violations, ExactlyOnce.property, exactly_once.DUPLICATED)
    if duplicate is not None:
        lost = _with_anomaly(violations, ExactlyOnce.property, exactly_once.LOST)
        keys = {tuple(shown["row"][:-1]) for shown in duplicate.witness["rows"]}
        restarted = (
            []
            if lost is None
            else [row["row"] for row in lost.witness["rows"] if tuple(row["row"][:-1]) in keys]
        )
        if restarted:
            return (
                f"The rows of key {', '.join(map(str, restarted[0][:-1]))} begin again, as from empty state."
            )
        first = facts.holding(duplicate.witness["rows"][0]["row"])[0]
        listing = facts.first_listing(first.name)
        if listing is not None and listing.number <= restored.number:
            row = row_text(duplicate.witness["rows"][0]["row"])
            return f"Row {row} was already part of checkpoint {listing.number}."
    position = ", ".join(f"{split} at {offset}" for split, offset in restored.cut.items())
    return f"Its rows do not continue what the input before that checkpoint's cut gives ({position})."


def _with_rescale(facts: Facts, name: str) -> str:
    index = next(place for place, attempt in enumerate(facts.attempts) if attempt.name == name)
    if not index:
        return ""
    before, after = facts.attempts[index - 1].parallelism, facts.attempts[index].parallelism
    return "" if before == after else f", from parallelism {before} to {after}"


def _cut(facts: Facts, violations: Violations) -> str:
    """Explain a checkpoint whose rows and offsets disagree without a restore before it."""
    violation = _first_wrong_cut(violations)
    if violation is None:
        return ""
    witness = violation.witness
    number = witness["checkpoint"]
    if witness["not of the cut"] and not witness["missing"]:
        return f"The transactions of checkpoint {number} hold rows that do not follow from its offsets."
    if witness["missing"] and not witness["not of the cut"]:
        return f"The transactions of checkpoint {number} lack rows that follow from its offsets."
    return f"The rows in the transactions of checkpoint {number} do not match the checkpoint's offsets."


def _first_wrong_cut(violations: Violations) -> Violation | None:
    return _with_anomaly(violations, ConsistentCut.property, consistent_cut.WRONG_CUT)


def first_wrong_transaction(facts: Facts, violations: Violations) -> Visible | None:
    """Return the first visible transaction with an unexpected or duplicated row; None if there is none."""
    wrong: list[Visible] = []
    for violation in violations:
        if violation.property == ExactlyOnce.property and violation.anomaly != exactly_once.LOST:
            for shown in violation.witness["rows"]:
                # Of a duplicated row, the first occurrences are correct, up to the expected count.
                wrong += facts.holding(shown["row"])[shown["expected"] :]
    return min(wrong, key=lambda transaction: transaction.step, default=None)


_EXPLANATIONS_BY_SPECIFICITY: Final = (
    _commit_before_completion,
    _foreign_snapshot,
    _never_committed,
    _committed_twice,
    _written_again,
    _vanished,
    _not_written,
    _after_restore,
    _cut,
)
