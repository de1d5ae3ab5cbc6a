"""Files that change under a job or while it is down, in real processes: exact rows or one clear failure."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.engine.runtime.changed_input_job import run as run_job
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("changed_input_job.py")
ROOT = Path(__file__).parents[3]
ROWS = 20_000
RUNTIMES = {
    "one process": [],
    "workers": ["execution.local.workers=2", "parallelism.default=2"],
}


def write_csv(path, word):
    hidden = path.with_name("_new")
    hidden.write_text("word,n\n" + "".join(f"{word},{n}\n" for n in range(ROWS)))
    hidden.rename(path)


def expected(word):
    return [f"{word},{n}" for n in range(ROWS)]


class Run:
    """A process that runs the job."""

    def __init__(self, folder, kind, options):
        self.folder = folder
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(folder), kind, *options],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def wait_for_rows(self, count):
        """Wait until so many rows are visible."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(rows_in(self.folder)) < count:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ended(self):
        """Wait for the end, and return the exit code with the log."""
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
        return code, self.log.read_text()


def rows_in(folder):
    parts = sorted((folder / "rows").glob("part-*")) if (folder / "rows").exists() else []
    return [line for part in parts for line in part.read_text().splitlines()]


def begin(folder, options):
    """Start the job over a file, until it has made rows visible and crawls."""
    write_csv(folder / "input.csv", "old")
    run = Run(folder, "csv", options)
    run.wait_for_rows(500)
    return run


@pytest.fixture(params=RUNTIMES)
def options(request):
    return RUNTIMES[request.param]


def failed(run, folder):
    """Check that a job ended with one clear line and with nothing but rows of the old file."""
    code, log = run.ended()
    assert code not in (0, None)
    said = f"file {folder}/input.csv is not the one that was read up to byte "
    assert said in log.splitlines()[-1]
    assert "source.on-change" in log.splitlines()[-1]
    rows = rows_in(folder)
    assert sorted(rows) == sorted(set(rows)), "no row twice"
    assert set(rows) <= set(expected("old"))


def test_file_replaced_while_the_job_is_down_is_a_failure_for_good(tmp_path, options):
    begin(tmp_path, options).kill()
    write_csv(tmp_path / "input.csv", "new")
    (tmp_path / "go").touch()
    failed(Run(tmp_path, "csv", options), tmp_path)


def test_file_cut_under_the_job_is_a_failure_for_good(tmp_path):
    run = begin(tmp_path, RUNTIMES["workers"])
    os.truncate(tmp_path / "input.csv", 100)
    (tmp_path / "go").touch()
    failed(run, tmp_path)


def test_file_cut_and_written_anew_under_the_job_is_a_failure_for_good(tmp_path):
    run = begin(tmp_path, RUNTIMES["one process"])
    write_csv(tmp_path / "other", "new")
    shutil.copyfile(tmp_path / "other", tmp_path / "input.csv")
    (tmp_path / "go").touch()
    failed(run, tmp_path)


def test_job_goes_on_in_a_copy_of_its_file(tmp_path):
    options = RUNTIMES["workers"]
    begin(tmp_path, options).kill()
    shutil.copyfile(tmp_path / "input.csv", tmp_path / "_copy")
    os.replace(tmp_path / "_copy", tmp_path / "input.csv")
    (tmp_path / "go").touch()
    assert Run(tmp_path, "csv", options).ended()[0] == 0
    assert sorted(rows_in(tmp_path)) == sorted(expected("old"))


def check_reaction(tmp_path, options, reaction):
    """Check what a job makes of a new file at a position in the old one."""
    code, log = Run(tmp_path, "csv", [*options, f"source.on-change={reaction}"]).ended()
    assert code == 0, log
    check_rows(tmp_path, reaction)


def check_rows(tmp_path, reaction):
    rows = rows_in(tmp_path)
    old = [row for row in rows if row.startswith("old")]
    assert old
    assert sorted(old) == sorted(expected("old")[: len(old)])
    new = sorted(row for row in rows if row.startswith("new"))
    assert new == (sorted(expected("new")) if reaction == "from-start" else [])


@pytest.mark.parametrize(("runtime", "reaction"), [("one process", "from-start"), ("workers", "skip")])
def test_job_reads_the_new_file_or_leaves_it_out_where_its_options_say_so(tmp_path, runtime, reaction):
    options = RUNTIMES[runtime]
    begin(tmp_path, options).kill()
    write_csv(tmp_path / "input.csv", "new")
    (tmp_path / "go").touch()
    check_reaction(tmp_path, options, reaction)


@pytest.mark.spark
def test_spark_fails_and_reacts_like_the_local_runtime(tmp_path, spark):
    options = ["execution.checkpointing.interval-records=500"]
    begin(tmp_path, options).kill()
    write_csv(tmp_path / "input.csv", "new")
    (tmp_path / "go").touch()
    on_spark = [*options, "execution.target=spark", f"execution.spark.master={spark.sparkContext.master}"]
    said = f"file {tmp_path}/input.csv is not the one that was read up to byte "
    with pytest.raises(JobExecutionFailed, match=re.escape(said)):
        run_job(tmp_path, "csv", on_spark)
    assert set(rows_in(tmp_path)) <= set(expected("old"))
    run_job(tmp_path, "csv", [*on_spark, "source.on-change=from-start"])
    check_rows(tmp_path, "from-start")


def test_logs_that_rotate_under_a_job_that_is_killed_are_read_once(tmp_path, options, request):
    chance = random.Random(request.config.getoption("--kill-seed"))
    logs = tmp_path / "logs"
    logs.mkdir()
    written, number = 0, 0
    run = None
    for act in ["start", *["rotate", "grow", "kill"] * 2, "rotate", "rotate"]:
        match act:
            case "rotate" if (logs / "app.log").exists():
                for older in range(number, 0, -1):
                    os.rename(logs / f"app.log.{older}", logs / f"app.log.{older + 1}")
                os.rename(logs / "app.log", logs / "app.log.1")
                number += 1
            case "kill":
                run.kill()
                run = None
        for log in ("app.log", "web.log"):
            count = chance.randrange(1, 400)
            rows = range(written, written + count)
            with (logs / log).open("ab", buffering=0) as file:
                # Whole lines at once: an unfinished one may be read when the writer pauses.
                file.write(b"".join(b"row %06d of %s\n" % (row, log.encode()) for row in rows))
            written += count
        if run is None:
            run = Run(tmp_path, "logs", options)
        if chance.random() < 0.7:
            run.wait_for_rows(written - chance.randrange(300))
    run.wait_for_rows(written)
    (tmp_path / "stop").touch()
    code, log = run.ended()
    assert code == 0, log
    rows = sorted(int(row.split()[1]) for row in rows_in(tmp_path))
    assert rows == list(range(written))
