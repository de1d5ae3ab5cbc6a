"""The outcome of one scenario: a line of outcomes.jsonl, and a row where a campaign keeps its results.

The rules this module lives by:

- An outcome is small and flat, and holds what reports count. What takes a page to tell (records, trace,
  explanation) comes from a replay of the seed, which determinism makes free.
- Everything in it follows from the scenario but ``milliseconds``, so two runs can be compared line by line.
- The hash of a whole run does not depend on the order in which its scenarios were run, nor on who ran them.
- The keys of its mappings are plain words ("kill_task/committing"), so that any tool can read a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.coverage import mode_point
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import ATTEMPT_STARTED, History
from onceproof.harness.model.scenario import Scenario

ViolationLine: TypeAlias = tuple[str, str, str, str]
"""(property, anomaly, where, witness as JSON)."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one scenario."""

    family: str
    generator_version: int
    seed: int | None
    """None: the scenario was shrunk or written by hand."""
    passed: bool
    signature: Signature | None
    violations: tuple[ViolationLine, ...]
    trace_hash: str
    steps: int
    attempts: int
    checkpoints: int
    """How many completed."""
    kills: int
    """How many kills struck."""
    rescales: int
    """How many attempts began with another parallelism than the one before."""
    records: int
    records_replayed: int
    recovery_steps: int
    milliseconds: float
    coverage: dict[str, int]
    """How often each fault fired, by "kind/point"."""
    planned: dict[str, int]
    """How many faults the scenario planned, by "kind/point", as far as they can strike the system."""
    not_applicable: dict[str, int]
    """How many it planned that cannot: they were not survived."""
    points: dict[str, int]
    """How often each protocol point was passed."""


class OutcomeError(Exception):
    """A line that holds no outcome; the message is one line that names the file."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Outcome)


def outcome_of(scenario: Scenario, history: History, verdict: Verdict) -> Outcome:
    """Return the outcome of a run that has been judged."""
    statistics = history.statistics
    coverage = {f"{kind}/{point}": count for (kind, point), count in statistics.coverage.items()}
    planned: dict[str, int] = {}
    for fault in scenario.faults:
        name = f"{fault.kind}/{fault.point}"
        planned[name] = planned.get(name, 0) + 1
    not_applicable = {f"{kind}/{point}": count for (kind, point), count in statistics.not_applicable.items()}
    for name, count in not_applicable.items():
        # A rescale that a system cannot do is a part of a kill that it can.
        left = planned.pop(name, 0) - count
        if left > 0:
            planned[name] = left
    parallelisms = [
        payload["parallelism"] for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED
    ]
    points = statistics.points
    completed = points.get("completed", 0)
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
    )


def to_line(outcome: Outcome) -> bytes:
    """Return the outcome as a line of JSON."""
    return _encoder.encode(outcome) + b"\n"


def from_line(line: bytes, path: str = "outcome", number: int = 1) -> Outcome:
    """Return the outcome in a line of JSON; ``path`` and ``number`` are named in errors."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OutcomeError(f"{path}:{number}: not an outcome of this onceproof: {error}") from None


def combined_hash(hashes: Iterable[tuple[str, int | None, str]]) -> str:
    """Return one hash over (family, seed, trace hash) of all scenarios of a run, whatever their order."""
    lines = sorted(f"{family} {seed} {trace_hash}\n" for family, seed, trace_hash in hashes)
    return blake2b("".join(lines).encode(), digest_size=16).hexdigest()


def _as_json(witness: dict[str, Any]) -> str:
    """A value that JSON has no word for is written as Python shows it: a witness is for reading."""
    return msgspec.json.encode(witness, enc_hook=repr).decode()
