"""`onceproof run FILE.toml`: the page about programs, done as its reader does it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from time import monotonic, sleep

import pytest

from onceproof.harness.model.exit_codes import FAILED, PASSED, USAGE
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.program_file import PLACEHOLDERS
from onceproof.harness.trials.trial import check_family
from tests.harness.commands.conftest import Command
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.local_kill

PAGE = Path(__file__).parents[3] / "harness" / "docs" / "programs.md"
EXAMPLES = Path(__file__).parents[3] / "scenarios" / "programs"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A folder with the first program of the page and its file."""
    (tmp_path / "copier.py").write_text(blocks("python")[0], encoding="utf-8")
    (tmp_path / "copier.toml").write_text(blocks("toml")[0], encoding="utf-8")
    return tmp_path


def test_the_program_of_the_page_fails_and_its_replay_fails(onceproof: Command, reader: Path) -> None:
    # A program that never stores how far it has come fails at every kill, however busy the machine.
    program = reader / "copier.py"
    program.write_text(program.read_text(encoding="utf-8").replace("+ 0.1:", "+ 3600:"), encoding="utf-8")
    # The kill of this seed comes when a row was seen.
    words = ("--scenarios", "2", "--seed", "4", "-n", "1", "--shrink-runs", "8")
    ran = onceproof("run", "copier.toml", *words)
    assert ran.code == FAILED, ran.out + ran.error
    assert "FAILED copier: exactly_once, duplicated" in ran.out
    # A second kill makes it three times.
    looks = r"look \d+(, look \d+)* and look \d+"
    visible = rf"Row \(\d+\) is visible (twice|\d times) instead of once, found by {looks}"
    assert re.search(visible, ran.out), ran.out
    replay = re.search(r"onceproof (replay \S+\.json .*)", ran.out)
    assert replay is not None, ran.out
    assert "--family copier.toml" in replay[1]
    page = (reader / "reports" / "out" / "run" / "index.html").read_text(encoding="utf-8")
    assert "wrote it again" in page
    packed = onceproof("evidence", "reports/out/run")
    assert packed.code == PASSED, packed.error
    with tarfile.open(reader / "reports" / "out" / "run" / "evidence.tar.gz") as archive:
        archive.extractall(reader / "unpacked", filter="data")
    (issue,) = (reader / "unpacked").glob("evidence/copier-*/issue.md")
    names = {path.relative_to(issue.parent).as_posix() for path in issue.parent.rglob("*") if path.is_file()}
    assert names >= {"timeline.txt", "input.jsonl", "output.jsonl", "versions.txt", "scenario.json"}
    assert names >= {"program/copier.py", "program/copier.toml", "files/start-1.txt"}
    text = issue.read_text(encoding="utf-8")
    assert "FAULT  kill_process" in text or "FAULT kill_process" in text
    assert str(reader) not in "".join(path.read_text() for path in issue.parent.rglob("*") if path.is_file())
    again = onceproof(*replay[1].replace(" --system command", "").split())
    assert again.code == FAILED, again.out + again.error


def test_the_mended_program_of_the_page_passes(onceproof: Command, reader: Path) -> None:
    program = reader / "copier.py"
    head, _, _ = program.read_text(encoding="utf-8").partition("stored_at = ")
    program.write_text(head + blocks("python")[1], encoding="utf-8")
    ran = onceproof("run", "copier.toml", "--scenarios", "6", "-n", "2")
    assert ran.code == PASSED, ran.out + ran.error
    assert "Checked 5 properties in each of 6 scenarios." in ran.out


def test_a_set_up_that_does_not_work_is_a_paragraph_with_exit_code_4(
    onceproof: Command, reader: Path
) -> None:
    (reader / "copier.py").write_text("raise SystemExit('no such topic')", encoding="utf-8")
    ran = onceproof("run", "copier.toml", "--scenarios", "2")
    assert ran.code == USAGE
    assert "FAILED" not in ran.out
    first, *said = ran.error.splitlines()
    assert "copier.toml: the set-up does not work: in a control run without any fault" in first
    assert said == ["The program's last output:", "  no such topic"]


