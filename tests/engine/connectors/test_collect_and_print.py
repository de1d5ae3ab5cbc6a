"""The sinks that return rows to the program and print them."""

from __future__ import annotations

import copy
import errno
import os
import subprocess
import sys

import pytest

from onceproof.engine import Configuration, StreamExecutionEnvironment, Types
from onceproof.engine.connectors.collect import CollectedRows, CollectSink
from onceproof.engine.connectors.print import PrintSinkFunction
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.patience import PATIENCE_SECONDS


def arrived(rows):
    """The rows that have come so far, which are taken."""
    batches = []
    while not rows.arrived.empty():
        batches += rows.arrived.get()
    return batches


def collecting(sink_job, transactional):
    rows = CollectedRows()
    return rows, sink_job(CollectSink(rows, transactional=transactional).create_function)


def test_without_checkpoints_rows_come_as_they_arrive(sink_job):
    rows, job = collecting(sink_job, transactional=False)
    sink = job.start()
    sink.invoke("a", None)
    assert sink.invoke_batch(["b", "c"])
    assert arrived(rows) == ["a", "b", "c"]


def test_with_checkpoints_rows_come_when_theirs_is_complete(sink_job):
    rows, job = collecting(sink_job, transactional=True)
    sink = job.start()
    sink.invoke("a", None)
    job.snapshot(1)
    sink.invoke("b", None)
    assert arrived(rows) == []
    job.notify(1)
    assert arrived(rows) == ["a"]


def test_a_restart_neither_loses_nor_repeats_rows_and_leaves_nothing(sink_job):
    rows, job = collecting(sink_job, transactional=True)
    for subtask, function in enumerate(job.start(parallelism=3) and job.functions):
        function.invoke(subtask, None)
    job.snapshot(1)
    for function in job.functions:
        function.invoke("lost", None)
    job.snapshot(2)  # never completes
    job.start(parallelism=2, restored=1)
    assert arrived(rows) == [0, 1, 2]
    assert sorted(rows.transactions) == [(0, 1, "1.2"), (1, 1, "1.2")]
    for function in job.functions:
        function.close()
    assert rows.transactions == {}


def test_copies_of_the_function_share_the_rows(sink_job):
    rows, _ = collecting(sink_job, transactional=False)
    assert copy.deepcopy(rows) is rows


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [
        (None, 1, "x\n('y', 1)\n"),
        ("totals", 1, "totals> x\ntotals> ('y', 1)\n"),
        (None, 2, "1> x\n2> ('y', 1)\n"),
        ("totals", 2, "totals:1> x\ntotals:2> ('y', 1)\n"),
    ],
)
@pytest.mark.parametrize("batched", [False, True])
def test_printed_lines_begin_with_identifier_and_subtask(
    sink_job, capsys, identifier, parallelism, expected, batched
):
    job = sink_job(lambda: PrintSinkFunction(identifier))
    job.start(parallelism)
    for value, function in zip(["x", ("y", 1)], [job.functions[0], job.functions[-1]], strict=True):
        if batched:
            function.invoke_batch([value])
        else:
            function.invoke(value, None)
    assert capsys.readouterr().out == expected


class Unwritable:
    """A stdout that takes nothing."""

    closed = False

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error


@pytest.mark.parametrize("error", [errno.EPIPE, errno.ENOSPC, errno.EBADF, None])
def test_stdout_that_takes_nothing_is_an_error_that_no_restart_mends(monkeypatch, error):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping(
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 5,
                "restart-strategy.fixed-delay.delay": 0,
            }
        )
    )
    env.from_collection(range(100), Types.LONG()).print()
    monkeypatch.setattr(
        sys, "stdout", None if error is None else Unwritable(OSError(error, os.strerror(error)))
    )
    with pytest.raises(JobExecutionFailed, match=r"failed: print: stdout (is closed|cannot be written)"):
        env.execute("prints")


PRINTING = """
from onceproof.engine import Configuration, NumberSequenceSource, StreamExecutionEnvironment
configuration = Configuration.from_mapping({
    "execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": "checkpoints",
    "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 1000000})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_source(NumberSequenceSource(0, 1_000_000_000), None, "numbers").print()
env.execute("prints")
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_job_that_prints_into_a_closed_pipe_fails_for_good_with_one_line(tmp_path, workers):
    (tmp_path / "prints.py").write_text(PRINTING)
    main = "from onceproof.harness.commands.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", main, "job", "run", "-p", "2", "--workers", workers, "prints.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout.readline().startswith("Job has been submitted")
        assert job.stdout.readline()
        job.stdout.close()
        said = job.stderr.read()
        assert job.wait(PATIENCE_SECONDS) == 1
    failure = "print: stdout cannot be written ([Errno 32] Broken pipe)"
    assert said == f"job 'prints' failed: {failure}: keep what reads it open, or write to a file sink\n"
