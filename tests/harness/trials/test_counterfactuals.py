"""Causes that counterfactual runs confirm: those of the wrong jobs, and where none is asserted."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path

import pytest

from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.trial import try_scenario
from tests.planted.catalogue import find_mutant

FOLDER = Path(__file__).parents[2] / "wrong_jobs"
JOBS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "family"))
MOST_SEEDS = 40


@cache
def cause_in(job: str) -> ConfirmedCause | None:
    """Return the cause in a wrong job, by the first scenario that fails."""
    family = load_family(f"{FOLDER / job}.py:family")
    for seed in range(MOST_SEEDS):
        scenario = generate(family, seed)
        signature = try_scenario(family, scenario, twice=False, continued=False).verdict.signature
        if signature is not None:
            return confirmed_cause(family, scenario, signature, scenario)
    raise AssertionError(f"{job} passes {MOST_SEEDS} scenarios")


def wrong_line_of(job: str) -> int:
    lines = (FOLDER / f"{job}.py").read_text(encoding="utf-8").splitlines()
    [line] = [number for number, text in enumerate(lines, start=1) if text.endswith("# wrong")]
    return line


def named_in(job: str) -> str:
    named: str = runpy.run_path(str(FOLDER / f"{job}.py"))["NAMED"]
    return named


@pytest.mark.parametrize("job", [job for job in JOBS if named_in(job)])
def test_the_wrong_line_of_a_job_is_named(job: str) -> None:
    cause = cause_in(job)
    assert cause is not None
    assert (cause.line, Path(cause.file).stem) == (wrong_line_of(job), job)
    assert named_in(job) in cause.sentence


@pytest.mark.parametrize("job", [job for job in JOBS if not named_in(job)])
def test_a_cause_that_no_run_confirms_is_not_asserted(job: str) -> None:
    assert cause_in(job) is None


def test_what_is_wrong_in_a_built_in_family_is_the_engine() -> None:
    family: Family = load_family("word_count")
    scenario = generate(family, 0)
    assert confirmed_cause(family, scenario, ("exactly_once", "lost"), scenario) is None


def test_a_correct_job_is_not_accused_of_a_bug_of_the_engine(tmp_path: Path) -> None:
    wrong = (FOLDER / "wrong_key.py").read_text(encoding="utf-8")
    (tmp_path / "right_key.py").write_text(wrong.replace("return order[0]", "return order[1]"))
    family = load_family(f"{tmp_path / 'right_key.py'}:family")
    for seed in range(MOST_SEEDS):
        scenario = generate(family, seed)
        assert try_scenario(family, scenario).verdict.passed
        with find_mutant("state-under-another-name").applied():
            signature = try_scenario(family, scenario, twice=False, continued=False).verdict.signature
            if signature is not None:
                assert confirmed_cause(family, scenario, signature, scenario) is None
                return
    raise AssertionError("no scenario shows the planted bug")


def test_the_table_of_wrong_jobs_has_their_causes() -> None:
    table = "\n".join(map(row_of, JOBS))
    assert table in (FOLDER / "README.md").read_text(encoding="utf-8"), f"enter this table there:\n{table}"


def row_of(job: str) -> str:
    """Return the row of a job in the table."""
    cause = cause_in(job)
    about = (FOLDER / f"{job}.py").read_text(encoding="utf-8").split('"""')[1]
    named = "nothing is asserted" if cause is None else f"{cause.what}; {cause.counterfactual}"
    return f"| `{job}` | {about} | {named} |"


def test_at_least_27_of_30_jobs_have_their_line_named() -> None:
    assert len(JOBS) >= 30
    assert sum(bool(named_in(job)) for job in JOBS) >= 0.9 * len(JOBS)
