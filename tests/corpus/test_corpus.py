"""Small programs in the style of public ones run unchanged with a kill, those that print also in peace.

They import from `pyflink`. Each was written for this project, and its rows were worked out by hand
(`expectations.py`). A kill strikes between two checkpoints, and the next process goes on from the last one; a
program in BATCH mode, which takes none, gets an error of its input instead. After a kill each row is in files
and topics once. Printed rows are there at least once, because a print cannot be taken back.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.harness.services.kafka_broker import KafkaBroker
from tests.corpus.expectations import CASES, Case
from tests.corpus.host import FAIL, KILL, PATIENCE_SECONDS, RUN, Life

pytestmark = pytest.mark.local_kill

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
WITH_KAFKA = sorted(name for name, case in CASES.items() if case.writes == "topic")
WITHOUT = sorted(CASES.keys() - set(WITH_KAFKA))
OPTIONS = {
    "execution.checkpointing.interval": "20",
    "execution.checkpointing.min-pause": "0",
    "execution.checkpointing.storage": "filesystem",
}
WITHOUT_CHECKPOINTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "1",
}


class Host:
    """The process from which those of the programs are forked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, life: Life) -> None:
        """Start a program."""
        assert self._process.stdin is not None
        self._process.stdin.write(life.request() + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    command = [sys.executable, "-m", "tests.corpus.host"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as process:
        yield Host(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


class Trial:
    """A program with the files of its lives."""

    def __init__(self, name: str, folder: Path, host: Host, broker: KafkaBroker | None = None) -> None:
        self.case: Case = CASES[name]
        self._name = name
        self._folder = folder
        self._host = host
        self._arguments: list[str] = []
        self._broker = broker
        if self.case.reads == "file":
            (folder / "input").write_text("\n".join(self.case.lines) + "\n")
            self._arguments += ["--input", str(folder / "input")]
        if self.case.writes == "files":
            self._arguments += ["--output", str(folder / "rows")]
        if broker is not None:
            from tests.engine.connectors.kafka.topics import fill, new_topic

            self._source, self._target = new_topic(broker.address), new_topic(broker.address, 1)
            fill(broker.address, self._source, self.case.lines)
            self._arguments += ["--broker", broker.address]
            self._arguments += ["--source", self._source, "--target", self._target]

    def live(self, way: str) -> int:
        """Run the program once and return its exit code."""
        options = dict(OPTIONS, **{"execution.checkpointing.dir": str(self._folder / "checkpoints")})
        options["high-availability.cluster-id"] = self._name
        life = Life(
            str(PROGRAMS / f"{self._name}.py"),
            self._arguments,
            str(self._folder / "checkpoints"),
            str(self._folder / "output"),
            str(self._folder / "errors"),
            str(self._folder / "end"),
            way,
            options if self.case.has_checkpoints else WITHOUT_CHECKPOINTS,
        )
        self._host.begin(life)
        if self.case.is_endless and way == RUN:
            self._wait_for_rows()
            (self._folder / "end").touch()
            self._host.end()
            return 0
        return self._host.end()

    def errors(self) -> str:
        """Return what the program has written to its stderr, and printed."""
        return (self._folder / "errors").read_text() + (self._folder / "output").read_text()

    def rows(self) -> Counter[str]:
        """Return the rows that are visible."""
        match self.case.writes:
            case "files":
                parts = [path for path in (self._folder / "rows").rglob("*") if path.is_file()]
                visible = [path for path in parts if not path.name.startswith((".", "_"))]
                return Counter(line for path in visible for line in path.read_text().splitlines())
            case "topic":
                from tests.engine.connectors.kafka.topics import committed_rows

                assert self._broker is not None
                count = len(self.case.rows)
                rows = committed_rows(self._broker.address, self._target, count)
                return Counter(
                    row.replace('":', '": ').replace(":  ", ": ").replace(',"', ', "') for row in rows
                )
            case _:
                printed = (self._folder / "output").read_text().splitlines()
                return Counter(re.sub(r"^\d+> ", "", line) for line in printed)

    def _wait_for_rows(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (expected := set(self.case.rows)) <= set(self.rows()):
            assert time.monotonic() < deadline, f"not all of {expected} in {self.rows()}: {self.errors()}"
            time.sleep(0.05)


def run_with_a_kill(trial: Trial) -> None:
    expected = Counter(trial.case.rows)
    if trial.case.has_checkpoints:
        assert trial.live(KILL) == -signal.SIGKILL, trial.errors()
        assert trial.live(RUN) == 0, trial.errors()
    else:
        assert trial.live(FAIL) == 0, trial.errors()
        assert "the input is gone for a moment" in trial.errors()
    found = trial.rows()
    assert found >= expected, trial.errors()
    if trial.case.writes == "lines" or trial.case.at_least_once:
        assert found.keys() == expected.keys()
    else:
        assert found == expected


def test_corpus_has_a_case_for_each_program() -> None:
    assert sorted(path.stem for path in PROGRAMS.glob("*.py")) == sorted(CASES)
    assert len(CASES) >= 30


@pytest.mark.parametrize("name", sorted(CASES))
def test_program_is_short_and_imports_from_pyflink_alone(name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    assert 15 <= len(text.splitlines()) <= 95
    assert "from pyflink" in text
    assert "onceproof" not in text


@pytest.mark.parametrize("name", [name for name in WITHOUT if CASES[name].writes == "lines"])
def test_program_prints_its_rows(name: str, host: Host, tmp_path: Path) -> None:
    trial = Trial(name, tmp_path, host)
    assert trial.live(RUN) == 0, trial.errors()
    assert trial.rows() == Counter(trial.case.rows)


@pytest.mark.parametrize("name", WITHOUT)
def test_program_that_is_killed_writes_its_rows(name: str, host: Host, tmp_path: Path) -> None:
    run_with_a_kill(Trial(name, tmp_path, host))


@pytest.mark.parametrize("name", WITH_KAFKA)
def test_program_with_kafka_that_is_killed_writes_its_rows(
    name: str, host: Host, tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    run_with_a_kill(Trial(name, tmp_path, host, kafka_broker))
