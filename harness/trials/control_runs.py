"""The control run of a program: one without faults before its scenarios, which must pass.

Rules:

- Each program has one in each run of scenarios. Workers learn of its measures from their parent.
- It gets the most records of a few draws, so that it shows more of the program than most scenarios do.
- If it does not pass, the set-up is wrong: no scenario is run, nothing is shrunk, and no property is said to
  have failed. The error is a paragraph with what was waited for, a few rows and the program's last lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.row_order import OUT_OF_ORDER
from onceproof.harness.checkers.tolerance import NEAR_MISS, within_tolerance
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.explanation.sentences import row_text, sentence_of
from onceproof.harness.generation.program_faults import with_program_faults
from onceproof.harness.model.family import NOTHING_DECLARED, Family, options_of
from onceproof.harness.model.history import Row, rows_at_end
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_measures import ControlRun, Measured, SetUpProblem
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import Controlled, System
from onceproof.reports.text import counted

VERDICTS: Final = (NEAR_MISS, OUT_OF_ORDER)
"""What is wrong with rows that are all there: the set-up works, and the scenarios fail."""
DRAWS: Final = 10
MOST_ROWS_SHOWN: Final = 3


def learned(system: System, family: Family, draw: Callable[[int], Scenario]) -> Measured | None:
    """Return what the control run of a program measures; None for other families.

    A system makes the control run when it is asked for the first time.

    Args:
        draw: returns the scenario of a seed.

    Raises:
        SetUpProblem: the control run does not pass.
    """
    if not isinstance(family, ProgramFamily) or not isinstance(system, Controlled):
        return None
    place = str(family.path)
    if place not in system.measured:
        drawn = max(map(draw, range(DRAWS)), key=Scenario.record_count)
        scenario = replace(with_program_faults(family, drawn), seed=None, faults=(), operations=UNSET)
        control = system.control(family, scenario)
        oracle = PythonOracle(family, scenario)
        verdict = judge(scenario, within_tolerance(control.history, oracle), oracle)
        if control.missed or any(each.anomaly not in VERDICTS for each in verdict.violations):
            raise SetUpProblem(" ".join(_paragraph(family, scenario, control, verdict)) + control.said)
        system.measured[place] = control.measured
    return system.measured[place]


def _paragraph(
    family: ProgramFamily, scenario: Scenario, control: ControlRun, verdict: Verdict
) -> Iterator[str]:
    why = control.missed or "program and oracle do not agree"
    yield f"{family.path}: the set-up does not work: in a control run without any fault {why}."
    if options_of(family).declares:
        yield from map(sentence_of, verdict.violations[:MOST_ROWS_SHOWN])
        return
    expected = Counter(family.expected(scenario.records, NOTHING_DECLARED))
    shown = Counter(rows_at_end(control.history))
    if not control.measured.records:
        yield "No record had been given."
        return
    records, rows = counted(control.measured.records, "record"), counted(shown.total(), "row")
    yield f"{records} gave {rows}; the oracle expects {expected.total():,}."
    yield from _rows(expected - shown, "missing")
    yield from _rows(shown - expected, "not expected")
    if shown:
        yield "If the oracle is right, the program is wrong without any fault."


def _rows(rows: Counter[Row], what: str) -> Iterator[str]:
    if rows:
        few: Iterable[Row] = list(rows.elements())[:MOST_ROWS_SHOWN]
        more = ", ..." if rows.total() > MOST_ROWS_SHOWN else ""
        yield f"{what[:1].upper()}{what[1:]}: {', '.join(map(row_text, few))}{more}."
