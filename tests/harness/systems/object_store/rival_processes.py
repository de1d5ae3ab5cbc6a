"""Processes of one job over an object store that do not know of each other: paused, late, doubled, killed.

The rules this module lives by:

- Each process is a real run of the local runtime, in a thread of its own. Only one thread runs at a time: at
  each request to the store the process waits until it is chosen again. So a run is a function of its seed.
- A process may be paused for as long as others live, or be killed at any request. At requests of one kind,
  which each run draws, it is paused more often. The next one may begin at any time, also while others run.
- At the end one more process runs undisturbed, while late requests still arrive; and one that must find that
  the job has finished.
- The verdict is from outside: the rows are exactly those of the family's oracle. Two histories, a commit that
  its successor does not go on from, or a deleted file that is needed, all end in other rows or in an error.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.errors import Ending
from onceproof.engine.runtime import job_scope
from onceproof.engine.runtime.checkpoint_writer import Report, Work, Writer
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_startup import recover_job
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import METADATA
from onceproof.harness.model.family import NOTHING_DECLARED, Family
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.local.part_file_io import PartFileIO
from tests.harness.systems.object_store.object_store import NetworkFaults, ObjectStore, StoreClient
from tests.patience import PATIENCE_SECONDS

_NO_FAULTS: Final = NetworkFaults()
_SWITCHES: Final = (0.01, 0.03, 0.1, 0.3)
_PAUSED_AT: Final = (f"/{METADATA}", f"/{METADATA}", "read chk-", "list ", "delete ")
_PAUSES: Final = (0.2, 0.7)
_KILLS: Final = (0.0, 0.002, 0.01)
_FAULTS: Final = (0.0, 0.0, 0.01, 0.05)


class _Killed(Ending):
    """The death of a process; it is an Ending, so that no handler of the engine survives it."""


class _AtOnce:
    """A writer without a thread: the only thread of a process is the one that is chosen."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def submit(self, work: Work) -> None:
        """Do the work."""
        self._report(work.run())

    def withdraw(self, is_void: Callable[[Any], bool]) -> list[Work]:
        """Withdraw nothing: no work waits."""
        return []

    def close(self) -> None:
        """Do nothing."""


class _Execution(LocalExecution):
    def make_writer(self, report: Callable[[Report], None]) -> Writer:
        def reported(written: Report) -> None:
            self._written.put(lambda: self._report(written))

        return _AtOnce(reported)


@dataclass
class _Process:
    name: str
    thread: threading.Thread
    chosen: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    next_request: str = ""
    has_ended: bool = False
    is_killed: bool = False
    failure: str | None = None
    result: JobExecutionResult | None = None


@dataclass(frozen=True, slots=True)
class RivalRun:
    """What a run has shown: ``problem`` in one line, or None, and each request with its process."""

    problem: str | None
    requests: Sequence[str]
    switches: int


def run_rivals(family: Family, records: Mapping[str, Sequence[InputRecord]], seed: int) -> RivalRun:
    """Run processes of a family's job against each other, and judge the rows that they leave."""
    with tempfile.TemporaryDirectory(prefix="onceproof-") as folder:
        random = Random(seed)
        rivals = _Rivals(family, records, Path(folder), random)
        # A token of the job's own would name files otherwise at each replay.
        with replaced(job_scope, "token_hex", lambda count: random.randbytes(count).hex()):
            problem = rivals.run()
    where = None if problem is None else f"seed {seed}: {problem}"
    return RivalRun(where, rivals.requests, rivals.switches)


