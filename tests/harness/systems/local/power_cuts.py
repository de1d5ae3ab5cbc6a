"""Power cuts on real files: a job's file calls are recorded, and the disks after a cut rebuilt and tried.

The rules this module lives by:

- A job runs in real processes on real files; some of them may kill themselves, also between two given calls,
  take a savepoint, or stop with one. Its calls are recorded (`recorded_child.py`), so one recording gives any
  number of disks. What a killed process has not synced is in the cache when the next one reads it, and may be
  lost at a later cut.
- A cut is a number of calls, a seed that draws what survived, and the parallelism of the next process. All
  stand in the sentence of a problem: with the seed of the input they replay it.
- After a cut the process is started again on the rebuilt disk with its arguments, and runs to the job's end.
  Then the rows are those of the family's oracle, what a reader could have seen before the cut is there
  (`recorded_output.py` says when), and the latest checkpoint that was reported complete was on the disk, with
  the record of the job. A savepoint that was reported complete and not claimed was there, too, and a second
  job that begins from it writes the rest of the rows.
- The disk is rebuilt in its old place, because checkpoints and records hold full paths.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.harness.model.family import NOTHING_DECLARED, Family
from onceproof.harness.model.family_places import address_of
from onceproof.harness.model.history import Row
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.volatile_disk import Image, PowerCut
from tests.harness.systems.disk.recorded_calls import MARK, PUBLISH, Call, Replay, read_log, unsynced
from tests.harness.systems.disk.sqlite_calls import unsynced_sqlite
from tests.harness.systems.local.recorded_child import (
    FINISHED,
    OTHER_CHECKPOINTS,
    SAVED,
    SAVEPOINT,
    RecordedJob,
    RecordedProcess,
    run,
)
from tests.harness.systems.local.recorded_output import OUTPUT
from tests.patience import PATIENCE_SECONDS

CHILD: Final = "tests.harness.systems.local.recorded_child"
ROOT: Final = Path(__file__).parents[4]
CONTINUED: Final = "results/continued"
"""The output of a second job that begins from a savepoint."""
_METADATA: Final = "/_metadata"
_RECORD: Final = re.compile(r"state/[a-z]+/jobs/[0-9a-f]+\.json")
"""The registry: without it another program under the job's name would not be refused."""
_CHECKPOINT: Final = re.compile(r"state/[a-z]+/[0-9a-f]+/chk-([0-9]+)/_metadata")
_WORTH_A_CUT: Final = frozenset(
    {"rename", "link", "unlink", "mkdir", "fsync", "write_at", "truncate", MARK, PUBLISH}
)
"""After the other calls, a cut shows nothing that it does not show after one of these."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut after ``calls`` calls; ``seed`` draws what survived, None keeps only what is synced.

    ``parallelism`` is that of the process that is started afterwards; 0: as it was.
    """

    calls: int
    seed: int | None
    parallelism: int = 0

    def strike(self, replay: Replay) -> Image:
        """Return what is left of the disk of a replay, which has come to the cut."""
        if self.seed is None:
            return replay.disk.after(PowerCut(Random(0), 0, 0))
        return replay.disk.after(PowerCut(Random(self.seed), in_order=False))

    def __str__(self) -> str:
        return f"cut after call {self.calls}, seed {self.seed}, parallelism {self.parallelism or 'as before'}"


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a job from its first process to its end, and the rows that it should commit."""

    job: RecordedJob
    processes: Sequence[RecordedProcess]
    calls: Sequence[Call]
    expected: Counter[Row]

    def cuts(self, count: int, seed: int, rescales_to: Sequence[int] = (0,)) -> Iterator[Cut]:
        """Draw cuts at any place, with any of the parallelisms afterwards."""
        random = Random(seed)
        for _ in range(count):
            calls, survives = random.randint(1, len(self.calls)), random.getrandbits(32)
            yield Cut(calls, survives, rescales_to[survives % len(rescales_to)])

    def sites(self) -> set[str]:
        """Return the call sites of all syncs."""
        return {call.other for call in self.calls if call.method == "fsync"}

    def problem_after(self, cut: Cut, *without: str) -> str | None:
        """Return what is wrong after a cut, in one line; None if nothing is.

        ``without`` are call sites whose syncs are left out.
        """
        replay = Replay(self.calls, self.job.root, without)
        replay.run_to(cut.calls)
        found = self._problem_of(self._struck(cut, replay))
        return found and f"{cut}: {found}"

    def first_broken(self, cuts: Iterable[Cut]) -> str | None:
        """Return what is wrong after a cut already before the job is started again; None if nothing is.

        The cuts are tried in their order, which is that of the calls.
        """
        replay = Replay(self.calls, self.job.root)
        for cut in cuts:
            replay.run_to(cut.calls)
            if (broken := self._broken(self._struck(cut, replay))) is not None:
                return f"{cut}: {broken}"
        return None

    def catch(self, *sites: str, tries: int = 40, seed: int = 1) -> str | None:
        """Return the problem of some cut if the syncs of call sites are left out; None if no cut shows one.

        A disk that is the same with these syncs is not tried: what it leads to is no fault of theirs. Nor is
        a disk that was tried before.
        """
        struck: list[_Struck] = []
        for cut, whole, replay in self._with_and_without(sites, tries, seed):
            if cut.strike(replay) == cut.strike(whole):
                continue
            each = self._struck(cut, replay)
            if (broken := self._broken(each)) is not None:
                return f"{cut}: {broken}"
            struck.append(each)
        tried: list[_Struck] = []
        for each in struck:
            if any(each.is_like(other) for other in tried):
                continue
            tried.append(each)
            if (problem := self._problem_of(each)) is not None:
                return f"{each.cut}: {problem}"
        return None

    def _with_and_without(
        self, sites: Collection[str], tries: int, seed: int
    ) -> Iterator[tuple[Cut, Replay, Replay]]:
        """Yield cuts in the order of the calls, each with the disk as it was, and without some syncs."""
        random = Random(seed)
        numbers = [number for number, call in enumerate(self.calls, 1) if call.method in _WORTH_A_CUT]
        cuts = [Cut(number, None) for number in numbers]
        cuts += [Cut(random.choice(numbers), random.getrandbits(32)) for _ in range(tries)]
        whole, without = (Replay(self.calls, self.job.root, each) for each in ((), sites))
        for cut in sorted(cuts, key=lambda each: each.calls):
            whole.run_to(cut.calls)
            without.run_to(cut.calls)
            yield cut, whole, without

    def _problem_of(self, struck: _Struck) -> str | None:
        """Start the job again on a disk, and judge what it leaves."""
        if (broken := self._broken(struck)) is not None:
            return broken
        planned = self.processes[max(struck.processes, 1) - 1]
        process = replace(
            planned,
            dies_after=0,
            dies_at=("", ""),
            asks="",
            parallelism=struck.cut.parallelism or planned.parallelism,
        )
        job = replace(self.job, process=process, savepoint=_begun_from(process, struck.marks, self.job.root))
        with self._rebuilt(struck.disk):
            try:
                run(job)
            except Exception as error:
                return f"the job does not go on: {error}"
            problem = job.form.lost_at_end(Path(job.root), struck.seen)
            problem = problem or _difference(self._rows(OUTPUT), self.expected)
        for mark in struck.marks:
            if problem is None and mark.startswith(SAVEPOINT) and not process.begins_from:
                problem = self._problem_of_savepoint(struck.disk, job, mark.removeprefix(SAVEPOINT))
        return problem

    def _problem_of_savepoint(self, disk: Image, job: RecordedJob, folder: str) -> str | None:
        """Begin a second job from a savepoint, which writes its rows elsewhere."""
        second = replace(job, savepoint=f"{job.root}/{folder}", output=CONTINUED)
        with self._rebuilt(disk):
            try:
                run(second)
            except Exception as error:
                return f"savepoint {folder} does not restore: {error}"
            before, after = self._rows(OUTPUT), self._rows(CONTINUED)
        # The first job may have gone on after the savepoint, so its rows may have some of the second one's.
        problem = _difference((before | after), self.expected) or _difference(after, after & self.expected)
        return problem and f"savepoint {folder}: {problem}"

    @contextmanager
    def _rebuilt(self, disk: Image) -> Iterator[None]:
        """Write a disk into its old place for as long as the context lasts."""
        root = Path(self.job.root)
        root.mkdir()
        try:
            write_image(disk, root)
            # Each start is one of the program anew, in which the power stays on.
            databases = unsynced_sqlite() if self.job.writes_tables else nullcontext()
            with unsynced(), databases, submitted(Configuration(), lambda graph: None, __file__):
                yield
        finally:
            shutil.rmtree(root)

    def _rows(self, output: str) -> Counter[Row]:
        return self.job.form.rows(Path(self.job.root), output)

    def _struck(self, cut: Cut, replay: Replay) -> _Struck:
        return _Struck(cut, replay, self.job.form.seen(self.calls, replay))

    def _broken(self, struck: _Struck) -> str | None:
        """Return what is wrong on a disk already before the job is started on it."""
        broken = _broken_report(struck.marks, struck.disk)
        return broken or self.job.form.lost_on(struck.disk, struck.seen)


class _Struck:
    """What a cut leaves: the disk, what had been reported, what readers had seen, how many had started."""

    __slots__ = ("cut", "disk", "marks", "processes", "seen")

    def __init__(self, cut: Cut, replay: Replay, seen: Any) -> None:
        self.cut = cut
        self.disk = cut.strike(replay)
        self.marks = tuple(replay.marks)
        self.processes = replay.processes
        self.seen = seen

    def is_like(self, other: _Struck) -> bool:
        """Return whether the same would be found, by a process of the same arguments."""
        return (self.processes, self.disk, self.seen, self.marks) == (
            other.processes,
            other.disk,
            other.seen,
            other.marks,
        )


def record(
    family: Family,
    records: Mapping[str, Sequence[InputRecord]],
    folder: Path,
    *processes: RecordedProcess,
    state_backend: str = "hashmap",
    writes_tables: bool = False,
    has_users_table: bool = False,
    program: Sequence[str] = ("-m", CHILD),
) -> Recording:
    """Run a family's job in real processes, and return its recording.

    Each of ``processes`` but the last kills itself or stops the job; by default there is one. ``program`` is
    what Python runs in them, with the file of the job as its last argument.
    """
    log, spec = folder / "calls.log", folder / "job.json"
    root = folder / "disk"
    root.mkdir(parents=True)
    job = RecordedJob(
        family=address_of(family),
        records={split: tuple(each) for split, each in records.items()},
        root=str(root),
        log=str(log),
        state_backend=state_backend,
        writes_tables=writes_tables,
        has_users_table=has_users_table,
    )
    planned = processes or (RecordedProcess(),)
    for process in planned:
        begun_from = ""
        if process.begins_from:
            begun_from = _begun_from(process, [call.other for call in read_log(str(log))], job.root)
        spec.write_bytes(msgspec.json.encode(replace(job, process=process, savepoint=begun_from)))
        ended = subprocess.run(
            [sys.executable, *program, str(spec)],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if (ended.returncode == 0) is process.dies:
            raise RuntimeError(
                f"the recorded job ended with {ended.returncode}: {ended.stderr.decode()[-500:]}"
            )
    # A job that is started again finds the files of the rebuilt disk here, and no others.
    shutil.rmtree(root)
    expected = Counter(family.expected(job.records, NOTHING_DECLARED))
    return Recording(job, planned, read_log(str(log)), expected)


def _begun_from(process: RecordedProcess, marks: Sequence[str], root: str) -> str:
    """Return the folder of the savepoint with which a process begins; "": it begins with none."""
    if not process.begins_from:
        return ""
    beginning = f"{SAVEPOINT}{SAVED[process.begins_from]}/"
    [mark] = [mark for mark in marks if mark.startswith(beginning)]
    return f"{root}/{mark.removeprefix(SAVEPOINT)}"


def write_image(image: Image, folder: Path) -> None:
    """Write a disk into a folder."""
    for path in sorted(image):
        content = image[path]
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


def _difference(rows: Counter[Row], expected: Counter[Row]) -> str | None:
    if rows == expected:
        return None
    lost, extra = expected - rows, rows - expected
    return f"{lost.total()} rows are lost {list(lost)[:3]}, {extra.total()} too many {list(extra)[:3]}"


def _broken_report(marks: Sequence[str], disk: Image) -> str | None:
    """Return what is not on the disk although the job had reported it."""
    if not marks:
        return None
    complete = {path: int(match[1]) for path in disk if (match := _CHECKPOINT.fullmatch(path)) is not None}
    others = [path for path in complete if path.startswith(f"{OTHER_CHECKPOINTS}/")]
    finished = any(path.endswith("/finished") for path in disk)
    if marks[-1] == FINISHED and not finished:
        return "the job had reported its end, which is not on the disk"
    for mark in marks:
        if mark.startswith(SAVEPOINT):
            folder = mark.removeprefix(SAVEPOINT)
            # Who claims it deletes it, once there is a newer checkpoint.
            is_claimable = folder.startswith(SAVED["stop"]) and (others or finished)
            if f"{folder}{_METADATA}" not in disk and not is_claimable:
                return f"savepoint {folder} was reported complete, and is not on the disk"
    reported = [int(mark) for mark in marks if mark.isdigit()]
    # A savepoint with which the job stops takes the place of its checkpoints.
    has_stopped = any(path.startswith(SAVED["stop"]) and path.endswith(_METADATA) for path in disk)
    is_subsumed = finished or (has_stopped and not others)
    if reported and not is_subsumed and max(complete.values(), default=0) < reported[-1]:
        return f"checkpoint {reported[-1]} was reported complete, and is not on the disk"
    if not any(_RECORD.fullmatch(path) for path in disk):
        return "a checkpoint was reported complete, and the record of its job is not on the disk"
    return None
