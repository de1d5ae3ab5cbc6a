"""The engine's local runtime on trial, with and without workers: real processes, real files, real SIGKILLs.

Rules:

- A process of the operating system, with the workers that it forks, is one incarnation (`incarnations.py`).
  They are one session of the operating system, and the next one starts when no process of it is left. Workers
  have to end by themselves when their coordinator dies; one that does not is a leak, and is killed.
- The runtime schedules itself, so the schedule, steps and time-outs of a scenario do not apply. A checkpoint
  interval in steps is converted to records. Input, parallelism and kills are those of the scenario. With
  workers, a schedule that is not fair makes their connections stall now and then (`stalling_link.py`).
- The system strikes the servers that it has started for a family (`server_strikes.py`), and watches what they
  show while the job runs.
- A finished job whose storage failed is started once more before the search for leaks, as in the simulation:
  what the storage refused to list or delete as the job ended, the next start deletes.
- Workers are as many as an operator has subtasks, `WORKERS` at most. Of what the scenario's user asks, the
  savepoints and stops are made there. A stopped job resumes at the parallelism that the stop asks for. It
  keeps its state backend, and does not claim the savepoint.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from onceproof.engine.checkpoint.metadata import decode_metadata
from onceproof.engine.checkpoint.verification import damages_of
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.restore_point import as_found
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import KAFKA, POSTGRES, S3, Family, options_of
from onceproof.harness.model.fault_answers import FaultAnswer, MissingPoints
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES, FaultKind
from onceproof.harness.model.fault_means import with_means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import ROWS_WRITTEN, TRANSACTION_VISIBLE, History
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.system import applicable
from onceproof.harness.services.service import die_with_parent
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.filed_input import write_files
from onceproof.harness.systems.kit.incarnations import Ending, JobRun, last_line, trial_folder
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.kit.patience import Patience, bytes_logged
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import lengths_of
from onceproof.harness.systems.local.points import (
    ANSWERS,
    CAPABILITIES,
    MISSING,
    MISSING_IN_A_STORE,
    WORKERS_ANSWERS,
    WORKERS_CAPABILITIES,
    WORKERS_MISSING,
)
from onceproof.harness.systems.local.unreliable_storage import DELETION, READ
from onceproof.harness.systems.process.fault_actions import MOVED
from onceproof.harness.systems.process.fault_board import BoardFile
from onceproof.harness.systems.process.job_specification import HIDDEN, Spec, spec_of
from onceproof.harness.systems.process.process_table import end_session, is_session_gone
from onceproof.harness.systems.process.server_strikes import (
    ChangingTopic,
    StrikeSocket,
    StruckServer,
    request_timeout_ms,
)
from onceproof.harness.systems.process.trial_servers import TrialKafka, TrialObjectStore, TrialPostgres
from onceproof.harness.systems.process.visible_outputs import ServerWatch
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import read_all_events

NAME: Final = "local"
WORKERS_NAME: Final = "local-workers"
WORKERS: Final = 3

LONGEST_PROCESS_SECONDS: Final = 60.0
TIMES_WHERE_STRUCK: Final = 3
"""By how much longer a process may take whose servers are struck: it waits for each of them to come back."""
SAVEPOINT_FILE: Final = "deleted file of a savepoint"
CHILD: Final = "onceproof.harness.systems.local.run"
ORPHAN: Final = "process without a coordinator"
SECONDS_TO_END: Final = 15.0
"""How long workers may take to end after their coordinator."""

STRUCK: Final = (POSTGRES, KAFKA, S3)
"""The servers that faults can strike."""
_LOST_FOLDERS: Final = frozenset(kind for kind, row in FAULTS.items() if row.strikes == "folder")
_STORAGE_FAULTS: Final = frozenset(kind for kind, row in FAULTS.items() if row.strikes in (READ, DELETION))
"""Faults after which files may stay that should be deleted, until a later start of the job."""


class LocalSystem:
    """Runs scenarios against the local runtime, one process after another."""

    name: str = NAME
    capabilities: frozenset[Capability] = CAPABILITIES
    missing: MissingPoints = MISSING
    answers: Mapping[FaultKind, FaultAnswer] = ANSWERS

    @staticmethod
    def refusal(family: Family) -> str:
        """Return "": it runs the job of any family, and starts the servers that it needs."""
        return ""

    def __init__(
        self,
        folder: Path | None = None,
        mutant: str = "",
        mutant_file: str = "",
        process_seconds: float = LONGEST_PROCESS_SECONDS,
        postgres: TrialPostgres | None = None,
        kafka: TrialKafka | None = None,
        objects: TrialObjectStore | None = None,
    ) -> None:
        if mutant:
            # An unknown mutant is an error here, not in each child.
            find_mutant(mutant, mutant_file)
        self._folder = folder
        self._mutant = mutant
        self._mutant_file = mutant_file
        self._process_seconds = process_seconds
        self._postgres = postgres or TrialPostgres()
        self._kafka = kafka or TrialKafka()
        self._objects = objects or TrialObjectStore()

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        needed = options_of(family).servers
        struck = [server for server in STRUCK if server in needed]
        immortal = () if self._objects.survives_kills else (S3,)
        missing = {**self.missing, **(MISSING_IN_A_STORE if S3 in needed else {})}
        faults, left = applicable(scenario.faults, self.capabilities, missing, struck, immortal)
        with ExitStack() as stack:
            folder = stack.enter_context(trial_folder(self._folder))
            spec = msgspec.structs.replace(
                spec_of(family, scenario, folder),
                faults=faults,
                is_endless=scenario.is_endless,
                mutant=self._mutant,
                mutant_file=self._mutant_file,
                files=_input_files(scenario, faults, folder),
                **self._ends_of_job(family, scenario, faults, stack),
            )
            lengths = lengths_of(scenario)
            run = self.run_of(spec, lengths, scenario, folder)
            if spec.strikes:
                run.process_seconds *= TIMES_WHERE_STRUCK
            # They import clients, which only some families need.
            if spec.postgres:
                from onceproof.harness.systems.process.postgres_io import PostgresWatch

                run.watches.append(stack.enter_context(PostgresWatch(spec.postgres)))
            if spec.kafka is not None:
                from onceproof.harness.systems.process.kafka_io import KafkaWatch

                run.watches.append(stack.enter_context(KafkaWatch(spec.kafka)))
            if spec.objects is not None:
                from onceproof.harness.systems.process.object_io import ObjectWatch

                run.watches.append(stack.enter_context(ObjectWatch(spec.objects)))
            history = run.run()
        history.statistics.not_applicable = left
        return history

    def close(self) -> None:
        """Stop the servers that a family has needed."""
        self._postgres.close()
        self._kafka.close()
        self._objects.close()

    def _ends_of_job(
        self, family: Family, scenario: Scenario, faults: tuple[Fault, ...], stack: ExitStack
    ) -> dict[str, Any]:
        """Return what a specification says of the servers that a family needs, while the stack lasts."""
        servers: dict[str, StruckServer] = {}
        topic: ChangingTopic | None = None
        ends: dict[str, Any] = {}
        if POSTGRES in options_of(family).servers:
            address, address_of_job = stack.enter_context(self._postgres.database())
            ends = {"postgres": address, "postgres_of_job": address_of_job}
            servers[POSTGRES] = self._postgres.struck
        if KAFKA in options_of(family).servers:
            ends["kafka"], topic = stack.enter_context(self._kafka.changing_topics(scenario.records))
            servers[KAFKA] = self._kafka.struck
        if S3 in options_of(family).servers:
            objects = stack.enter_context(self._objects.place())
            ends |= {"objects": objects, "checkpoints": objects.checkpoints, "savepoints": objects.savepoints}
            servers[S3] = self._objects.struck
        if any(fault.server or (topic and FAULTS[fault.kind].strikes == "input") for fault in faults):
            ends["strikes"] = stack.enter_context(StrikeSocket(servers, topic)).address
            ends["request_timeout_ms"] = request_timeout_ms(faults)
        return ends

    def run_of(self, spec: Spec, lengths: Mapping[str, int], scenario: Scenario, folder: Path) -> LocalRun:
        """Return the run of a scenario's specification in ``folder``."""
        return LocalRun(spec, lengths, folder, process_seconds=self._process_seconds, moves_output=True)


