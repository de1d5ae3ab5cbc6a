"""The command as a process: start, interrupt from the keyboard, closed pipe."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.commands.endings import interruptible
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.reports.text import counted
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "onceproof"]

# Modules that make the start slow and that --help does not need.
SLOW_IMPORTS = (
    "onceproof.engine",
    "onceproof.harness.systems.simulation",
    "onceproof.harness.trials",
    "jinja2",
    "numpy",
    "pandas",
    "pyspark",
    "onceproof.reports",
)


def test_help_imports_no_slow_module() -> None:
    program = (
        "import sys; from onceproof.harness.commands.cli import main; main(['run', '--help']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = ended.stderr.split()
    assert not [name for name in loaded if name.startswith(SLOW_IMPORTS)]


@pytest.mark.parametrize(
    ("workers", "number", "code"),
    [("1", signal.SIGINT, 130), ("2", signal.SIGTERM, 143)],
)
def test_interrupt_keeps_the_finished_scenarios(
    tmp_path: Path, workers: str, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [*COMMAND, "run", "word_count", "--max-time", "600", "-n", workers, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_lines(out / OUTCOMES)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert errors == ""
    assert "ended early" in printed
    done = [from_line(line) for line in (out / OUTCOMES).read_bytes().splitlines()]
    assert f"word_count: {counted(len(done), 'scenario')}, passed" in printed
    assert "interrupted" in json.loads((out / "report.json").read_bytes())["interrupted"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_signal_ends_the_process_at_once(number: signal.Signals, code: int) -> None:
    program = """
import time
from onceproof.harness.commands.endings import interruptible
with interruptible():
    try:
        print("begun", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    process.send_signal(number)
    assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert process.returncode == code


def test_signal_that_is_ignored_from_the_start_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible() as interruption:
            signal.raise_signal(signal.SIGTERM)
        assert interruption.exit_code(130) == 130
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_modules_beside_a_family_stand_in_for_none_of_python(tmp_path: Path, sales: Path) -> None:
    for name in ("json", "typing", "random", "logging", "onceproof", "engine", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the file of a user')\n", encoding="utf-8")
    program = "from onceproof.harness.commands.cli import main; raise SystemExit(main())"
    # `check` runs the family here and in another process, a run in worker processes.
    for words in (("check", sales.name, "--no-sql"), ("run", sales.name, "-n", "2", "--max-time", "600")):
        ended = subprocess.run(
            [sys.executable, "-P", "-c", program, *words, "--scenarios", "2"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr


def test_every_process_of_ours_leaves_the_working_folder_off_its_path() -> None:
    pattern = re.compile(r'sys\.executable,\s*"-m",\s*(\S+)')
    found = [
        (path.name, started)
        for folder in ("engine", "harness")
        for path in (ROOT / folder).rglob("*.py")
        for started in pattern.findall(path.read_text(encoding="utf-8"))
    ]
    # What makes the environment of a program on trial runs nothing of a user's.
    assert set(found) == {("packages.py", '"venv",'), ("packages.py", '"pip",')}


def test_closed_output_pipe_is_no_error() -> None:
    command = [*COMMAND, "replay", "3", "--family", "word_count", "--trace"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert errors == b""


def wait_for_lines(path: Path) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not path.exists() or not path.stat().st_size:
        assert monotonic() < deadline, "no outcome came"
        sleep(0.05)
