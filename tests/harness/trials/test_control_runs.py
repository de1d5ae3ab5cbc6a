"""The run of a program without faults before its scenarios, and what is said where it does not pass."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.program_measures import Measured, SetUpProblem
from onceproof.harness.model.scenario import Fault
from onceproof.harness.model.system import find_system
from onceproof.harness.systems.program.system import CommandSystem
from onceproof.harness.trials.control_runs import learned
from onceproof.harness.trials.trial import scenario_of
from tests.harness.systems.program.programs import FILES, program, tried

COPIES_FILES = """
    import os, sys, time
    copied = {}
    while True:
        for name in os.listdir(sys.argv[1]):
            lines = open(f"{sys.argv[1]}/{name}").readlines()
            with open(f"{sys.argv[2]}/{name}", "a") as rows:
                rows.writelines(lines[copied.get(name, 0):])
            copied[name] = len(lines)
        time.sleep(0.005)
"""


def controlled(path: Path, system: CommandSystem | None = None) -> Measured:
    family = load_family(str(path))
    measured = learned(system or CommandSystem(), family, partial(scenario_of, family))
    assert measured is not None
    return measured


def test_a_program_that_starts_late_is_measured_and_not_accused(tmp_path: Path) -> None:
    path = program(tmp_path, COPIES_FILES.replace("copied = {}", "time.sleep(2.5); copied = {}"))
    measured = controlled(path)
    assert measured.rows == measured.records > 30
    assert measured.first_row_seconds > 1.5
    assert measured.quiet_seconds((), are_missing=True) > 15


@pytest.mark.local_kill
@pytest.mark.parametrize("factor", [1, 10])
@pytest.mark.parametrize(("remembers", "found"), [(True, []), (False, ["duplicated"])])
def test_a_slower_program_is_judged_alike(
    tmp_path: Path, factor: int, remembers: bool, found: list[str]
) -> None:
    slow = f"""
        import os, sys, time
        time.sleep(0.1 * {factor})
        given, written = sys.argv[1:3]
        names = os.listdir(written) if {remembers} else []
        copied = {{name: len(open(f"{{written}}/{{name}}").readlines()) for name in names}}
        while True:
            for name in os.listdir(given):
                for line in open(f"{{given}}/{{name}}").readlines()[copied.get(name, 0):]:
                    with open(f"{{written}}/{{name}}", "a") as rows:
                        rows.write(line)
                    copied[name] = copied.get(name, 0) + 1
                    time.sleep(0.002 * {factor})
            time.sleep(0.005 * {factor})
    """
    path, system = program(tmp_path, slow), CommandSystem()
    measured = controlled(path, system)
    assert measured.seconds > 0.1 * factor
    kills = (Fault("kill_process", "committed", occurrence=3), Fault("kill_process", "element", occurrence=5))
    _, verdict = tried(path, system, faults=kills)
    assert [each.anomaly for each in verdict.violations] == found


def test_each_program_has_one_control_run(tmp_path: Path) -> None:
    logs = COPIES_FILES.replace("copied = {}", "open(sys.argv[0] + '.log', 'a').write('.'); copied = {}")
    path = program(tmp_path, logs)
    system = CommandSystem()
    assert controlled(path, system) is controlled(path, system)
    assert (tmp_path / "program.py.log").read_text() == "."


def test_a_ready_line_that_never_comes_is_a_set_up_problem(tmp_path: Path) -> None:
    waits = "import time; print('no broker', flush=True); time.sleep(600)"
    # It has to start and to print a line by then.
    ends = FILES + "[done]\nmost_seconds = 6\n"
    path = program(tmp_path, waits, ends, more='ready = "READY"')
    with pytest.raises(SetUpProblem) as raised:
        controlled(path)
    first, *said = str(raised.value).splitlines()
    assert "the ready line ('READY') did not come in " in first
    assert "No record had been given." in first
    assert said == ["The program's last output:", "  no broker"]


def test_a_program_without_a_row_is_a_set_up_problem(tmp_path: Path) -> None:
    path = program(tmp_path, "import time; time.sleep(600)", FILES + "[done]\nmost_seconds = 0.4\n")
    with pytest.raises(SetUpProblem, match=r"the first row did not come .*Missing: \(0\), \(1\), \(2\)"):
        controlled(path)


def test_a_program_that_ends_by_itself_is_a_set_up_problem(tmp_path: Path) -> None:
    path = program(tmp_path, "raise SystemExit('no such account')")
    with pytest.raises(SetUpProblem, match=r"ended by itself \(exit code 1: no such account\)"):
        controlled(path)


def test_rows_that_the_oracle_does_not_expect_are_a_set_up_problem(tmp_path: Path) -> None:
    negates = COPIES_FILES.replace(
        ".readlines()", ".read().replace('\"id\":7,', '\"id\":-7,').splitlines(keepends=True)"
    )
    # A busy machine may hold the program up between two rows.
    path = program(tmp_path, negates, FILES + "[done]\nquiet_seconds = 1.5\n")
    line = r"Missing: \(7\)\. Not expected: \(-7\)\. If the oracle is right, the program is wrong without"
    with pytest.raises(SetUpProblem, match=line):
        controlled(path)


def test_only_the_system_of_programs_has_control_runs() -> None:
    family = load_family("word_count")
    assert learned(find_system("simulated"), family, partial(scenario_of, family)) is None
