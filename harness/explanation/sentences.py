"""One sentence for each violation: what a user of the output sees, with one witness.

The rules this module lives by:

- Each anomaly of each checker has a sentence that needs no knowledge of the harness. An anomaly without an
  entry in _SENTENCES is shown by its name, so a new checker works at once.
- The sentence shows one row or transaction, and says how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onceproof.harness.checkers import (
    Violation,
    completeness,
    conformance,
    consistent_cut,
    determinism,
    exactly_once,
    fencing,
    liveness,
    mode,
    no_error,
    restore_anywhere,
    state_equivalence,
    timeliness,
)
from onceproof.harness.checkers import (
    table_reads as tables,
)
from onceproof.harness.checkers.completeness import Completeness
from onceproof.harness.checkers.conformance import Conformance
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.no_leaks import NoLeaks
from onceproof.harness.checkers.row_order import OUT_OF_ORDER
from onceproof.harness.checkers.timeliness import Timeliness
from onceproof.harness.checkers.tolerance import NEAR_MISS
from onceproof.harness.explanation.facts import StruckFault
from onceproof.harness.model.close_rows import ROUNDING
from onceproof.harness.model.faults import row_of
from onceproof.harness.model.history import LOOK
from onceproof.harness.model.program_ends import BYTES_MARK, COMMITTING_MARK, OPEN_MARK, PREPARED_MARK
from onceproof.harness.model.program_file import READ_POINT, SEEN_POINT, STARTED_POINT
from onceproof.harness.model.scenario import ANY_TASK
from onceproof.reports.text import counted


def row_text(row: Sequence[Any]) -> str:
    """Return a row as text, as in "(bee, 2)"."""
    return f"({', '.join(map(str, row))})"


_SEEN_FROM_OUTSIDE: Final[Mapping[str, str]] = {
    READ_POINT: "after it was given a record",
    SEEN_POINT: "after it had shown a row",
    STARTED_POINT: "after it had started",
    BYTES_MARK: "after it had written some bytes",
    OPEN_MARK: "while a transaction of it was open",
    COMMITTING_MARK: "while a transaction of it was being committed",
    PREPARED_MARK: "while a transaction of it was prepared and not committed",
}


def fault_story(fault: StruckFault) -> str:
    """Return what a fault did, where: "count-1 was killed at the point committing".

    It says what was struck: of a program all of it, a part, or one of its servers.
    """
    row = row_of(fault.kind)
    is_any = fault.task == ANY_TASK
    server = f"the server {fault.server}" if fault.server else "the server"
    done = fault.kind
    if row is not None:
        done = row.sentence.format(task="a task" if is_any else fault.task, server=server, name=fault.task)
    if fault.outside:
        if row is not None and row.strikes in ("tasks", "process", "pause"):
            struck = "the program" if is_any else f"the part {fault.task} of the program"
            done = f"{struck} was {'paused' if row.strikes == 'pause' else 'killed'}"
        when = _SEEN_FROM_OUTSIDE.get(fault.point, f"after it printed the mark of {fault.point}")
        return (
            f"{done} {when if done.startswith('the program was') else when.replace(' it ', ' the program ')}"
        )
    return f"{done} at the point {fault.point.replace('_', ' ')}" + ("" if is_any else f" of {fault.task}")


def rescale_story(parallelism: int) -> str:
    """Return what a user did who rescaled a running job."""
    return f"the user rescaled the running job to parallelism {parallelism}, and its tasks were cancelled"


def sentence_of(violation: Violation) -> str:
    """Return what is wrong with the output or the job, in one sentence."""
    witness = violation.witness
    if violation.anomaly == exactly_once.ANSWERED_AGAIN:
        names = " and ".join(dict.fromkeys(witness["transactions"]))
        return (
            f"Attempt {witness['attempt']} gives {_times(witness['times'])} what it may answer once, at last"
            f" with row {row_text(witness['row'])}, committed by {names}; no restore explains it."
        )
    if violation.property in (ExactlyOnce.property, Mode.property):
        return _wrong_rows(violation.anomaly, witness)
    if "exception" in witness:
        text = f": {witness['text']}" if witness["text"] else ""
        where = violation.where.split(", step")[0]
        return (
            f"{where} raised {witness['exception']} in {witness['function']} at step {witness['step']}{text}."
        )
    if "during" in witness:
        operator = f", in {witness['operator']}" if "operator" in witness else ""
        inside = f"{operator}, in {', called by '.join(witness['stack'])}" if witness["stack"] else operator
        return f"The scenario gave no outcome: {violation.anomaly}, during {witness['during']}{inside}."
    if violation.property == Liveness.property:
        return _liveness_sentence(violation.anomaly, witness)
    if violation.property == NoLeaks.property:
        more = "" if witness["count"] == 1 else f", and {witness['count'] - 1} more of this kind"
        fate = "was gone" if violation.anomaly.startswith("deleted") else "was left behind"
        return f"After the job finished, {violation.anomaly} {witness['names'][0]} {fate}{more}."
    if violation.property == restore_anywhere.PROPERTY:
        return _restore_sentence(violation.anomaly, witness)
    if violation.property == state_equivalence.PROPERTY:
        return _state_sentence(violation.where, witness)
    sentence = _SENTENCES.get((violation.property, violation.anomaly))
    if sentence is not None:
        return sentence(witness)
    return f"{violation.property.replace('_', ' ')}: {violation.anomaly}, {violation.where}."


def _wrong_rows(anomaly: str, witness: dict[str, Any]) -> str:
    first, count = witness["rows"][0], witness["count"]
    row = row_text(first["row"])
    if anomaly == NEAR_MISS:
        return _near_miss(row, witness)
    if anomaly == OUT_OF_ORDER:
        second = witness["rows"][1]
        return (
            f"Row {row}, {_came_by(first['transactions'][0])}, appeared after row {row_text(second['row'])},"
            f" {_came_by(witness['first'])}, and must come before it; {counted(count, 'row')} out of order in"
            " all."
        )
    more = "" if count == 1 else f" {count} rows are affected in all."
    names = " and ".join(dict.fromkeys(first["transactions"]))
    if anomaly == exactly_once.LOST:
        expected = f"it is expected {_times(first['expected'])}"
        if first["visible"]:
            return f"Row {row} is visible only {_times(first['visible'])}; {expected}.{more}"
        return f"Row {row} never became visible; {expected}.{more}"
    if anomaly in (exactly_once.DUPLICATED, mode.REPEATED):
        visible, expected = _times(first["visible"]), _times(first["expected"])
        return f"Row {row} is visible {visible} instead of {expected}, {_came_by(names)}.{more}"
    if anomaly == exactly_once.WRONG_VALUE:
        return f"Row {row}, {_came_by(names)}, replaces an expected row that is missing.{more}"
    return f"Row {row}, {_came_by(names)}, does not follow from the input.{more}"


def _near_miss(row: str, witness: dict[str, Any]) -> str:
    """Return that a row differs by rounding only, with the remedy."""
    differences = witness["differences"]
    amounts = " and ".join(f"{amount:.2g} in {column}" for column, amount in differences.items())
    expected = row_text(witness["rows"][0]["expected_row"])
    remedy = ", ".join(f"{column} = {ROUNDING:.0e}".replace("e-0", "e-") for column in differences)
    rows = counted(witness["count"], "row")
    return (
        f"A near miss: row {row} is expected as {expected} and differs by {amounts} only; {rows} in all."
        f" If such rounding is right, declare tolerance = {{ {remedy} }}."
    )


def _came_by(names: str) -> str:
    """Return how a row came: by which transactions, or in which looks at an output without transactions."""
    return f"found by {names}" if names.startswith(LOOK) else f"committed by {names}"


def _restore_sentence(anomaly: str, witness: dict[str, Any]) -> str:
    if anomaly == restore_anywhere.DELETED:
        checkpoint_id, path = witness["checkpoint"], witness["path"]
        return f"Checkpoint {checkpoint_id} lost its file {path} while the job had to keep it."
    restored = f"Restored from checkpoint {witness['checkpoint']} with parallelism {witness['parallelism']}, "
    if anomaly == restore_anywhere.REFUSED:
        text = f": {witness['text']}" if witness["text"] else ""
        return f"{restored}the job failed with {witness['raised']} in {witness['task']}{text}."
    if anomaly == restore_anywhere.NOT_FINISHED:
        return f"{restored}the job does not finish."
    if anomaly in exactly_once.ANOMALIES:
        return f"{restored}the job ends with wrong rows. {_wrong_rows(anomaly, witness)}"
    row = row_text(witness["rows"][0]["row"])
    return f"{restored}the job ends with wrong rows: {anomaly}, row {row}."


def _state_sentence(where: str, witness: dict[str, Any]) -> str:
    if "path" in witness:
        return f"{where.capitalize()} cannot be read: {witness['path']}: {witness['what']}."
    places = witness["places"]
    place = places[0]
    differences = [
        f"{name} {', '.join(place[entries])}"
        for name, entries in (("an extra", "surplus"), ("no", "missing"))
        if place[entries]
    ]
    group = f" in key group {place['key group']}" if place["key group"] >= 0 else ""
    more = "" if len(places) == 1 else f" {len(places)} places differ in all."
    backend = witness.get("backend")
    other = f"the same run on the backend {backend}" if backend else "an undisturbed run at the same cut"
    return (
        f"{where.capitalize()} differs from {other}: state {place['state']} of"
        f" {place['operator']}{group} has {' and '.join(differences)}.{more}"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _liveness_sentence(anomaly: str, witness: dict[str, Any]) -> str:
    if anomaly == liveness.JOB_GAVE_UP:
        what = "program" if "outside" in witness else "job"
        return f"The {what} failed for good at step {witness['step']}: {witness['cause']}."
    if anomaly == liveness.STUCK and "outside" in witness:
        starts = witness["last attempt"]["which"]
        return f"The program had not come to its end when its time was up, in its start {starts}."
    if anomaly == liveness.STUCK:
        last = witness.get("last checkpoint")
        circle = witness.get(liveness.CIRCLE)
        waits = f" Tasks wait for each other: {'; '.join(circle)}." if circle else ""
        progress = ", and no checkpoint completed"
        if last is not None:
            progress = f"; its last checkpoint, {last['which']}, completed at step {last['step']}"
        return f"The job had not finished after {witness['step']} steps{progress}.{waits}"
    return f"The run ended at step {witness['step']} before the job had finished."


_SENTENCES: Final[dict[tuple[str, str], Callable[[dict[str, Any]], str]]] = {
    (ConsistentCut.property, consistent_cut.EARLY_COMMIT): lambda w: (
        f"Transaction {w['transaction']} became visible at step {w['step']}, although no completed checkpoint"
        " lists it: after a crash at this step its rows would become visible again."
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
    (ConsistentCut.property, consistent_cut.UNCOMMITTED_STOP): lambda w: (
        f"The job said at step {w['step']} that it had stopped, and {w['transactions not visible']} of the"
        f" transactions that checkpoints up to {w['checkpoint']} list were not visible."
    ),
    (ConsistentCut.property, consistent_cut.STALE_RESTORE): lambda w: (
        f"Attempt {w['attempt']} was restored from {_checkpoint(w['restored'])}, although"
        f" {_checkpoint(w['latest'])} had completed."
    ),
    (ConsistentCut.property, consistent_cut.WRONG_CUT): lambda w: (
        f"All transactions that checkpoint {w['checkpoint']} lists are committed, but the rows are not those"
        f" of the input before its barrier: {_difference(w)}."
    ),
    (Completeness.property, completeness.UNREAD_INPUT): lambda w: (
        f"The job said at step {w['step']} that it had finished, and had not read its input to the end:"
        f" {_splits(w['splits'])}."
    ),
    (Completeness.property, completeness.UNCOMMITTED_OUTPUT): lambda w: (
        f"The job said at step {w['step']} that it had finished, and transaction {w['transactions'][0]} of"
        f" checkpoint {w['checkpoint']} never became visible; {w['count']} in all."
    ),
    (ConsistentCut.property, tables.UNKNOWN_VERSION): lambda w: (
        f"Row {row_text(w['rows'][0])}, written by key at step {w['step']}, does not follow from the input."
    ),
    (ConsistentCut.property, tables.BEHIND_THE_CUT): lambda w: (
        f"At step {w['step']} the table does not show row {row_text(w['rows'][0])} or a later one of its key,"
        " although a complete checkpoint covers the input that gives it."
    ),
    (Fencing.property, fencing.ZOMBIE_WRITE): lambda w: (
        f"Attempt {w['attempt']} wrote by key at step {w['step']}, while attempt {w['running']} was running."
    ),
    (Fencing.property, fencing.ZOMBIE_COMMIT): lambda w: (
        f"Output of attempt {w['attempt']} became visible at step {w['step']}, while attempt {w['running']}"
        " was running, whose checkpoint does not list it."
    ),
    (Fencing.property, fencing.ZOMBIE_CHECKPOINT): lambda w: (
        f"A checkpoint of attempt {w['attempt']} completed at step {w['step']}, while attempt {w['running']}"
        " was running."
    ),
    (NoError.property, no_error.DEAD_PART): lambda w: (
        f"The part {w['part']} of the program was killed and stayed dead: nothing has started it again, and"
        " rows are missing."
    ),
    (NoError.property, no_error.FAILURE_WITHOUT_FAULT): lambda w: (
        f"{w['task']} failed at step {w['step']} in an attempt in which no fault had fired:"
        f" {w['cause'].rstrip('.')}."
    ),
    (NoError.property, no_error.RESTART_WITHOUT_FAULT): lambda w: (
        f"Attempt {w['attempt']} started at step {w['step']}: restart number {w['restarts']}, but only"
        f" {w['faults']} faults had fired."
    ),
    (Fencing.property, fencing.VISIBLE_TWICE): lambda w: (
        f"Transaction {w['transaction']} became visible a second time at step {w['step']}."
    ),
    (Fencing.property, fencing.HIDDEN): lambda w: (
        f"Rows of transaction {w['transaction']} were visible and disappeared at step {w['step']}."
        if "transaction" in w
        else f"Row {row_text(w['rows'][0])} was visible and is gone at step {w['step']}; {w['count']} in all."
    ),
    (Fencing.property, fencing.REPLACED): lambda w: (
        f"At step {w['step']} the rows of transaction {w['transaction']} replaced earlier rows, where rows"
        " may only be added."
    ),
    (Timeliness.property, timeliness.LATE_RESTART): lambda w: (
        f"At step {w['step']} the job waits {w['waits_ms']} ms for its restart; its restart strategy says"
        f" {w['allowed_ms']} ms."
    ),
    (Timeliness.property, timeliness.LATE_CHECKPOINT): lambda w: (
        f"At step {w['step']} the next periodic checkpoint is due in {w['waits_ms']} ms; interval and pause"
        f" allow {w['allowed_ms']} ms."
    ),
    (Timeliness.property, timeliness.LATE_EXPIRY): lambda w: (
        f"A checkpoint that began at step {w['step']} may be under way for {w['waits_ms']} ms; its time-out"
        f" is {w['allowed_ms']} ms."
    ),
    (Timeliness.property, timeliness.NO_CHECKPOINT): lambda w: (
        f"At step {w['step']} no checkpoint has completed for {w['waited_ms']} ms without a fault; interval,"
        f" pause and time-out allow {w['allowed_ms']} ms."
    ),
    (Timeliness.property, timeliness.UNLOGGED): lambda w: (
        f"At step {w['step']} the log of the job says nothing of {w['what']}."
    ),
    (Timeliness.property, timeliness.SILENT_FAILURE): lambda w: (
        f"The storage refused a write of {w['task']} for checkpoint {w['checkpoint']} at step {w['step']},"
        " and the checkpoint was neither declined nor aborted."
    ),
    (Conformance.property, conformance.OTHER_ANSWER): lambda w: (
        f"At step {w['step']} the {w['machine']} got {w['event']}: {w['expected']} was due, and the answer is"
        f" {w['got']}."
    ),
    (determinism.PROPERTY, determinism.TRACE_DIFFERS): lambda w: (
        "Two runs of the same scenario differ, so the scenario cannot be replayed."
    ),
    (Fencing.property, fencing.FOREIGN_SNAPSHOT): lambda w: (
        f"A checkpoint of attempt {w['attempt']} completed at step {w['step']} with a snapshot that attempt"
        f" {', '.join(w['writers'])} had written."
    ),
}


def _splits(splits: Mapping[str, Mapping[str, int]]) -> str:
    return ", ".join(
        f"{count['read']} of {count['of']} records of {split}" for split, count in splits.items()
    )


def _checkpoint(number: int | None) -> str:
    return "nothing" if number is None else f"checkpoint {number}"


def _difference(witness: dict[str, Any]) -> str:
    parts = [
        f"{', '.join(map(row_text, witness[key]))} {verb}"
        for key, verb in (("missing", "missing"), ("not of the cut", "too many"))
        if witness[key]
    ]
    return ", ".join(parts)
