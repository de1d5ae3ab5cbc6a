"""Power cuts on real files: a job's file calls are recorded, and the disks after a cut rebuilt and tried.

The rules this module lives by:

- A job runs in real processes on real files; some of them may kill themselves, also between two given calls.
  Its calls are recorded (`recorded_child.py`), so one recording gives any number of disks. What a killed
  process has not synced is in the cache when the next one reads it, and may be lost at a later cut.
- A cut is a number of calls, and a seed that draws what survived. Both stand in the sentence of a problem:
  with the seed of the input they replay it.
- After a cut the job is started again on the rebuilt disk, and runs to its end. Then the rows are those of
  the family's oracle, each part file that a reader could have seen before the cut is there and unchanged, and
  the latest checkpoint that was reported complete was on the disk, with the record of the job.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.harness.model.family import NOTHING_DECLARED, Family, address_of
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.disk.recorded_calls import MARK, Call, Replay, read_log
from onceproof.harness.systems.disk.volatile_disk import Image, PowerCut
from onceproof.harness.systems.local.recorded_child import CHECKPOINTS, FINISHED, OUTPUT, RecordedJob, run

CHILD: Final = "onceproof.harness.systems.local.recorded_child"
PROCESS_SECONDS: Final = 60.0
_METADATA: Final = "/_metadata"
_RECORDS: Final = f"{CHECKPOINTS}/jobs/"
"""The registry: without it another program under the job's name would not be refused."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut after ``calls`` calls; ``seed`` draws what survived, None keeps only what is synced."""

    calls: int
    seed: int | None


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a job from its first process to its end, and the rows that it should commit."""

    job: RecordedJob
    calls: Sequence[Call]
    expected: Counter[Row]

    def cuts(self, count: int, seed: int) -> Iterator[Cut]:
        """Draw cuts at any place."""
        random = Random(seed)
        for _ in range(count):
            yield Cut(random.randint(1, len(self.calls)), random.getrandbits(32))

    def sites(self) -> set[str]:
        """Return the call sites of all syncs."""
        return {call.other for call in self.calls if call.method == "fsync"}

    def problem_after(self, cut: Cut, without: Collection[str] = ()) -> str | None:
        """Return what is wrong after a cut, in one line; None if nothing is.

        ``without`` are call sites whose syncs are left out.
        """
        replay = Replay(self.calls, self.job.root, without)
        replay.run_to(cut.calls)
        draws = PowerCut(Random(0), 0, 0) if cut.seed is None else PowerCut(Random(cut.seed))
        disk = replay.disk.after(draws)
        found = _broken_report(replay.marks, disk) or self._problem_of(disk, _part_files(replay.disk.live()))
        return found and f"cut after call {cut.calls}, seed {cut.seed}: {found}"

    def _problem_of(self, disk: Image, seen: Mapping[str, bytes]) -> str | None:
        """Start the job again on a disk, and judge what it leaves; ``seen`` is what readers have seen."""
        with tempfile.TemporaryDirectory(prefix="onceproof-") as folder:
            write_image(disk, Path(folder))
            try:
                run(replace(self.job, root=folder))
            except Exception as error:
                return f"the job does not go on: {error}"
            visible = {
                f"{OUTPUT}/{path.name}": path.read_bytes()
                for path in Path(folder, OUTPUT).glob("*")
                if not path.name.startswith(".")
            }
        for name, content in seen.items():
            if visible.get(name) != content:
                return f"{name} was visible before, and is gone or another file"
        rows = Counter(
            as_tuple(msgspec.json.decode(line)) for each in visible.values() for line in each.splitlines()
        )
        if rows != self.expected:
            lost, extra = self.expected - rows, rows - self.expected
            return (
                f"{lost.total()} rows are lost {list(lost)[:3]}, {extra.total()} too many {list(extra)[:3]}"
            )
        return None


def record(
    family: Family,
    records: Mapping[str, Sequence[InputRecord]],
    folder: Path,
    *,
    dies_after: Sequence[int] = (),
    dies_at: tuple[str, str] = ("", ""),
    state_backend: str = "hashmap",
) -> Recording:
    """Run a family's job in real processes, and return its recording.

    ``dies_after`` are the numbers of calls after which the first processes kill themselves. ``dies_at`` is
    the method, and the ending of its path, after which another one does.
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
    deaths = [(calls, ("", "")) for calls in dies_after]
    if dies_at[0]:
        deaths.append((0, dies_at))
    for calls, call in (*deaths, (0, ("", ""))):
        spec.write_bytes(msgspec.json.encode(replace(job, dies_after=calls, dies_at=call)))
        ended = subprocess.run(
            [sys.executable, "-m", CHILD, str(spec)],
            capture_output=True,
            timeout=PROCESS_SECONDS,
            check=False,
        )
        if (ended.returncode == 0) is bool(calls or call[0]):
            raise RuntimeError(
                f"the recorded job ended with {ended.returncode}: {ended.stderr.decode()[-500:]}"
            )
    # Checkpoints list the folders of pending output: a job on a rebuilt disk must not find them here.
    shutil.rmtree(root)
    return Recording(job, read_log(str(log)), Counter(family.expected(job.records, NOTHING_DECLARED)))


def catch(recording: Recording, *sites: str, tries: int = 40, seed: int = 1) -> str | None:
    """Return the problem of some cut if the syncs of call sites are left out; None if no cut shows one."""
    calls = list(enumerate(recording.calls, 1))
    reports = [number for number, call in calls if call.method == MARK]
    others = [
        number for number, call in calls if call.method in ("rename", "link", "unlink", "mkdir", "fsync")
    ]
    random = Random(seed)
    cuts = [Cut(number, None) for number in (*reports, *others)]
    cuts += [Cut(random.choice(others), random.getrandbits(32)) for _ in range(tries)]
    for cut in cuts:
        problem = recording.problem_after(cut, sites)
        if problem is not None:
            return problem
    return None


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


def _broken_report(marks: Sequence[str], disk: Image) -> str | None:
    """Return what is not on the disk although the job had reported it."""
    if not marks:
        return None
    if "finished" not in {path.rpartition("/")[2] for path in disk}:
        if marks[-1] == FINISHED:
            return "the job had reported its end, which is not on the disk"
        complete = [
            int(path.removesuffix(_METADATA).rpartition("chk-")[2])
            for path in disk
            if path.endswith(_METADATA)
        ]
        if max(complete, default=0) < int(marks[-1]):
            return f"checkpoint {marks[-1]} was reported complete, and is not on the disk"
    if not any(path.startswith(_RECORDS) and path.endswith(".json") for path in disk):
        return "a checkpoint was reported complete, and the record of its job is not on the disk"
    return None
