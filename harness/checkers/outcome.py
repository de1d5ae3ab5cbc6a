"""The outcome of one scenario: a line of outcomes.jsonl, and a row in a campaign's Parquet tables.

The rules this module lives by:

- An outcome is small and flat, and holds what reports count. Records, trace and explanation are not stored:
  a replay of the seed gives them again.
- Everything in it but times, as ``milliseconds`` and ``recovery_seconds``, follows from the scenario, so two
  runs can be compared line by line.
- The hash of a whole run does not depend on the order or the process in which its scenarios ran.
- The keys of its mappings are plain words ("kill_task/committing"), so that any tool can read a line.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.coverage import mode_point
from onceproof.harness.checkers.situations import situations_of
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.checkers.watched import watched_in
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, History
from onceproof.harness.model.scenario import Scenario

ViolationLine: TypeAlias = tuple[str, str, str, str]
"""(property, anomaly, where, witness as JSON)."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict, the signature and the counts of one scenario."""

    family: str
    generator_version: int
    seed: int | None
    """None for a scenario that was shrunk or written by hand."""
    passed: bool
    signature: Signature | None
    violations: tuple[ViolationLine, ...]
    trace_hash: str
    steps: int
    attempts: int
    checkpoints: int
    """How many checkpoints completed."""
    kills: int
    """How many injected kills fired."""
    rescales: int
    """How many attempts started with another parallelism than the attempt before."""
    records: int
    records_replayed: int
    recovery_steps: int
    milliseconds: float
    coverage: dict[str, int]
    """How often each fault fired, by "kind/point"."""
    planned: dict[str, int]
    """How many faults the scenario planned, by "kind/point", without those in ``not_applicable``."""
    not_applicable: dict[str, int]
    """How many planned faults the system cannot inject, by "kind/point"."""
    points: dict[str, int]
    """How often each protocol point was passed."""
    timers_before_end: int = 0
    """How many event-time timers fired before the end of the input."""
    timers_at_end: int = 0
    """How many event-time timers the end of the input made fire."""
    situations: tuple[str, ...] = ()
    """The names of the situations that the run was in (`situations.py`)."""
    notes: tuple[str, ...] = ()
    """What the run has noticed that breaks no property."""
    watched: dict[str, int] = msgspec.field(default_factory=dict)
    """By what might have happened in the run, such as "expiry/seen/60000": 1 if it did, else 0."""
    recovery_seconds: tuple[float, ...] = ()
    """From each kill to the first new rows after it, in seconds; only systems that run in real time measure
    it, and only for kills that new rows followed."""
    waited_milliseconds: float | None = None
    """How many of ``milliseconds`` were spent waiting for processes, clusters and servers to start; only
    systems that run in real time measure it."""
    phase_milliseconds: dict[str, float] = msgspec.field(default_factory=dict)
    """How long each phase of a program's run took."""


class OutcomeError(Exception):
    """A line is no valid outcome; the message is one line that names the file and line number."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Outcome)


def outcome_of(scenario: Scenario, history: History, verdict: Verdict) -> Outcome:
    """Return the outcome of a run, from its history and verdict."""
    statistics = history.statistics
    coverage = {f"{kind}/{point}": count for (kind, point), count in statistics.coverage.items()}
    planned: dict[str, int] = {}
    for fault in scenario.faults:
        name = f"{fault.kind}/{fault.point}"
        planned[name] = planned.get(name, 0) + 1
    not_applicable = {f"{kind}/{point}": count for (kind, point), count in statistics.not_applicable.items()}
    for name, count in not_applicable.items():
        # A kill with a rescale counts in both mappings if the system can kill but not rescale.
        left = planned.pop(name, 0) - count
        if left > 0:
            planned[name] = left
    parallelisms = [
        payload["parallelism"] for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED
    ]
    points = statistics.points
    # Not every system passes that point, and all whose checkpoints are seen have the event.
    completed = points.get("completed", 0) or sum(
        kind == CHECKPOINT_COMPLETED for _, kind, _, _ in history.events
    )
    if completed:
        points = {**points, mode_point(scenario.checkpoint_mode.barriers): completed}
    return Outcome(
        family=scenario.family,
        generator_version=scenario.generator_version,
        seed=scenario.seed,
        passed=verdict.passed,
        signature=verdict.signature,
        violations=tuple(
            [
                (violation.property, violation.anomaly, violation.where, _as_json(violation.witness))
                for violation in verdict.violations
            ]
        ),
        trace_hash=history.trace_hash,
        steps=statistics.steps,
        attempts=statistics.attempts,
        checkpoints=completed,
        kills=sum(count for (kind, _), count in statistics.coverage.items() if kind in KILLS),
        rescales=sum(map(int.__ne__, parallelisms, parallelisms[1:])),
        records=scenario.record_count(),
        records_replayed=statistics.records_replayed,
        recovery_steps=statistics.recovery_steps,
        milliseconds=round(statistics.milliseconds, 3),
        coverage=coverage,
        planned=planned,
        not_applicable=not_applicable,
        points=points,
        timers_before_end=statistics.timers_before_end,
        timers_at_end=statistics.timers_at_end,
        situations=situations_of(scenario, history),
        notes=statistics.notes,
        watched={name: int(happened) for name, happened in watched_in(history).items()},
        recovery_seconds=tuple(
            [round(each.seconds, 3) for each in statistics.recoveries if each.seconds is not None]
        ),
        waited_milliseconds=(
            None if statistics.waited_milliseconds is None else round(statistics.waited_milliseconds, 3)
        ),
        phase_milliseconds={name: round(each, 3) for name, each in statistics.phase_milliseconds.items()},
    )


def to_line(outcome: Outcome) -> bytes:
    """Return the outcome as a line of JSON, with the newline."""
    return _encoder.encode(outcome) + b"\n"


def from_line(line: bytes, path: str = "outcome", number: int = 1) -> Outcome:
    """Return the outcome that a line of JSON holds.

    Args:
        path: the file's name, for errors.
        number: the line's number, for errors.

    Raises:
        OutcomeError: the line is no valid outcome of this version.
    """
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OutcomeError(f"{path}:{number}: not an outcome of this onceproof: {error}") from None


def trace_number(outcome: Outcome) -> int:
    """Return the number of a scenario's trace, to be added to those of the other scenarios of a run."""
    text = f"{outcome.family} {outcome.seed} {outcome.trace_hash}"
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def hash_text(traces: int) -> str:
    """Return the hash of all scenarios of a run, from the sum of their numbers."""
    return f"{traces % (1 << 128):032x}"


def _as_json(witness: dict[str, Any]) -> str:
    """Return the witness as JSON; a value without a JSON form is written as its ``repr``."""
    return msgspec.json.encode(witness, enc_hook=repr).decode()
