"""The rows of ``execute_and_collect``, read while the job runs."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from onceproof.engine import (
    Configuration,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.patience import PATIENCE_SECONDS

ENDLESS = 2**60


def numbers(last=ENDLESS, **options):
    """The numbers from 0 on, about so many that they never end."""
    settings = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.set_parallelism(1)
    return env.from_source(NumberSequenceSource(0, last), WatermarkStrategy.no_watermarks(), "numbers")


def job_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("job-")]


def await_no_jobs():
    given_up = time.monotonic() + PATIENCE_SECONDS
    while job_threads():
        assert time.monotonic() < given_up, "the job runs on"
        time.sleep(0.01)


CHECKPOINTS = {"execution__checkpointing__interval": "10 ms"}


@pytest.mark.parametrize("options", [{}, CHECKPOINTS], ids=["as they arrive", "with checkpoints"])
def test_rows_of_an_endless_stream_are_there_while_it_runs(options):
    with numbers(**options).execute_and_collect() as rows:
        assert [next(rows) for _ in range(5000)] == list(range(5000))
        [job] = job_threads()
        assert job.is_alive()
    assert list(rows) == []
    await_no_jobs()


def test_limit_of_an_endless_stream_ends_the_job():
    assert numbers().execute_and_collect(limit=3) == [0, 1, 2]
    await_no_jobs()


def test_iterator_that_nothing_refers_to_any_more_ends_the_job():
    rows = numbers().execute_and_collect()
    assert next(rows) == 0
    del rows
    gc.collect()
    await_no_jobs()


def test_rows_before_an_error_are_given_and_then_the_error():
    def checked(number):
        if number == 3:
            raise ValueError("no threes")
        return number

    options = {"restart_strategy__type": "disable", "execution__buffer_timeout__interval": "0 ms"}
    rows = numbers(10, **options).map(checked).execute_and_collect()
    assert [next(rows) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(JobExecutionFailed, match="no threes"):
        next(rows)
    assert list(rows) == []


def test_closing_twice_and_after_the_end_changes_nothing():
    rows = numbers(3).execute_and_collect()
    assert list(rows) == [0, 1, 2, 3]
    rows.close()
    rows.close()
    assert list(rows) == []


PROGRAM = """
import sys
from onceproof.engine import NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy

env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_source(NumberSequenceSource(0, 2**60), WatermarkStrategy.no_watermarks(), "numbers")
rows = stream.{filter}execute_and_collect()
{wait}
"""


@pytest.mark.local_kill
def test_program_that_ends_takes_its_job_with_it(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(filter="", wait="print(next(rows), flush=True)"))
    ended = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert (ended.stdout, ended.stderr) == ("0\n", "")


@pytest.mark.local_kill
def test_interrupt_of_a_program_that_waits_for_rows_ends_it(tmp_path):
    path = tmp_path / "program.py"
    wait = "print('waits', flush=True)\nnext(rows)"
    path.write_text(PROGRAM.format(filter="filter(lambda number: False).", wait=wait))
    with subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout.readline() == "waits\n"
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=PATIENCE_SECONDS)
    assert said.splitlines()[-1] == "KeyboardInterrupt"
