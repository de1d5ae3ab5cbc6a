"""The text of a failed test: violation, small case, expected and actual rows, commands that replay it.

The rules this module lives by:

- The first line is complete by itself, because pytest's summary and CI pages show only that line: it names
  family, property, anomaly and the number of failed scenarios.
- The text has printable characters only, because pytest writes it into JUnit XML.
- Long parts are cut, with the number of omitted items; the named file has everything.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.explanation.decisions import decisions_of
from onceproof.harness.explanation.sentences import row_text
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import RecordValue, Scenario, Schedule
from onceproof.harness.testing.family_lookup import path_as_typed, replay_command_line
from onceproof.harness.testing.proof import Proof
from onceproof.harness.trials.failures import FailureCase
from onceproof.reports.text import counted, joined, visible

MOST_RECORDS: Final = 12
MOST_ROWS: Final = 6
MOST_DECISIONS: Final = 12


@dataclass(frozen=True, slots=True)
class PytestContext:
    """How pytest was started, and the test that runs."""

    folder: Path
    """Working directory in which pytest was started."""
    test: str
    """Address of the test on pytest's command line, relative to that folder."""
    path_at_start: tuple[str, ...]
    """``sys.path`` before pytest extended it."""


def failures_text(proof: Proof, failures: tuple[FailureCase, ...], context: PytestContext) -> str:
    """Return the text of a failed test, one paragraph per failure."""
    return "\n\n".join(
        "\n".join(map(visible, failure_lines(proof, failure, context))) for failure in failures
    )


def failure_lines(proof: Proof, failure: FailureCase, context: PytestContext) -> Iterator[str]:
    """Yield the lines of a failure: violation, small case, missing and wrong rows, commands."""
    yield first_line(proof, failure)
    if failure.mistake is None:
        yield failure.explanation.sentence
    else:
        yield failure.mistake.sentence
        yield from (f"  {line}" for line in failure.mistake.example.splitlines())
    if failure.cause is not None:
        yield failure.cause.sentence
    yield ""
    yield from _case_lines(proof, failure)
    yield from _row_lines(proof, failure)
    yield ""
    system = proof.system.name
    replay = replay_command_line(proof.family, failure.path, system, context.folder, context.path_at_start)
    if replay:
        yield f"replay:    {replay}"
    seed = failure.original.seed
    if replay and seed is not None:
        found = replay_command_line(proof.family, seed, system, context.folder, context.path_at_start)
        yield f"original:  {found}"
    path = path_as_typed(failure.path, context.folder)
    yield f"in pytest: {shlex.join(['pytest', context.test, '--onceproof-replay', path])}"
    for other in failure.others:
        path = path_as_typed(other.path, context.folder)
        yield f"also {other.title}, in {counted(other.count, 'scenario')}: {path}"


def first_line(proof: Proof, failure: FailureCase) -> str:
    """Return a line such as `sales: exactly_once, lost, in 3 of 200 scenarios of seed 0`."""
    what = f"{proof.family.name}: {failure.title}"
    if proof.seed is None:
        return f"{what}, in the scenario of {failure.path.name}"
    scenarios = counted(proof.tally.scenarios, "scenario")
    return f"{what}, in {failure.scenarios:,} of {scenarios} of seed {proof.seed}"


def _case_lines(proof: Proof, failure: FailureCase) -> Iterator[str]:
    if not failure.repeated:
        yield (
            "not reproduced: the job depends on more than its input, such as the time, a random number"
            " or a global variable"
        )
    if failure.scenario is failure.original:
        yield f"failing scenario: {_sizes(failure)}"
    else:
        yield f"shrunk to {_sizes(failure)}"
    scenario = failure.scenario
    yield from _record_lines(scenario)
    followed = Capability.SCHEDULES in proof.system.capabilities
    yield f"  {_settings(scenario, followed)}"
    decided = scenario if followed else replace(scenario, schedule=Schedule())
    decisions = [decision.text for decision in decisions_of(decided)]
    yield from (f"  {text}" for text in decisions[:MOST_DECISIONS])
    if len(decisions) > MOST_DECISIONS:
        yield f"  and {counted(len(decisions) - MOST_DECISIONS, 'more decision')}"


def _record_lines(scenario: Scenario) -> Iterator[str]:
    """Yield a line for each split with its first records and their timestamps, at most MOST_RECORDS."""
    left = MOST_RECORDS
    hidden: list[int] = []
    for split, records in scenario.records.items():
        if not left:
            hidden.append(len(records))
            continue
        shown = ", ".join(f"{_value_text(value)} at {time}" for time, value in records[:left]) or "empty"
        more = len(records) - left
        yield f"  {split}: {shown}{f' and {more:,} more' if more > 0 else ''}"
        left = max(0, left - len(records))
    if hidden:
        yield f"  and {counted(sum(hidden), 'record')} in {counted(len(hidden), 'other split')}"


def _sizes(failure: FailureCase) -> str:
    before, after = failure.shrunk.before, failure.shrunk.after
    return joined(
        [
            f"{counted(small, name)} of {large:,}" if small != large else counted(small, name)
            for small, large, name in (
                (after.records, before.records, "record"),
                (after.faults, before.faults, "fault"),
            )
        ]
    )


def _settings(scenario: Scenario, has_steps: bool) -> str:
    source, keyed, sink = scenario.parallelisms()
    parallelism = f"parallelism {keyed}"
    if {source, sink} != {keyed}:
        parallelism += f" (source {source}, sink {sink})"
    # Only a system with schedules measures the interval in steps.
    return (
        f"{parallelism}, a checkpoint every {scenario.checkpoint_interval_ms} steps"
        if has_steps
        else parallelism
    )


def _row_lines(proof: Proof, failure: FailureCase) -> Iterator[str]:
    """Yield the missing and the wrong rows; nothing if ``exactly_once`` holds."""
    if ExactlyOnce.property not in failure.verdict.failed_properties():
        return
    visible = rows_at_end(failure.history)
    expected = PythonOracle(proof.family, failure.scenario).rows(visible, failure.history)
    seen = Counter(visible)
    for title, rows in (
        ("missing rows:", Counter(expected) - seen),
        ("wrong rows:", seen - Counter(expected)),
    ):
        texts = [row_text(row) for row in rows.elements()]
        if texts:
            more = len(texts) - MOST_ROWS
            yield f"{title:<13} {', '.join(texts[:MOST_ROWS])}{f' and {more:,} more' if more > 0 else ''}"


def _value_text(value: RecordValue) -> str:
    return row_text(value) if isinstance(value, tuple) else str(value)
