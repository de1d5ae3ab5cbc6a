"""The engine's local runtime on trial: real processes, real files, real SIGKILLs.

The rules this module lives by:

- A process is one incarnation. When it has died, and not before, the next one starts over the same folders
  and nothing else; the parallelism that a kill asked for is all that it is told anew.
- The last planned kill is followed by a process that runs to the end of the job. One that does not end in
  its time is killed, and the run has used up its budget.
- The runtime schedules itself: of a scenario's schedule, steps and time-outs nothing is left, and a
  checkpoint interval in steps becomes one in records. What it says of input, parallelism and deaths is done
  to the letter.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.family import Family
from harness.history import History, Row
from harness.mutants import find_mutant
from harness.scenario import Scenario
from harness.systems.event_log import read_events
from harness.systems.protocol import Capability, applicable
from harness.systems.retelling import ReadRows, Retelling
from harness.systems.spec import Spec, WaitingState, write_spec

NAME: Final = "local"
STEPS_PER_RECORD: Final = 3
"""Poll at the source, deliver to the keyed operator, deliver to the sink: as the generator counts."""

LONGEST_PROCESS_SECONDS: Final = 60.0
CHILD: Final = "harness.systems.local_child"

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.RESCALE,
    }
)


class LocalSystem:
    """Runs scenarios against the local runtime, a process after another."""

    name = NAME
    capabilities = CAPABILITIES

    def __init__(
        self,
        folder: Path | None = None,
        mutant: str = "",
        mutant_file: str = "",
        process_seconds: float = LONGEST_PROCESS_SECONDS,
    ) -> None:
        if mutant:
            # A wrong name is told here, and not by each child.
            find_mutant(mutant, mutant_file or None)
        self._folder = folder
        self._mutant = mutant
        self._mutant_file = mutant_file
        self._process_seconds = process_seconds

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """One run in folders of its own; there is no trace to be had."""
        with _folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, CAPABILITIES)
            spec = msgspec.structs.replace(
                spec_of(family, scenario, folder),
                faults=faults,
                mutant=self._mutant,
                mutant_file=self._mutant_file,
            )
            lengths = {split: len(records) for split, records in scenario.records.items()}
            history = LocalRun(spec, lengths, folder, process_seconds=self._process_seconds).run()
        history.statistics.not_applicable = left
        return history


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="onceproof-") as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="run-", dir=folder))


def spec_of(family: Family, scenario: Scenario, folder: Path) -> Spec:
    """Return what a scenario means for the local runtime, without its faults."""
    records = folder / "records.json"
    records.write_bytes(msgspec.json.encode(scenario.records))
    return Spec(
        family=address_of(family),
        job_name=family.name,
        checkpoints=str(folder / "checkpoints"),
        output=str(folder / "output"),
        events="",
        records=str(records),
        parameters=scenario.parameters,
        source_parallelism=scenario.source_parallelism,
        parallelism=scenario.parallelism,
        sink_parallelism=scenario.sink_parallelism,
        max_parallelism=scenario.max_parallelism,
        interval_records=max(1, scenario.checkpoint_interval_ms // STEPS_PER_RECORD),
        channel_buffers=scenario.channel_capacity,
        retained=scenario.retained,
        tolerable_failures=scenario.tolerable_failures,
        restart_delay_ms=scenario.restart_delay_ms,
    )


def address_of(family: Family) -> str:
    """Return under which name or path another process finds a family."""
    module = str(getattr(family, "__name__", ""))
    if module.startswith("scenarios."):
        return module.removeprefix("scenarios.")
    return str(getattr(family, "__file__", family.name))


def read_json_rows(path: Path) -> list[Row]:
    """Return the rows of a part file of JSON lines."""
    with path.open("rb") as lines:
        return [_as_tuple(msgspec.json.decode(line)) for line in lines]


def _as_tuple(value: Any) -> Any:
    return tuple([_as_tuple(each) for each in value]) if isinstance(value, list) else value


@dataclass(slots=True)
class LocalRun:
    """One job from its first process to its end.

    ``lengths`` are the numbers of records by split. ``started`` is called with each process, for somebody who
    wants to kill it from outside; ``progress`` after each process with the history so far.
    """

    spec: Spec
    lengths: Mapping[str, int]
    folder: Path
    read_rows: ReadRows = read_json_rows
    process_seconds: float = LONGEST_PROCESS_SECONDS
    started: Callable[[subprocess.Popen[bytes]], None] | None = None
    progress: Callable[[History], None] | None = None
    _processes: int = field(default=0, init=False)
    _died_at: int = field(default=0, init=False)

    def run(self) -> History:
        """Start process after process until the job has ended."""
        begun = time.perf_counter()
        spec = self.spec
        output, checkpoints = Path(spec.output), Path(spec.checkpoints)
        output.mkdir(parents=True, exist_ok=True)
        checkpoints.mkdir(parents=True, exist_ok=True)
        retelling = Retelling(
            spec.faults, self.lengths, output, spec.suffix, self.read_rows, spec.parallelism
        )
        waiting = WaitingState()
        while not retelling.is_over:
            code = self._incarnation(waiting, retelling)
            last = retelling.last_fault
            if last is not None:
                waiting = msgspec.convert(last["waiting"], WaitingState)
            fault = None if last is None else spec.faults[last["number"]]
            if code == -signal.SIGKILL and not retelling.is_over:
                retelling.killed(self._died_at, fault is not None and fault.kind == "kill_process")
                time.sleep(spec.restart_delay_ms / 1000)
            elif not retelling.is_over:
                retelling.cannot_begin(self._last_words(code))
            if self.progress is not None:
                self.progress(retelling.history)
        retelling.at_rest(checkpoints)
        retelling.history.statistics.milliseconds = (time.perf_counter() - begun) * 1000
        return retelling.history

    def _incarnation(self, waiting: WaitingState, retelling: Retelling) -> int:
        """Run one process to its death; its exit code."""
        self._processes += 1
        number = self._processes
        events = self.folder / f"events-{number}.jsonl"
        path = self.folder / f"process-{number}.json"
        spec = msgspec.structs.replace(
            self.spec, parallelism=retelling.next_parallelism, waiting=waiting, events=str(events)
        )
        write_spec(spec, path)
        with self._said(number).open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        # Waiting with a time-out would look only now and then, and every recovery would seem longer.
        timer = threading.Timer(self.process_seconds, process.kill)
        timer.start()
        try:
            if self.started is not None:
                self.started(process)
            process.wait()
        finally:
            in_time = timer.is_alive()
            timer.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
        self._died_at = time.monotonic_ns()
        retelling.hear(read_events(events))
        if not in_time and not retelling.is_over:
            retelling.out_of_time()
        return process.returncode

    def _said(self, number: int) -> Path:
        return self.folder / f"process-{number}.txt"

    def _last_words(self, code: int) -> str:
        lines = self._said(self._processes).read_text(errors="replace").strip().splitlines()
        return f"exit code {code}: {lines[-1] if lines else 'no message'}"
