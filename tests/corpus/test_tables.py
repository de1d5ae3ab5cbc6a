"""Programs with tables in the style of public ones run unedited: as on real Flink, and under faults.

What they print on Flink was recorded (`record_tables.py`). How a changelog comes to its table depends on time
there, as functions in Python get rows in bundles, so the tables are compared.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.corpus.record_tables import PROGRAMS, answering, printed, recorded

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
CHANGE = re.compile(r"(?P<before>(?:\w+> |\| )?)(?P<kind>[+-][IUD])(?P<row>(?:\[| \|).*)")
BORDER = re.compile(r"\+[-+]+\+|\d+ rows? in set|")
SCENARIOS = 3


def tables_of(lines: list[str]) -> Counter[str]:
    """Return what printed changes come to, and the other lines as they are."""
    found: Counter[str] = Counter()
    for line in lines:
        text = " ".join(line.split())
        if change := CHANGE.fullmatch(text):
            found[f"{change['before']}{change['row']}"] += 1 if change["kind"] in ("+I", "+U") else -1
        elif not BORDER.fullmatch(text):
            found[text] += 1
    return +found


def test_ten_programs_are_recorded() -> None:
    assert len(NAMES) >= 10
    assert sorted(recorded()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_program_with_tables_imports_from_pyflink_alone(name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    assert "from pyflink.table import" in text
    assert "onceproof" not in text


@pytest.mark.parametrize("name", NAMES)
def test_program_prints_the_tables_that_it_prints_on_flink(name: str) -> None:
    fact = recorded()[name]
    with answering(fact["answers"]):
        lines = printed(PROGRAMS / f"{name}.py")
    assert tables_of(lines) == tables_of(fact["lines"])
    assert tables_of(lines)


@pytest.mark.parametrize("name", NAMES)
def test_program_with_tables_passes_scenarios_with_faults(name: str) -> None:
    with answering(recorded()[name]["answers"]):
        family = load_family(str(PROGRAMS / f"{name}.py"))
        for seed in range(SCENARIOS):
            trial = try_scenario(family, scenario_of(family, seed))
            assert trial.verdict.passed, (seed, trial.verdict.violations)
