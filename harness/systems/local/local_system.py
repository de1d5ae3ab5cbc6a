"""The engine's local runtime on trial: real processes, real files, real SIGKILLs.

The rules this module lives by:

- A process of the operating system is one incarnation (`incarnations.py` says what follows from that).
- The runtime schedules itself: of a scenario's schedule, steps and time-outs nothing is left, and a
  checkpoint interval in steps becomes one in records. What it says of input, parallelism and deaths is done
  to the letter.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family
from onceproof.harness.model.faults import FaultKind, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.process.incarnations import Ending, JobRun, last_line, trial_folder
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.recording.event_log import read_events

NAME: Final = "local"

LONGEST_PROCESS_SECONDS: Final = 60.0
CHILD: Final = "onceproof.harness.systems.local.local_child"

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.RESCALE,
        Capability.ENGINE,
    }
)


class LocalSystem:
    """Runs scenarios against the local runtime, a process after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing: Final[frozenset[tuple[FaultKind, Point]]] = frozenset()

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
        with trial_folder(self._folder) as folder:
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


@dataclass(slots=True)
class LocalRun(JobRun):
    """One job on the local runtime.

    ``started`` is called with each process, for somebody who wants to kill it from outside.
    """

    process_seconds: float = LONGEST_PROCESS_SECONDS
    started: Callable[[subprocess.Popen[bytes]], None] | None = None

    def live(self, number: int, path: Path) -> Ending:
        """Run one process to its death."""
        said = self.folder / f"process-{number}.txt"
        with said.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
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
        return Ending(
            at=time.monotonic_ns(),
            was_killed=process.returncode == -signal.SIGKILL,
            in_time=in_time,
            events=read_events(self.events_path(number)),
            last_words=f"exit code {process.returncode}: {last_line(said)}",
        )