class _Rivals:
    """One run: the store, the processes, and who is chosen."""

    def __init__(
        self, family: Family, records: Mapping[str, Sequence[InputRecord]], folder: Path, random: Random
    ) -> None:
        self._family = family
        self._records = {split: tuple(each) for split, each in records.items()}
        self._folder = folder
        self._random = random
        self._switch = random.choice(_SWITCHES)
        self._paused_at, self._pause = random.choice(_PAUSED_AT), random.choice(_PAUSES)
        self._kill = random.choice(_KILLS)
        self._faults = NetworkFaults(random.choice(_FAULTS), random.choice(_FAULTS))
        self._rivals = random.randint(2, 4)
        self._store = ObjectStore()
        self._processes: list[_Process] = []
        self._waits = threading.Semaphore(0)
        self.requests: list[str] = []
        self.switches = 0

    def run(self) -> str | None:
        """Return what is wrong in the end."""
        try:
            self._let_them_run()
            last = self._alone()
            if last.failure is not None:
                return f"the last process does not go on: {last.failure}"
            again = self._alone()
            if again.result is None or not again.result.already_finished:
                return f"the job had finished, and is run again: {again.failure}"
        finally:
            self._kill_all()
        expected = Counter(self._family.expected(self._records, NOTHING_DECLARED))
        rows = Counter(self._rows())
        if rows == expected:
            return None
        lost, extra = expected - rows, rows - expected
        return f"{lost.total()} rows are lost {list(lost)[:3]}, {extra.total()} too many {list(extra)[:3]}"

    def _let_them_run(self) -> None:
        current: _Process | None = self._begin(self._faults)
        while current is not None:
            self._choose(current)
            random = self._random
            if random.random() < self._switch:
                self._store.land_one(random)
            if not current.has_ended and random.random() < self._kill:
                self._end(current)
            is_paused = self._paused_at in current.next_request and random.random() < self._pause
            if current.has_ended or is_paused or random.random() < self._switch:
                self.switches += 1
                current = self._next()

    def _next(self) -> _Process | None:
        """Return a process that lives or a new one; None when all have ended."""
        living = [each for each in self._processes if not each.has_ended]
        if len(self._processes) < self._rivals and (not living or self._random.random() < 0.5):
            return self._begin(self._faults)
        return self._random.choice(living) if living else None

    def _alone(self) -> _Process:
        """Run one more process to its end, while what is on its way arrives."""
        process = self._begin(_NO_FAULTS)
        while not process.has_ended:
            self._choose(process)
            if self._random.random() < self._switch:
                self._store.land_one(self._random)
        return process

    def _begin(self, faults: NetworkFaults) -> _Process:
        name = str(len(self._processes) + 1)
        process = _Process(name, threading.Thread(target=lambda: self._live(process, faults), daemon=True))
        self._processes.append(process)
        process.thread.start()
        return process

    def _choose(self, process: _Process) -> None:
        """Let a process run up to its next request, or to its end."""
        process.chosen.release()
        if not self._waits.acquire(timeout=PATIENCE_SECONDS):
            raise TimeoutError(f"process {process.name} neither asks nor ends")

    def _end(self, process: _Process) -> None:
        process.is_killed = True
        self._choose(process)

    def _kill_all(self) -> None:
        for process in self._processes:
            while not process.has_ended:
                self._end(process)

    def _live(self, process: _Process, faults: NetworkFaults) -> None:
        def turn(request: str) -> None:
            if not process.is_killed:
                process.next_request = request
                self._waits.release()
                process.chosen.acquire()
            if process.is_killed:
                raise _Killed
            self.requests.append(f"{process.name}: {request}")

        process.chosen.acquire()
        try:
            storage = MountedStorage(StoreClient(self._store, turn, self._random, faults))
            process.result = self._execute(storage)
        except _Killed:
            process.failure = "killed"
        except Exception as error:
            process.failure = f"{type(error).__name__}: {error}"
        process.has_ended = True
        self._waits.release()

    def _execute(self, storage: MountedStorage) -> JobExecutionResult:
        environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_mapping(
                {
                    "execution.checkpointing.dir": "memory://not-used",
                    "execution.checkpointing.interval-records": 4,
                    "execution.checkpointing.tolerable-failed-checkpoints": self._random.choice((0, 2)),
                    "execution.checkpointing.num-retained": self._random.choice((1, 2)),
                    "pipeline.buffer-records": 1,
                    "restart-strategy.type": "fixed-delay",
                    "restart-strategy.fixed-delay.attempts": 2,
                    "restart-strategy.fixed-delay.delay": 0,
                }
            )
        )
        environment.set_parallelism(1)
        splits = {
            split: [(value, timestamp) for timestamp, value in records]
            for split, records in self._records.items()
        }
        self._family.job(environment, PartFileIO(CollectionSource(splits), self._folder, {}, 1))
        graph = environment.get_job_graph(self._family.name)
        recovered = recover_job(graph, storage)
        if isinstance(recovered, JobExecutionResult):
            return recovered
        return _Execution(graph, storage, recovered).run()

    def _rows(self) -> Iterator[Row]:
        for path in sorted(self._folder.iterdir()):
            if not path.name.startswith("."):
                for line in path.read_text().splitlines():
                    yield as_tuple(msgspec.json.decode(line))