def test_a_program_stuck_before_any_fault_is_no_failure(onceproof: Command, reader: Path) -> None:
    # It works in the control run alone.
    program = reader / "copier.py"
    begun = str(reader / "begun")
    text = program.read_text(encoding="utf-8").replace(
        "stored_at = time",
        f"if Path({begun!r}).exists():\n    print('waits for a lock', flush=True)\n    time.sleep(900)\n"
        f"Path({begun!r}).touch()\nprint('READY', flush=True)\nstored_at = time",
        1,
    )
    program.write_text(text, encoding="utf-8")
    file = (reader / "copier.toml").read_text(encoding="utf-8")
    file = file.replace("[input]", 'ready = "READY"\n[input]') + "[done]\nquiet_seconds = 2\n"
    (reader / "copier.toml").write_text(file, encoding="utf-8")
    ran = onceproof("run", "copier.toml", "--scenarios", "2", "-n", "2")
    assert ran.code == USAGE, ran.out + ran.error
    assert "FAILED" not in ran.out
    first, *_ = ran.error.splitlines()
    assert "the set-up does not work: in the scenario of seed " in first
    assert "the ready line ('READY') did not come in " in first


def test_check_makes_the_control_run_of_a_program(onceproof: Command, reader: Path) -> None:
    ran = onceproof("check", "copier.toml")
    assert ran.code == PASSED, ran.error
    assert re.match(r"copier\.toml: 51 records gave the 51 rows that the oracle expects; \d", ran.out)
    assert not (reader / "reports").exists()


def test_a_signal_ends_a_real_run_with_a_report_and_no_further_run(reader: Path) -> None:
    # Each start leaves a letter, and each kill repeats rows.
    program = reader / "copier.py"
    text = program.read_text(encoding="utf-8").replace("+ 0.1:", "+ 3600:")
    program.write_text(f"open({str(reader / 'starts')!r}, 'a').write('s')\n{text}", encoding="utf-8")
    words = ("run", "copier.toml", "--scenarios", "500", "--seed", "4", "-n", "1", "--out", "out")
    process = subprocess.Popen(
        [sys.executable, "-m", "onceproof", *words],
        cwd=reader,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    outcomes = reader / "out" / "outcomes.jsonl"
    deadline = monotonic() + PATIENCE_SECONDS
    while not (outcomes.exists() and b'"passed":false' in outcomes.read_bytes()):
        assert monotonic() < deadline, "no scenario has failed"
        sleep(0.02)
    process.send_signal(signal.SIGTERM)
    starts = (reader / "starts").read_text(encoding="utf-8")
    printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert "ended early; the results of the finished scenarios are kept" in printed
    assert re.search(r"FAILED copier: exactly_once, duplicated, in \d scenarios?; not run again", printed)
    assert process.returncode == FAILED
    # One may have begun before the signal arrived.
    assert len((reader / "starts").read_text(encoding="utf-8")) <= len(starts) + 1
    assert (reader / "out" / "index.html").is_file()


def test_the_page_names_every_placeholder() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in PLACEHOLDERS if f"`{{{name}}}`" not in text] == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_sound(path: Path) -> None:
    check_family(load_family(str(path)))
    assert f"`{path.parent.name}`" in PAGE.read_text(encoding="utf-8")


def test_a_mistake_in_the_file_is_one_line_with_exit_code_4(onceproof: Command, reader: Path) -> None:
    file = reader / "copier.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("[output]", "[outputs]"), encoding="utf-8")
    ran = onceproof("run", "copier.toml")
    assert ran.code == USAGE
    assert ran.error.strip() == "onceproof: copier.toml: unknown field outputs; did you mean output?"


def test_a_family_on_the_system_for_programs_is_one_line(onceproof: Command, reader: Path) -> None:
    ran = onceproof("run", "word_count", "--system", "command", "--scenarios", "1", "-n", "1")
    assert ran.code == USAGE, ran.error
    (line,) = ran.error.strip().splitlines()
    assert line.endswith("--system command runs a program: give its FILE.toml instead of a family")