class LocalWorkersSystem(LocalSystem):
    """Runs scenarios against the local runtime with workers."""

    name = WORKERS_NAME
    capabilities = WORKERS_CAPABILITIES
    missing = WORKERS_MISSING
    answers: Mapping[FaultKind, FaultAnswer] = WORKERS_ANSWERS

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs: its seed decides which kills come at a time of their own."""
        return with_means(scenario, frozenset())

    def run_of(self, spec: Spec, lengths: Mapping[str, int], scenario: Scenario, folder: Path) -> LocalRun:
        """Return the run of a scenario's specification in ``folder``."""
        schedule = scenario.schedule
        spec = msgspec.structs.replace(
            spec,
            workers=WORKERS,
            operations=scenario.asked,
            stall_seed=0 if schedule.kind == "fair" else 1 + schedule.seed,
            board=str(folder / "faults.json"),
        )
        return WorkersRun(spec, lengths, folder, process_seconds=self._process_seconds, moves_output=True)


def _input_files(scenario: Scenario, faults: Iterable[Fault], folder: Path) -> tuple[str, ...]:
    """Write the input of a scenario into files if a fault changes them; return their paths, in order."""
    changes = [fault for fault in faults if FAULTS[fault.kind].strikes == "input"]
    if scenario.is_endless or all(fault.means in TOPIC_CHANGES for fault in changes):
        return ()
    place = folder / "input"
    place.mkdir()
    return tuple(write_files(place, scenario.records).values())


