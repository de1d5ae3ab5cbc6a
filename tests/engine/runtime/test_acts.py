"""Acts against jobs on each runtime end in the exact rows, or in one clear error and a failed process.

A round is a job with its acts, each between two gates of the job (``acted_job.py``). The seed draws the
moments; another one: ``pytest tests/engine/runtime/test_acts.py --kill-seed 7``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

import psutil
import pytest

from tests.engine.runtime.acted_job import FILES, GATE_ROWS, RUNTIMES
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("acted_job.py")
POLL_SECONDS: Final = 0.01
LONGEST_WAIT_SECONDS: Final = 0.15
"""From the opening of a gate to the act."""
STOP_SECONDS: Final = 0.5
"""How long a process is stopped that nothing takes for dead."""
KEYS: Final = 5
MARK: Final = "ONCEPROOF_ACTED_JOB"
"""The environment variable by which the processes of a round are found."""

INSIDE: Final = ("fork", "chdir", "exit", "interrupt", "close")
"""What the job's function does when it is asked to."""
FATAL: Final = {"truncate": ".csv", "replace": ".csv", "delete": "checkpoint"}
"""What may end the job for good, and what its last line then names."""

ROUNDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("one process", ("fork", "kill", "chdir", "move", "exit", "stop", "interrupt", "close", "truncate")),
    ("one process", ("kill", "replace")),
    ("one process", ("kill", "delete")),
    ("workers", ("kill", "fork", "chdir", "exit", "interrupt", "close", "kill coordinator", "truncate")),
    ("workers", ("stop", "move", "kill coordinator", "replace")),
    ("standby", ("kill", "fork", "chdir", "stop", "exit", "move")),
    ("spark", ("kill", "fork", "chdir", "stop", "exit", "kill driver", "move", "truncate")),
)


