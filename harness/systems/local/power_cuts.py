"""Power cuts on real files: a job's file calls are recorded, and the disks after a cut rebuilt and tried.

The rules this module lives by:

- A job runs in real processes on real files; some of them may kill themselves, also between two given calls,
  take a savepoint, or stop with one. Its calls are recorded (`recorded_child.py`), so one recording gives any
  number of disks. What a killed process has not synced is in the cache when the next one reads it, and may be
  lost at a later cut.
- A cut is a number of calls, a seed that draws what survived, and the parallelism of the next process. All
  stand in the sentence of a problem: with the seed of the input they replay it.
- After a cut the process is started again on the rebuilt disk with its arguments, and runs to the job's end.
  Then the rows are those of the family's oracle, each part file that a reader could have seen before the cut
  is there and unchanged, and the latest checkpoint that was reported complete was on the disk, with the
  record of the job. A savepoint that was reported complete and not claimed was there, too, and a second job
  that begins from it writes the rest of the rows.
- The disk is rebuilt in its old place, because checkpoints and records hold full paths.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.harness.model.family import NOTHING_DECLARED, Family
from onceproof.harness.model.family_places import address_of
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.disk.recorded_calls import MARK, Call, Replay, read_log, unsynced
from onceproof.harness.systems.disk.volatile_disk import Image, PowerCut
from onceproof.harness.systems.local.recorded_child import (
    FINISHED,
    OTHER_CHECKPOINTS,
    OUTPUT,
    SAVED,
    SAVEPOINT,
    RecordedJob,
    RecordedProcess,
    run,
)

CHILD: Final = "onceproof.harness.systems.local.recorded_child"
PROCESS_SECONDS: Final = 60.0
CONTINUED: Final = "results/continued"
"""The output of a second job that begins from a savepoint."""
_METADATA: Final = "/_metadata"
_RECORD: Final = re.compile(r"state/[a-z]+/jobs/[0-9a-f]+\.json")
"""The registry: without it another program under the job's name would not be refused."""
_CHECKPOINT: Final = re.compile(r"state/[a-z]+/[0-9a-f]+/chk-([0-9]+)/_metadata")
_CHANGES_NAMES: Final = frozenset({"rename", "link", "unlink", "mkdir", "fsync"})


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
        draws = PowerCut(Random(0), 0, 0) if self.seed is None else PowerCut(Random(self.seed))
        return replay.disk.after(draws)

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
        found = self._problem_of(_Struck(cut, replay))
        return found and f"{cut}: {found}"

    def catch(self, *sites: str, tries: int = 40, seed: int = 1) -> str | None:
        """Return the problem of some cut if the syncs of call sites are left out; None if no cut shows one.

        A disk that is the same with these syncs is not tried: what it leads to is no fault of theirs. Nor is
        a disk that was tried before.
        """
        struck: list[_Struck] = []
        for cut, whole, replay in self._with_and_without(sites, tries, seed):
            each = _Struck(cut, replay)
            if each.disk != cut.strike(whole):
                if (broken := _broken_report(each.marks, each.disk)) is not None:
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
        numbers = [
            number
            for number, call in enumerate(self.calls, 1)
            if call.method in _CHANGES_NAMES or call.method == MARK
        ]
        cuts = [Cut(number, None) for number in numbers]
        cuts += [Cut(random.choice(numbers), random.getrandbits(32)) for _ in range(tries)]
        whole, without = (Replay(self.calls, self.job.root, each) for each in ((), sites))
        for cut in sorted(cuts, key=lambda each: each.calls):
            whole.run_to(cut.calls)
            without.run_to(cut.calls)
            yield cut, whole, without

    def _problem_of(self, struck: _Struck) -> str | None:
        """Start the job again on a disk, and judge what it leaves."""
        if (broken := _broken_report(struck.marks, struck.disk)) is not None:
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
            visible = self._visible(OUTPUT)
        for name, content in struck.seen.items():
            if visible.get(name) != content:
                return f"{name} was visible before, and is gone or another file"
        problem = _difference(_rows(visible), self.expected)
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
            before, after = _rows(self._visible(OUTPUT)), _rows(self._visible(CONTINUED))
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
            with unsynced(), submitted(Configuration(), lambda graph: None, __file__):
                yield
        finally:
            shutil.rmtree(root)

    def _visible(self, output: str) -> dict[str, bytes]:
        """Return the part files in an output folder by their paths below the root."""
        return {
            f"{output}/{path.name}": path.read_bytes()
            for path in Path(self.job.root, output).glob("*")
            if not path.name.startswith(".")
        }


class _Struck:
    """What a cut leaves: the disk, what had been reported, what readers had seen, how many had started."""

    __slots__ = ("cut", "disk", "marks", "processes", "seen")

    def __init__(self, cut: Cut, replay: Replay) -> None:
        self.cut = cut
        self.disk = cut.strike(replay)
        self.marks = tuple(replay.marks)
        self.processes = replay.processes
        self.seen = _part_files(replay.disk.live())

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
) -> Recording:
    """Run a family's job in real processes, and return its recording.

    Each of ``processes`` but the last kills itself or stops the job; by default there is one.
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
    )
    planned = processes or (RecordedProcess(),)
    for process in planned:
        begun_from = ""
        if process.begins_from:
            begun_from = _begun_from(process, [call.other for call in read_log(str(log))], job.root)
        spec.write_bytes(msgspec.json.encode(replace(job, process=process, savepoint=begun_from)))
        ended = subprocess.run(
            [sys.executable, "-m", CHILD, str(spec)],
            capture_output=True,
            timeout=PROCESS_SECONDS,
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


def _part_files(image: Image) -> dict[str, bytes]:
    return {
        path: content
        for path, content in image.items()
        if content is not None and path.startswith(f"{OUTPUT}/") and "/." not in path
    }


def _rows(files: Mapping[str, bytes]) -> Counter[Row]:
    return Counter(
        as_tuple(msgspec.json.decode(line)) for each in files.values() for line in each.splitlines()
    )


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