def start_child(
    module: str, path: Path, output: BinaryIO, *, new_session: bool = False
) -> subprocess.Popen[bytes]:
    """Start a module of this project with a specification; it prints into ``output``.

    On Linux it dies with this process: one that is left alone would try for ever to reach a server that has
    died as well.
    """
    return subprocess.Popen(
        # -P: a json.py in the working directory must not stand in for Python's.
        [sys.executable, "-P", "-m", module, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=new_session,
        preexec_fn=die_with_parent,
    )


def _shows_rows(history: History) -> bool:
    """Return whether rows have become visible."""
    return any(
        kind == ROWS_WRITTEN or (kind == TRANSACTION_VISIBLE and payload["rows"])
        for _, kind, _, payload in history.events
    )


def damages_in(folder: str, read: Callable[[str], bytes]) -> list[str]:
    """Return in words what is damaged or missing of the savepoint in a folder; ``read`` reads its files."""
    try:
        metadata = decode_metadata(read(METADATA), METADATA)
    except (OSError, DamagedFile) as error:
        return [str(error)]
    return [str(damage) for damage in damages_of(as_found(metadata, folder), read)]


@dataclass(slots=True)
class LocalRun(JobRun):
    """The run of one job on the local runtime.

    ``process_seconds`` is how long a process may show nothing new. ``started`` is called with each process,
    so that the caller can kill it. With ``moves_output`` every second process writes its part files into
    another folder, in buckets and in files of a few rows, and must commit the pending ones of the process
    before it where they are.
    """

    moves_output: bool = False
    process_seconds: float = LONGEST_PROCESS_SECONDS
    started: Callable[[subprocess.Popen[bytes]], None] | None = None
    watches: list[ServerWatch] = field(default_factory=list)
    """Look at the job's output on servers meanwhile."""

    def part_folder(self, number: int) -> str:
        """Return another folder for every second process, if the output moves."""
        return f"{self.spec.output}{MOVED}" if self.in_buckets(number) else ""

    def in_buckets(self, number: int) -> bool:
        """Return True for every second process, if the output moves."""
        return self.moves_output and number % 2 == 0

    def next_process(self, builder: HistoryBuilder) -> Ending:
        """Run one process until it is dead. Behind a lost folder it knows of nothing that others left.

        The job has ended there if it has written rows. Beside part files it must not begin anew, which is
        tried last; other ends do not show it that there are rows.
        """
        if isinstance(builder, JobHistory) and builder.run.history.has_fired(_LOST_FOLDERS):
            builder.disown_unfinished()
            if not builder.run.is_over and _shows_rows(builder.run.history):
                failed = {"kind": event_log.JOB_FAILED, "cause": f"{self.spec.checkpoints} has vanished"}
                return Ending(time.monotonic_ns(), False, True, [failed], "")
        return JobRun.next_process(self, builder)

    def _has_files(self, number: int) -> bool:
        """Return whether part files are visible where a process writes."""
        files = Path(self.part_folder(number) or self.spec.output).rglob(f"*{self.spec.suffix}")
        return any(not path.name.startswith(HIDDEN) for path in files)

    def job_is_over(self, builder: HistoryBuilder) -> None:
        """Check the savepoints; start a finished job once more if its storage failed.

        What stayed after such a failure, the next start deletes. A job whose checkpoints have vanished before
        its end is started once more as well: it must not begin anew beside what it has written. What has not
        struck by then does not strike such a start, which no restart strategy follows.
        """
        assert isinstance(builder, JobHistory), "it runs jobs of the engine"
        builder.run.waiting = ClockState.all_hit(len(self.spec.faults))
        history = builder.run.history
        is_lost = history.has_fired(_LOST_FOLDERS) and not history.has_finished
        if is_lost and (self._has_files(1) or self._has_files(2)):
            # Elsewhere it could not know that there are rows.
            if not self._has_files(self._number + 1):
                self._number += 1
            ending = self.next_process(builder)
            builder.add_process_log(ending.events if ending.says_success else [])
        for folder in builder.savepoints:
            for damage in damages_in(folder, self._reading(folder)):
                builder.run.left_behind(SAVEPOINT_FILE, f"{folder}: {damage}")
        if not history.has_finished or not history.has_fired(_STORAGE_FAULTS):
            return
        ending = self.next_process(builder)
        if all(event["kind"] != event_log.JOB_FINISHED for event in ending.events):
            builder.run.cannot_begin(ending.last_words)

    def _reading(self, folder: str) -> Callable[[str], bytes]:
        """Return what reads the files of a savepoint in a folder."""
        objects = self.spec.objects
        if objects is None:
            return open_storage(folder, stands_in=True).read
        # It imports a client, which only some families need.
        from onceproof.harness.systems.process.object_io import StoreReader

        reader = StoreReader(objects)
        return lambda path: reader.content_at(f"{folder}/{path}")

    def start(self, path: Path, output: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the process of a specification, with workers in a new session; it prints into ``output``."""
        return start_child(CHILD, path, output, new_session=self.spec.workers > 1)

    def is_dead(self, process: subprocess.Popen[bytes]) -> None:
        """Called when a process is dead; does nothing by default."""

    def live(self, number: int, path: Path) -> Ending:
        """Start a process, wait for its end, and return how it ended; kill it when its time is over."""
        said = self.folder / f"process-{number}.txt"
        begun = time.monotonic_ns()
        with said.open("wb") as stream:
            process = self.start(path, stream)
        log = self.events_path(number)
        patience = Patience(self.process_seconds, lambda: bytes_logged(log))
        try:
            # wait() with a time-out polls at growing intervals, which would lengthen measured recovery times.
            with patience.ended_by(process.kill) as is_in_time:
                if self.started is not None:
                    self.started(process)
                process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self.is_dead(process)
        at = time.monotonic_ns()
        events = read_all_events(log)
        # A process has started when it logs the first event of the job.
        self.waited_seconds += ((events[0]["at"] if events else at) - begun) / 1e9
        for watch in self.watches:
            events = sorted([*events, *watch.take_events()], key=lambda event: event["at"])
        return Ending(
            at=at,
            was_killed=process.returncode == -signal.SIGKILL,
            in_time=is_in_time(),
            events=events,
            last_words=f"exit code {process.returncode}: {last_line(said)}",
            says_success=process.returncode == 0,
        )


@dataclass(slots=True)
class WorkersRun(LocalRun):
    """The run of one job on coordinators with workers."""

    _orphans: list[str] = field(default_factory=list, init=False)

    def run(self) -> History:
        """Run the job until it has ended; the board has counted its protocol points."""
        # super() without arguments fails here, because dataclass(slots=True) creates a new class.
        history = LocalRun.run(self)
        history.statistics.points = dict(BoardFile(self.spec.board).read().points)
        return history

    def is_dead(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the workers of a dead coordinator are gone; kill and note those that are not."""
        if not is_session_gone(process.pid, SECONDS_TO_END):
            self._orphans.append(f"of coordinator {process.pid}")
            end_session(process.pid)

    def job_is_over(self, builder: HistoryBuilder) -> None:
        """Add the workers that have outlived their coordinator, then as any local run."""
        for orphan in self._orphans:
            builder.run.left_behind(ORPHAN, orphan)
        with BoardFile(self.spec.board).held() as state:
            state.waiting = ClockState.all_hit(len(self.spec.faults))
            state.late = ()
            state.refusal = None
        LocalRun.job_is_over(self, builder)
