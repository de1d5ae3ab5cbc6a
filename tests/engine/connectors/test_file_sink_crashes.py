"""Every row exactly once, wherever the process dies: after each system call, and under real SIGKILLs.

The first test kills the writer after every single call that the sink makes into the file system,
then restores at another parallelism. The last one lets the kernel choose the moment.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine import file_calls
from onceproof.engine.connectors.buckets import BucketAssigner
from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.file_sink_function import IN_BASE_PATH, ON_CHECKPOINT
from onceproof.engine.connectors.rolling import RollingPolicy
from tests.patience import PATIENCE_SECONDS

ROWS = 24
EVERY_FEW_ROWS = RollingPolicy.default_rolling_policy(part_size=4)
CALLS = ("open", "write", "fsync", "close", "rename", "unlink", "stat", "scandir", "mkdir")


class ByRemainder(BucketAssigner):
    def get_bucket_id(self, element, context):
        return ("", "one", "two/inner")[element % 3]


class Died(BaseException):
    """The process dies at this instruction."""


class DyingSystem:
    """Replaces the module os: dies before or after the n-th call, and makes no calls after that."""

    def __init__(self, dies_at: int, after: bool) -> None:
        self.calls = 0
        self.dies_at = dies_at
        self.after = after
        self.dead = False

    def __getattr__(self, name):
        value = getattr(os, name)
        if name not in CALLS:
            return value
        if name == "fsync":  # counts as a call, but no power is lost here, and it is slow
            value = os.fstat

        def call(*arguments, **named):
            if self.dead:
                if name == "close":  # the kernel closes the files of a dead process
                    return value(*arguments, **named)
                raise Died
            self.calls += 1
            if self.calls == self.dies_at:
                self.dead = True
                if self.after:
                    result = value(*arguments, **named)
                    if name == "scandir":  # the kernel closes the folder
                        result.close()
                raise Died
            return value(*arguments, **named)

        return call


class Run:
    """A job that writes the rows 0..ROWS-1, a checkpoint every few of them, the third of which is aborted."""

    def __init__(self, job, monkeypatch) -> None:
        self.job = job
        self.monkeypatch = monkeypatch
        self.completed: dict[int, int] = {}  # checkpoint -> rows before it
        self.next_id = 1

    def attempt(self, parallelism: int, system: DyingSystem) -> bool:
        """Restore the latest completed checkpoint, and return whether the job reached its end."""
        self.monkeypatch.setattr(file_calls, "os", system)
        job = self.job
        try:
            restored = max(self.completed, default=None)
            job.start(parallelism, restored)
            for row in range(self.completed.get(restored, 0), ROWS):
                job.functions[row % parallelism].invoke(row, None)
                if row % 4 == 3:
                    self.checkpoint(row + 1, aborted=row == 11, notified=row != 15)
            for function in job.functions:
                function.finish()
            self.checkpoint(ROWS)
            for function in job.functions:
                function.close()
        except Died:
            return False
        finally:
            job.functions.clear()
        return True

    def checkpoint(self, rows: int, aborted: bool = False, notified: bool = True) -> None:
        checkpoint_id = self.next_id
        self.next_id += 1
        self.job.snapshot(checkpoint_id)
        if aborted:
            return
        self.completed[checkpoint_id] = rows
        if notified:
            self.job.notify(checkpoint_id)


@pytest.fixture
def new_run(sink_job, monkeypatch):
    def make(
        folder: Path, policy: RollingPolicy = ON_CHECKPOINT, assigner: BucketAssigner = IN_BASE_PATH
    ) -> Run:
        builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        sink = builder.with_rolling_policy(policy).with_bucket_assigner(assigner).build()
        return Run(sink_job(sink.create_function), monkeypatch)

    return make


def check(folder: Path) -> None:
    rows = Counter()
    for path in [Path(place, name) for place, _, names in os.walk(folder) for name in names]:
        assert not path.name.startswith(".") or entry_of(path.name), f"{path} is left over"
        rows.update(int(line) for line in path.read_text().splitlines())
    assert rows == Counter(range(ROWS))
    shutil.rmtree(folder)


def test_an_undisturbed_run_writes_every_row_once(new_run, tmp_path):
    assert new_run(tmp_path).attempt(2, DyingSystem(0, False))
    check(tmp_path)


@pytest.mark.parametrize(
    ("policy", "assigner"),
    [(ON_CHECKPOINT, IN_BASE_PATH), (EVERY_FEW_ROWS, ByRemainder())],
    ids=["one file", "many files in buckets"],
)
def test_death_at_any_system_call_loses_and_repeats_nothing(new_run, tmp_path, policy, assigner):
    # To die before a call leaves what to die after the last one leaves.
    dies_at = 0
    while True:
        dies_at += 1
        folder = tmp_path / str(dies_at)
        run = new_run(folder, policy, assigner)
        if run.attempt(3, DyingSystem(dies_at, after=True)):
            break
        assert run.attempt(1 + dies_at % 3, DyingSystem(0, False))
        check(folder)
    assert dies_at > 60, "the run made fewer calls than it must"


@pytest.mark.parametrize("seed", range(2))
def test_several_deaths_in_a_row_lose_and_repeat_nothing(new_run, tmp_path, seed):
    chance = random.Random(seed)
    for number in range(10):
        folder = tmp_path / str(number)
        run = new_run(folder)
        deaths = 0
        while not run.attempt(1 + int(chance.random() * 3), self_killing(chance, deaths)):
            deaths += 1
        check(folder)


def self_killing(chance: random.Random, deaths: int) -> DyingSystem:
    return DyingSystem(1 + int(chance.random() * 50) if deaths < 5 else 0, chance.random() < 0.5)


@pytest.mark.local_kill
def test_sigkill_at_random_moments_loses_and_repeats_nothing(tmp_path):
    writer = Path(__file__).with_name("killed_file_sink_writer.py")
    finished = subprocess.run(
        [sys.executable, str(writer), str(tmp_path), "60"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["killed"] == 60, report
    out = tmp_path / "out"
    names = [name for name in os.listdir(out) if entry_of(name) is None]
    assert not [name for name in names if name.startswith(".")]
    counts = Counter(int(line) for name in names for line in (out / name).read_text().splitlines())
    assert counts == Counter(range(report["rows"]))