class Round:
    """A job over a folder, its processes, and what its output must be."""

    def __init__(self, folder: Path, runtime: str, acts: tuple[str, ...], chance: random.Random) -> None:
        self.folder = folder
        self.runtime = runtime
        self._chance = chance
        self._gates = 0
        self._most_gates = len(acts) + 1
        self._started = 0
        self._ended = Event()
        self._consumer: Thread | None = None
        self.processes: list[subprocess.Popen[bytes]] = []
        (folder / "moved").mkdir(parents=True)
        self.expected: Counter[str] = Counter()
        for file in range(FILES):
            rows = [f"{file}-{int(chance.random() * KEYS)}" for _ in range(GATE_ROWS * (len(acts) + 1))]
            counts: Counter[str] = Counter()
            for number, key in enumerate(rows):
                counts[key] += 1
                self.expected[f"{key},{number},{counts[key]}"] += 1
            lines = [f"{key},{number}\n" for number, key in enumerate(rows)]
            (folder / f"{file}.csv").write_text("key,number\n" + "".join(lines))

    # The processes.

    def start(self) -> None:
        """Start a process of the job, behind those that there are."""
        self._started += 1
        with (self.folder / f"log-{self._started}").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, str(PROGRAM), self.runtime],
                    cwd=self.folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, MARK: str(self.folder)},
                    start_new_session=True,
                )
            )

    def start_all(self) -> None:
        """Start as many processes as the runtime has."""
        for _ in range(3 if self.runtime == "standby" else 1):
            self.start()

    @property
    def holder(self) -> subprocess.Popen[bytes]:
        """The process that runs the job: with a lease, the one that wrote the latest incarnation."""
        if self.runtime == "standby":
            return next(each for each in self.processes if self._says_it_runs(each))
        return self.processes[-1]

    @property
    def is_running(self) -> bool:
        """Whether a process of the job lives."""
        return any(each.poll() is None for each in self.processes)

    def _says_it_runs(self, process: subprocess.Popen[bytes]) -> bool:
        log = self.folder / f"log-{self.processes.index(process) + 1}"
        return process.poll() is None and log.read_text().count("stands by") == log.read_text().count(
            "takes over"
        )

    def said(self) -> str:
        """What the processes have printed."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log-*")))

    def members(self) -> list[psutil.Process]:
        """The living processes of the round, of whatever parent."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder) and process.status() != "zombie":
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def pythons_below(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """The processes that run tasks apart from the one that the user has started."""
        if self.runtime == "workers":
            return [
                each for launcher in psutil.Process(process.pid).children() for each in launcher.children()
            ]
        daemons = [each for each in self.members() if "pyspark.daemon" in each.cmdline()]
        return [each for each in daemons if each.ppid() in {daemon.pid for daemon in daemons}]

    def await_true(self, what: str, is_true: Callable[[], bool]) -> None:
        """Wait for something that the processes bring about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_true():
            assert time.monotonic() < deadline, f"{what}:\n{self.said()}"
            time.sleep(POLL_SECONDS)

    # The output.

    @property
    def has_rows(self) -> bool:
        """Whether rows have become visible."""
        return bool(self._visible("rows") or self._visible("moved"))

    def rows(self) -> Counter[str]:
        """The rows that are visible, and those that the consumer, who has stopped, took."""
        paths = [*self._visible("rows"), *self._visible("moved")]
        return Counter([row for path in paths for row in path.read_text().splitlines()])

    def _visible(self, folder: str) -> list[Path]:
        return [path for path in (self.folder / folder).glob("*") if not path.name.startswith(".")]

    def problems(self, is_whole: bool) -> list[str]:
        """In what the rows differ from a plain computation; a job that failed may lack rows, no more."""
        rows = self.rows()
        return [
            f"{row}: {rows[row]} times instead of {self.expected[row]}"
            for row in sorted(self.expected.keys() | rows.keys())
            if rows[row] > self.expected[row] or (is_whole and rows[row] < self.expected[row])
        ]

    # The acts.

    def open_gate(self) -> None:
        """Let the job pass the next gate."""
        (self.folder / f"gate-{self._gates}").touch()
        self._gates += 1

    def open_all_gates(self) -> None:
        """Let the job run to its end: past the last row as well, where the reader checks the file again."""
        for gate in range(self._gates, self._most_gates + 1):
            (self.folder / f"gate-{gate}").touch()

    def act(self, act: str) -> None:
        """Strike the job that runs."""
        time.sleep(self._chance.random() * LONGEST_WAIT_SECONDS)
        if act in INSIDE:
            (self.folder / "request").write_text(act)
            self.open_gate()
            self.await_true(
                f"{act} is not carried out",
                lambda: not (self.folder / "request").exists() or not self.is_running,
            )
            return
        match act:
            case "kill" if self.runtime in ("workers", "spark"):
                self._with_a_python(psutil.Process.kill)
            case "kill" | "kill coordinator" | "kill driver":
                self._kill_holder()
            case "stop":
                self._stop()
            case "move":
                self._consumer = Thread(target=self._consume, daemon=True)
                self._consumer.start()
            case "truncate":
                for file in range(FILES):
                    os.truncate(self.folder / f"{file}.csv", 60)
            case "replace":
                self._replace()
            case "delete":
                os.rename(self.folder / "checkpoints", self.folder / "checkpoints-gone")
                self._kill_holder()
            case _:
                raise AssertionError(act)
        self.open_gate()

    def _with_a_python(self, strike: Callable[[psutil.Process], None]) -> psutil.Process:
        """Strike a process that runs tasks, and return it; between two attempts there is none."""
        struck: list[psutil.Process] = []

        def is_struck() -> bool:
            with suppress(psutil.NoSuchProcess, IndexError):
                found = self.pythons_below(self.holder)
                victim = found[int(self._chance.random() * len(found))]
                strike(victim)
                struck.append(victim)
            return bool(struck)

        self.await_true("no process runs tasks", is_struck)
        return struck[0]

    def _kill_holder(self) -> None:
        holder = self.holder
        holder.kill()
        holder.wait()
        self.start()

    def _stop(self) -> None:
        if self.runtime == "standby":
            holder = self.holder
            holder.send_signal(signal.SIGSTOP)
            self.await_true("no process takes over", lambda: self._another_runs(holder))
            holder.send_signal(signal.SIGCONT)
            self.start()
        elif self.runtime == "workers":
            # The coordinator kills it when it has missed its heartbeats.
            stopped = self._with_a_python(psutil.Process.suspend)
            self.await_true("a stopped worker lives on", lambda: not stopped.is_running())
        else:
            holder = psutil.Process(self.holder.pid)
            victims = self.pythons_below(self.holder) if self.runtime == "spark" else [holder]
            for each in victims:
                each.suspend()
            time.sleep(STOP_SECONDS)
            for each in victims:
                each.resume()

    def _another_runs(self, stopped: subprocess.Popen[bytes]) -> bool:
        return any(each is not stopped and self._says_it_runs(each) for each in self.processes)

    def _consume(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.move_all()

    def move_all(self) -> None:
        """Take all visible files out of the folder of the sink."""
        for path in self._visible("rows"):
            os.rename(path, self.folder / "moved" / path.name)

    def stop_consumer(self) -> None:
        """Let the consumer, if there is one, take its last files."""
        self._ended.set()
        if self._consumer is not None:
            self._consumer.join()

    def _replace(self) -> None:
        self.holder.kill()
        self.holder.wait()
        for file in range(FILES):
            path = self.folder / f"{file}.csv"
            fresh = path.with_suffix(".new")
            fresh.write_text(path.read_text().replace(f"\n{file}-", f"\n{file + 7}-"))
            fresh.replace(path)
        self.start()

    def end(self) -> None:
        """End what lives, and the consumer."""
        self.stop_consumer()
        for process in self.members():
            # One that ends by itself at this moment is no error.
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def the_round(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Round]:
    number, (runtime, acts) = request.param
    seed = request.config.getoption("--kill-seed") + number
    made = Round(tmp_path / "job", runtime, acts, random.Random(seed))
    yield made
    made.end()


def _name(place: tuple[int, tuple[str, tuple[str, ...]]]) -> str:
    number, (runtime, acts) = place
    return f"{number}: {runtime}: {', '.join(acts)}"


def test_a_job_on_each_runtime_meets_each_act_of_its_function() -> None:
    met: dict[str, set[str]] = {runtime: set() for runtime in RUNTIMES}
    for runtime, acts in ROUNDS:
        met[runtime].update(acts)
    for acts_met in met.values():
        assert acts_met >= {"kill", "stop", "move", "fork", "chdir", "exit"}
    assert set().union(*met.values()) >= {*INSIDE, *FATAL}


@pytest.mark.local_kill
@pytest.mark.parametrize("the_round", list(enumerate(ROUNDS)), ids=_name, indirect=True)
def test_acts_end_in_the_exact_rows_or_a_clear_error(
    the_round: Round, request: pytest.FixtureRequest
) -> None:
    acts = request.node.callspec.params["the_round"][1][1]
    the_round.start_all()
    the_round.open_gate()
    for act in acts:
        the_round.await_true("no row is visible", lambda: the_round.has_rows or not the_round.is_running)
        if not the_round.is_running:
            break
        the_round.act(act)
    the_round.open_all_gates()
    codes = [process.wait(PATIENCE_SECONDS) for process in the_round.processes]
    the_round.stop_consumer()
    said = the_round.said()
    if 0 in codes:
        assert the_round.problems(is_whole=True) == [], said
    else:
        named = FATAL.get(acts[-1])
        assert named is not None, said
        assert named in said.splitlines()[-1], said
        assert the_round.problems(is_whole=False) == [], said
    the_round.await_true("processes are left", lambda: not the_round.members())
