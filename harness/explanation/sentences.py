"""What is wrong with a run, in a sentence: what a user of its output sees, with one witness.

The rules this module lives by:

- One sentence for each anomaly of each checker, in words that need no knowledge of the harness. An anomaly
  without one is named as it is: a new checker works before somebody has found words for it.
- One row or one transaction stands for all; how many there are is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.harness.checkers import (
    Violation,
    consistent_cut,
    determinism,
    exactly_once,
    fencing,
    liveness,
    no_error,
    restore_anywhere,
    state_equivalence,
)
from onceproof.harness.checkers import (
    table_reads as tables,
)
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.no_leaks import NoLeaks
from onceproof.harness.explanation.facts import StruckFault
from onceproof.harness.model.faults import row_of


def row_text(row: Sequence[Any]) -> str:
    """Return a row as in "(bee, 2)"."""
    return f"({', '.join(map(str, row))})"


def fault_story(fault: StruckFault) -> str:
    """Return what a fault did, where: "count-1 was killed at the point committing"."""
    row = row_of(fault.kind)
    done = fault.kind if row is None else row.sentence.format(task=fault.task)
    return f"{done} at the point {fault.point.replace('_', ' ')} of {fault.task}"


def sentence_of(violation: Violation) -> str:
    """Return what is wrong with the output, in a sentence."""
    witness = violation.witness
    if violation.property == ExactlyOnce.property:
        return _wrong_rows(violation.anomaly, witness)
    if "exception" in witness:
        text = f": {witness['text']}" if witness["text"] else ""
        where = violation.where.split(", step")[0]
        return (
            f"{where} raised {witness['exception']} in {witness['function']} at step {witness['step']}{text}."
        )
    if violation.property == Liveness.property:
        return _no_end(violation.anomaly, witness)
    if violation.property == NoLeaks.property:
        more = "" if witness["count"] == 1 else f", and {witness['count'] - 1} more of the kind"
        return f"When the job was done, {violation.anomaly} {witness['names'][0]} was left behind{more}."
    if violation.property == restore_anywhere.PROPERTY:
        return _restored(violation.anomaly, witness)
    if violation.property == state_equivalence.PROPERTY:
        return _other_state(violation.where, witness)
    told = _TOLD.get((violation.property, violation.anomaly))
    if told is not None:
        return told(witness)
    return f"{violation.property.replace('_', ' ')}: {violation.anomaly}, {violation.where}."


def _wrong_rows(anomaly: str, witness: dict[str, Any]) -> str:
    first, count = witness["rows"][0], witness["count"]
    row = row_text(first["row"])
    more = "" if count == 1 else f" {count} rows are affected in all."
    names = " and ".join(dict.fromkeys(first["transactions"]))
    if anomaly == exactly_once.LOST:
        there = f"is there {_times(first['visible'])} and" if first["visible"] else "never became visible; it"
        return f"Row {row} {there} should be there {_times(first['expected'])}.{more}"
    if anomaly == exactly_once.DUPLICATED:
        there, right = _times(first["visible"]), _times(first["expected"])
        return f"Row {row} is there {there} instead of {right}, by {names}.{more}"
    if anomaly == exactly_once.WRONG_VALUE:
        return f"Row {row}, committed by {names}, stands in the place of another one that is missing.{more}"
    return f"Row {row}, committed by {names}, follows from nothing in the input.{more}"


def _restored(anomaly: str, witness: dict[str, Any]) -> str:
    origin = f"from checkpoint {witness['checkpoint']} at parallelism {witness['parallelism']}"
    if anomaly == restore_anywhere.REFUSED:
        text = f": {witness['text']}" if witness["text"] else ""
        return f"A job that goes on {origin} ends with {witness['raised']} in {witness['task']}{text}."
    if anomaly == restore_anywhere.NOT_FINISHED:
        return f"A job that goes on {origin} does not come to its end."
    if anomaly in exactly_once.ANOMALIES:
        return f"If a job goes on {origin}: {_wrong_rows(anomaly, witness)}"
    return f"If a job goes on {origin}: {anomaly}, row {row_text(witness['rows'][0]['row'])}."


def _other_state(where: str, witness: dict[str, Any]) -> str:
    places = witness["places"]
    place = places[0]
    held = [
        f"{name} {', '.join(place[entries])}"
        for name, entries in (("too much", "surplus"), ("not", "missing"))
        if place[entries]
    ]
    group = f" in key group {place['key group']}" if place["key group"] >= 0 else ""
    more = "" if len(places) == 1 else f" {len(places)} places differ in all."
    return (
        f"{where.capitalize()} is not what an undisturbed run holds at the same cut: of {place['operator']},"
        f" state {place['state']}{group}, it holds {' and '.join(held)}.{more}"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _no_end(anomaly: str, witness: dict[str, Any]) -> str:
    if anomaly == liveness.JOB_GAVE_UP:
        return f"The job gave up at step {witness['step']}: {witness['cause']}."
    if anomaly == liveness.STUCK:
        last = witness.get("last checkpoint")
        if last is None:
            return f"The job was not done after {witness['step']} steps, and no checkpoint ever completed."
        progress = f"its last checkpoint, {last['which']}, completed at step {last['step']}"
        return f"The job was not done after {witness['step']} steps; {progress}."
    return f"The run ended at step {witness['step']} before the job was done."


_TOLD: Final[dict[tuple[str, str], Callable[[dict[str, Any]], str]]] = {
    (ConsistentCut.property, consistent_cut.EARLY_COMMIT): lambda w: (
        f"Transaction {w['transaction']} became visible at step {w['step']}, although no completed checkpoint"
        " lists it: a crash at this moment would show its rows twice."
    ),
    (ConsistentCut.property, consistent_cut.OUT_OF_ORDER): lambda w: (
        f"Transaction {w['transaction']} became visible at step {w['step']}, after a later one of the same"
        " sink subtask."
    ),
    (ConsistentCut.property, consistent_cut.SKIPPED_COMMIT): lambda w: (
        f"Attempt {w['attempt']} committed its own output at step {w['step']}, while"
        f" {w['transactions not visible']} of the transactions of checkpoint {w['restored']}, which it was"
        " restored from, were not visible."
    ),
    (ConsistentCut.property, consistent_cut.STALE_RESTORE): lambda w: (
        f"Attempt {w['attempt']} was restored from {_checkpoint(w['restored'])}, although"
        f" {_checkpoint(w['latest'])} had completed."
    ),
    (ConsistentCut.property, consistent_cut.WRONG_CUT): lambda w: (
        f"With everything committed that checkpoint {w['checkpoint']} lists, the rows are not those of the"
        f" input before it: {_difference(w)}."
    ),
    (ConsistentCut.property, tables.UNKNOWN_VERSION): lambda w: (
        f"Row {row_text(w['rows'][0])}, written by key at step {w['step']}, follows from nothing in the"
        " input."
    ),
    (ConsistentCut.property, tables.BEHIND_THE_CUT): lambda w: (
        f"At step {w['step']} the table does not show row {row_text(w['rows'][0])} or a later one of its key,"
        " although a complete checkpoint covers the input that gives it."
    ),
    (Fencing.property, fencing.ZOMBIE_WRITE): lambda w: (
        f"Attempt {w['attempt']} wrote by key at step {w['step']}, when attempt {w['running']} ran."
    ),
    (Fencing.property, fencing.ZOMBIE_COMMIT): lambda w: (
        f"Output of attempt {w['attempt']} became visible at step {w['step']}, when attempt {w['running']}"
        " ran, which knows nothing of it."
    ),
    (Fencing.property, fencing.ZOMBIE_CHECKPOINT): lambda w: (
        f"A checkpoint of attempt {w['attempt']} completed at step {w['step']}, when attempt {w['running']}"
        " ran."
    ),
    (NoError.property, no_error.FAILURE_WITHOUT_FAULT): lambda w: (
        f"{w['task']} failed at step {w['step']} in an attempt in which no fault had struck: {w['cause']}."
    ),
    (NoError.property, no_error.RESTART_WITHOUT_FAULT): lambda w: (
        f"Attempt {w['attempt']} started at step {w['step']}: restart number {w['restarts']}, when only"
        f" {w['faults']} faults had struck."
    ),
    (Fencing.property, fencing.VISIBLE_TWICE): lambda w: (
        f"Transaction {w['transaction']} became visible a second time at step {w['step']}."
    ),
    (Fencing.property, fencing.HIDDEN): lambda w: (
        f"Rows of transaction {w['transaction']} could be read and are gone since step {w['step']}."
    ),
    (determinism.PROPERTY, determinism.TRACE_DIFFERS): lambda w: (
        "Two runs of the same scenario differ, so it cannot be replayed."
    ),
    (Fencing.property, fencing.FOREIGN_SNAPSHOT): lambda w: (
        f"A checkpoint of attempt {w['attempt']} completed at step {w['step']} with a snapshot that attempt"
        f" {', '.join(w['writers'])} had written."
    ),
}


def _checkpoint(number: int | None) -> str:
    return "nothing" if number is None else f"checkpoint {number}"


def _difference(witness: dict[str, Any]) -> str:
    parts = [
        f"{', '.join(map(row_text, witness[key]))} {verb}"
        for key, verb in (("missing", "missing"), ("not of the cut", "too many"))
        if witness[key]
    ]
    return ", ".join(parts)
