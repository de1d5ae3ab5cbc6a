"""A failed test in words: what is wrong in the first line, then the small case, then what to type.

The rules this module lives by:

- The first line stands alone in pytest's summary and on a CI server's page: it names family, property and
  anomaly, and how often it happened.
- Plain text of printable characters, whatever a family's records hold: it becomes XML in a JUnit report.
- What is long is cut, and how much is missing is told: all of it stands in the file that is named.
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
from onceproof.harness.testing.families import replay_line, typed
from onceproof.harness.testing.proof import Failure, Proof
from onceproof.reports.text import counted, listing, visible

MOST_RECORDS: Final = 12
MOST_ROWS: Final = 6
MOST_DECISIONS: Final = 12


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the user stands, and which test it is."""

    folder: Path
    """Where pytest was started."""
    test: str
    """The test as it is named on pytest's command line, from that folder."""
    path_at_start: tuple[str, ...]
    """Where Python looked for modules before pytest added to it."""


def failures_text(proof: Proof, failures: tuple[Failure, ...], desk: Desk) -> str:
    """Return what is told of a test that failed in these ways."""
    return "\n\n".join("\n".join(map(visible, failure_lines(proof, failure, desk))) for failure in failures)


def failure_lines(proof: Proof, failure: Failure, desk: Desk) -> Iterator[str]:
    """Yield a failure: what is wrong, the small case, expected and visible rows, and the commands."""
    yield first_line(proof, failure)
    yield failure.explanation.sentence
    yield ""
    yield from _case_lines(proof, failure)
    yield from _row_lines(proof, failure)
    yield ""
    system = proof.system.name
    replay = replay_line(proof.family, failure.path, system, desk.folder, desk.path_at_start)
    if replay:
        yield f"replay:    {replay}"
    seed = failure.found.seed
    if replay and seed is not None:
        found = replay_line(proof.family, seed, system, desk.folder, desk.path_at_start)
        yield f"as found:  {found}"
    path = typed(failure.path, desk.folder)
    yield f"in pytest: {shlex.join(['pytest', desk.test, '--onceproof-replay', path])}"


def first_line(proof: Proof, failure: Failure) -> str:
    """`sales: exactly_once, lost, in 3 of 200 scenarios of seed 0`."""
    what = f"{proof.family.name}: {', '.join(failure.signature)}"
    if proof.seed is None:
        return f"{what}, in the scenario of {failure.path.name}"
    return (
        f"{what}, in {failure.count:,} of {counted(proof.tally.scenarios, 'scenario')} of seed {proof.seed}"
    )


def _case_lines(proof: Proof, failure: Failure) -> Iterator[str]:
    if not failure.repeats:
        yield "repeated, it does not fail so: the job uses more than its input, as time, chance or a global"
    if failure.scenario is failure.found:
        yield f"the case: {_sizes(failure)}"
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
    """Yield the splits with their first records."""
    left = MOST_RECORDS
    hidden: list[int] = []
    for split, records in scenario.records.items():
        if not left:
            hidden.append(len(records))
            continue
        shown = ", ".join(_value_text(value) for _, value in records[:left]) or "empty"
        more = len(records) - left
        yield f"  {split}: {shown}{f' and {more:,} more' if more > 0 else ''}"
        left = max(0, left - len(records))
    if hidden:
        yield f"  and {counted(sum(hidden), 'record')} in {counted(len(hidden), 'other split')}"


def _sizes(failure: Failure) -> str:
    before, after = failure.before, failure.after
    return listing(
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
    # Without steps of a schedule an interval is something else, which the system says.
    return (
        f"{parallelism}, a checkpoint every {scenario.checkpoint_interval_ms} steps"
        if has_steps
        else parallelism
    )


def _row_lines(proof: Proof, failure: Failure) -> Iterator[str]:
    """Yield the rows that are missing and those that are too many; nothing where it is not about rows."""
    if ExactlyOnce.property not in failure.verdict.failed_properties():
        return
    visible = rows_at_end(failure.history)
    expected = PythonOracle(proof.family, failure.scenario).rows(visible)
    seen = Counter(visible)
    for title, rows in (
        ("missing rows:", Counter(expected) - seen),
        ("wrong rows:", seen - Counter(expected)),
    ):
        told = [row_text(row) for row in rows.elements()]
        if told:
            more = len(told) - MOST_ROWS
            yield f"{title:<13} {', '.join(told[:MOST_ROWS])}{f' and {more:,} more' if more > 0 else ''}"


def _value_text(value: RecordValue) -> str:
    return row_text(value) if isinstance(value, tuple) else str(value)
