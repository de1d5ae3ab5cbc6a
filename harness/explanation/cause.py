"""Why a run failed, as far as it can be told from outside.

The rules this module lives by:

- The cause names what went before the first wrong output: the fault, the checkpoint, the attempt, and which
  step did not do its part.
- Causes are tried from the most telling to the least. Each rests on facts in the history alone; where none
  fits, the last faults are named and nothing is claimed.
- Never more certain than the facts: what a snapshot holds cannot be seen from outside, so a wrong restore is
  told as what its output shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from onceproof.harness.checkers import Violation, consistent_cut, exactly_once, fencing
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.explanation.facts import Checkpoint, Facts, Visible
from onceproof.harness.explanation.sentences import fault_story, row_text

Violations: TypeAlias = Sequence[Violation]


def cause_of(facts: Facts, violations: Violations, step: int) -> str:
    """Return why the run failed, from what happened until the step at which it can be seen."""
    for explanation in _FROM_THE_MOST_TELLING:
        told = explanation(facts, violations)
        if told:
            return told
    faults = facts.faults_before(step)
    if not faults:
        return "No fault had struck: the order of steps alone led to this."
    last = "; ".join(f"at step {fault.step} {fault_story(fault)}" for fault in faults[-2:])
    return f"Before that, {last}."


def _with_anomaly(violations: Violations, property_name: str, anomaly: str) -> Violation | None:
    matching = (each for each in violations if (each.property, each.anomaly) == (property_name, anomaly))
    return next(matching, None)


def _commit_before_completion(facts: Facts, violations: Violations) -> str:
    early = _with_anomaly(violations, ConsistentCut.property, consistent_cut.EARLY_COMMIT)
    if early is None:
        return ""
    name, step = early.witness["transaction"], early.witness["step"]
    listing = facts.first_listing(name)
    later = f"; checkpoint {listing.number} did at step {listing.step}" if listing else ", nor did any later"
    return f"Transaction {name} was committed at step {step}, when no completed checkpoint listed it{later}."


def _foreign_snapshot(facts: Facts, violations: Violations) -> str:
    found = _with_anomaly(violations, Fencing.property, fencing.FOREIGN_SNAPSHOT)
    if found is None:
        return ""
    step = found.witness["step"]
    number = next(checkpoint.number for checkpoint in facts.checkpoints if checkpoint.step == step)
    return (
        f"Checkpoint {number} took an acknowledgement that attempt {', '.join(found.witness['writers'])} had"
        f" sent for one of attempt {found.witness['attempt']}: its parts are cuts at different moments."
    )


def _never_committed(facts: Facts, violations: Violations) -> str:
    """A listed transaction was dropped; told only where the output shows it."""
    if not any(_shows_loss(violation) for violation in violations):
        return ""
    for name, checkpoint in facts.never_visible():
        restores = [attempt for attempt in facts.attempts if attempt.restored == checkpoint.number]
        if restores:
            restore = restores[0]
            return (
                f"Transaction {name} was pre-committed and listed by checkpoint {checkpoint.number}, complete"
                f" at step {checkpoint.step}; attempt {restore.name}, restored from it at step"
                f" {restore.step}, did not commit it, nor did anyone else."
            )
        return (
            f"Transaction {name} was pre-committed and listed by checkpoint {checkpoint.number}, complete at"
            f" step {checkpoint.step}, and never committed."
        )
    return ""


def _shows_loss(violation: Violation) -> bool:
    if violation.property == ExactlyOnce.property:
        return violation.anomaly in (exactly_once.LOST, exactly_once.WRONG_VALUE)
    return violation.anomaly == consistent_cut.SKIPPED_COMMIT


def _committed_twice(facts: Facts, violations: Violations) -> str:
    """Whoever has committed it died before that was known, and the next one did not look."""
    found = _with_anomaly(violations, Fencing.property, fencing.VISIBLE_TWICE)
    if found is None:
        return ""
    name, step = found.witness["transaction"], found.witness["step"]
    before = next(each.step for each in facts.visible if each.name == name)
    attempt = facts.running_at(step)
    faults = [fault for fault in facts.faults if before <= fault.step < step]
    if attempt is None or not faults or not before < attempt.step < step:
        return ""
    origin = "anew" if attempt.restored is None else f"from checkpoint {attempt.restored}"
    return (
        f"Transaction {name} was visible at step {before}. At step {faults[-1].step}"
        f" {fault_story(faults[-1])}; attempt {attempt.name}, which began {origin} at step {attempt.step},"
        f" committed it once more at step {step}, as if that had not been done."
    )


def _after_restore(facts: Facts, violations: Violations) -> str:
    """The first wrong output is that of a restored attempt; what came before was right."""
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
        f" {_of_covered_input(facts, violations, restored)}"
    )


def _of_covered_input(facts: Facts, violations: Violations, restored: Checkpoint) -> str:
    duplicate = _with_anomaly(violations, ExactlyOnce.property, exactly_once.DUPLICATED)
    if duplicate is not None:
        lost = _with_anomaly(violations, ExactlyOnce.property, exactly_once.LOST)
        keys = {tuple(shown["row"][:-1]) for shown in duplicate.witness["rows"]}
        anew = (
            []
            if lost is None
            else [row["row"] for row in lost.witness["rows"] if tuple(row["row"][:-1]) in keys]
        )
        if anew:
            return (
                f"For {', '.join(map(str, anew[0][:-1]))} it began anew: what checkpoint {restored.number}"
                " holds of it did not come back."
            )
        first = facts.holding(duplicate.witness["rows"][0]["row"])[0]
        listing = facts.first_listing(first.name)
        if listing is not None and listing.number <= restored.number:
            row = row_text(duplicate.witness["rows"][0]["row"])
            return (
                f"Row {row} had been part of checkpoint {listing.number} already: input that the checkpoint"
                " covers was applied again, or output of it written again."
            )
    position = ", ".join(f"{split} at {offset}" for split, offset in restored.cut.items())
    return f"What was restored is not the state of that checkpoint's cut ({position})."


def _with_rescale(facts: Facts, name: str) -> str:
    index = next(place for place, attempt in enumerate(facts.attempts) if attempt.name == name)
    if not index:
        return ""
    before, after = facts.attempts[index - 1].parallelism, facts.attempts[index].parallelism
    return "" if before == after else f", from parallelism {before} to {after}"


def _cut(facts: Facts, violations: Violations) -> str:
    """Rows and offsets of one checkpoint disagree although nothing was restored."""
    violation = _first_wrong_cut(violations)
    if violation is None:
        return ""
    witness = violation.witness
    number = witness["checkpoint"]
    if witness["not of the cut"] and not witness["missing"]:
        return (
            f"Records behind the barrier of checkpoint {number} were processed before it, so their rows"
            " belong to a checkpoint whose offsets do not cover them."
        )
    if witness["missing"] and not witness["not of the cut"]:
        return f"Records before the barrier of checkpoint {number} have no rows in its transactions."
    return f"The rows in the transactions of checkpoint {number} are those of other records than its offsets."


def _first_wrong_cut(violations: Violations) -> Violation | None:
    return _with_anomaly(violations, ConsistentCut.property, consistent_cut.WRONG_CUT)


def first_wrong_transaction(facts: Facts, violations: Violations) -> Visible | None:
    """Return the first transaction that holds a row which should not be there, or not once more."""
    wrong: list[Visible] = []
    for violation in violations:
        if violation.property == ExactlyOnce.property and violation.anomaly != exactly_once.LOST:
            for shown in violation.witness["rows"]:
                # Of a duplicate the first occurrence is right, as often as the row should be there.
                wrong += facts.holding(shown["row"])[shown["expected"] :]
    return min(wrong, key=lambda transaction: transaction.step, default=None)


_FROM_THE_MOST_TELLING: Final = (
    _commit_before_completion,
    _foreign_snapshot,
    _never_committed,
    _committed_twice,
    _after_restore,
    _cut,
)
