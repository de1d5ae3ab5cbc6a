"""A job with checkpoints and part files at s3:// is killed at random moments, against a real server.

One kill by default. More of them, with another seed, and on a server that is on the PATH (versitygw):
``pytest tests/engine/runtime/test_object_store_kills.py --kills 1500 --kill-seed 7`` makes 100.
"""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.harness.services.object_store_server import ObjectStoreServer
from tests.engine.connectors.object_reader import ObjectReader
from tests.engine.runtime import killed_object_job
from tests.engine.runtime.exact_rows import Row, computed, differences
from tests.patience import PATIENCE_SECONDS

PROGRAM = "tests.engine.runtime.killed_object_job"
KILLS_BETWEEN = 15
"""Of the kills that the option asks for, the share that is made here: each is as dear as several of them."""
SECONDS_PER_KILL = 60
ONE_PROCESS = (
    "import sys; from pathlib import Path; from tests.engine.runtime import killed_object_job as job;"
    "job.PAUSE_SECONDS = float(sys.argv[3]); job.run(sys.argv[1], Path(sys.argv[2]), 2)"
)


class Watch:
    """Reads the part files all the time, as a user of the output does."""

    def __init__(self, reader: ObjectReader) -> None:
        self.seen: dict[str, bytes] = {}
        self.problems: list[str] = []
        self.looks = 0
        self._reader = reader
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(0.2):
            self.look()

    def look(self) -> None:
        """Look once: what was there before is there unchanged."""
        names = [name for name in self._reader.objects() if "/rows/" in name]
        self.problems += [f"{name} has disappeared" for name in self.seen.keys() - set(names)]
        for name in names:
            if name not in self.seen:
                self.seen[name] = self._reader.content(name)
        self.looks += 1

    def changed(self) -> list[str]:
        """Return what the objects are not any more that they were at the first look."""
        return [name for name, data in self.seen.items() if self._reader.content(name) != data]


def rows_of(contents: dict[str, bytes], beginning: str) -> Counter[Row]:
    lines = [
        line
        for name, data in contents.items()
        if name.startswith(beginning)
        for line in data.decode().splitlines()
    ]
    return Counter((key, int(a), int(b), int(c)) for key, a, b, c in csv.reader(lines))


@pytest.mark.local_kill
def test_job_over_an_object_store_killed_at_random_moments_ends_exact(
    object_store: ObjectStoreServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = max(1, round(request.config.getoption("--kills") / KILLS_BETWEEN))
    seed = request.config.getoption("--kill-seed")
    reader = ObjectReader(object_store, "kills")
    command = [sys.executable, "-m", PROGRAM, reader.address, str(tmp_path), str(kills), str(seed)]
    with Watch(reader) as watch:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS + SECONDS_PER_KILL * kills,
            check=False,
            cwd=Path(__file__).parents[3],
        )
    assert finished.returncode == 0, finished.stderr
    watch.look()
    assert not watch.problems
    assert not watch.changed()
    assert watch.looks > kills
    report = json.loads(finished.stdout)
    assert report["kills"] == kills
    for number in range(report["rounds"]):
        found = rows_of(watch.seen, f"round-{number}/rows/")
        problems = differences(Counter(computed(tmp_path / f"round-{number}")), found)
        assert not problems, f"round {number}, seed {seed}:\n" + "\n".join(problems[:20])
    assert reader.uploads() == []


CLAIMS = 10
RACE = """
import sys
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
storage = RemoteCheckpointStorage(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    print(int(storage.create_exclusive(f"claim-{number}", sys.argv[3].encode())), flush=True)
"""


def test_only_one_of_several_processes_creates_an_object(object_store: ObjectStoreServer) -> None:
    address = ObjectReader(object_store, "race").address
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, address, str(CLAIMS), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for rival in rivals:
        assert rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("go\n")
        rival.stdin.flush()
    answers = [list(map(int, rival.communicate()[0].split())) for rival in rivals]
    assert [sum(each) for each in zip(*answers, strict=True)] == [1] * CLAIMS
    storage = RemoteCheckpointStorage(address)
    for claim in range(CLAIMS):
        winner = int(storage.read(f"claim-{claim}"))
        assert answers[winner][claim] == 1


@pytest.mark.local_kill
def test_job_goes_on_when_its_object_store_comes_back(
    object_store: ObjectStoreServer, tmp_path: Path
) -> None:
    """A server that keeps its objects is killed and started again; one that would lose them is paused.

    Beside the job, another process of it is stopped; it changes nothing when it wakes.
    """
    reader = ObjectReader(object_store, "disturbed")
    killed_object_job.make_input(tmp_path / "in", random.Random(2), killed_object_job.ROWS)
    # The first one must be under way when it is stopped.
    processes = [start_process(reader, tmp_path, 10 * killed_object_job.PAUSE_SECONDS)]
    try:
        stopped = processes[0]
        await_files(reader, 1, stopped)
        stopped.send_signal(signal.SIGSTOP)
        job = start_process(reader, tmp_path)
        processes.append(job)
        await_files(reader, 4, job)
        if object_store.survives_kills:
            object_store.kill()
            time.sleep(0.5)
            object_store.start()
        else:
            object_store.pause()
            time.sleep(0.5)
            object_store.resume()
        _, said = job.communicate(timeout=PATIENCE_SECONDS)
        assert job.returncode == 0, said
        files = contents(reader)
        stopped.send_signal(signal.SIGCONT)
        _, said = stopped.communicate(timeout=PATIENCE_SECONDS)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert stopped.returncode != 0
    assert "another process" in said
    after = contents(reader)
    assert {name: after[name] for name in after if name.startswith("rows/")} == {
        name: data for name, data in files.items() if name.startswith("rows/")
    }
    assert after.keys() >= files.keys()
    assert not differences(Counter(computed(tmp_path / "in")), rows_of(after, "rows/"))


def start_process(
    reader: ObjectReader, folder: Path, pause_seconds: float = killed_object_job.PAUSE_SECONDS
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ONE_PROCESS, reader.address, str(folder / "in"), str(pause_seconds)],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
        text=True,
    )


def await_files(reader: ObjectReader, count: int, process: subprocess.Popen[str]) -> None:
    while len([name for name in reader.objects() if name.startswith("rows/")]) < count:
        assert process.poll() is None
        time.sleep(0.05)


def contents(reader: ObjectReader) -> dict[str, bytes]:
    return {name: reader.content(name) for name in reader.objects()}
