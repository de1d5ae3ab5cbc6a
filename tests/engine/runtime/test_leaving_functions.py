"""User code that leaves by any error: it costs an attempt, and no row is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from onceproof.engine import MapFunction, StreamExecutionEnvironment, Types
from onceproof.engine.errors import Interrupted
from onceproof.engine.runtime import local
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.workers import worker_coordinator
from tests.engine.runtime.leaving_job import ALL, ERRORS, Leaves, environment, rows
from tests.patience import PATIENCE_SECONDS

PLACES = {
    **dict.fromkeys(["source", "timestamps", "watermarks", "filter", "generator", "partitioner"], 5),
    **dict.fromkeys(["partition key", "key", "process", "timer", "async", "encoder", "map"], 5),
    **dict.fromkeys(["initialize", "open", "snapshot", "notify", "close"], 1),
}
"""Where user code is called, and at which call of a subtask it raises."""
WORKERS = {"execution__local__workers": 2}
RUNTIMES = {"local": (local.execute, {}), "workers": (worker_coordinator.execute, WORKERS)}


@pytest.fixture(params=RUNTIMES)
def run(request, tmp_path):
    """Run the job on a runtime to its end."""
    execute, options = RUNTIMES[request.param]

    def run_job(leaves):
        return execute(environment(tmp_path, leaves, **options).get_job_graph("leaving"))

    return run_job


@pytest.mark.parametrize("error", ["exit", "iteration", "generator"])
@pytest.mark.parametrize("place", PLACES)
def test_error_in_any_place_costs_an_attempt_and_no_row(tmp_path, place, error):
    leaves = Leaves(tmp_path, place, error, PLACES[place])
    result = local.execute(environment(tmp_path, leaves).get_job_graph("leaving"))
    assert Path(leaves.mark).exists(), "the place was not passed"
    assert result.restarts == 1
    assert rows(tmp_path) == ALL


@pytest.mark.parametrize("error", ["exit", "interrupt", "generator"])
@pytest.mark.parametrize("place", ["copy", "pickle"])
def test_value_of_a_state_that_leaves_while_it_is_stored_costs_an_attempt(tmp_path, place, error):
    leaves = Leaves(tmp_path, place, error)
    result = local.execute(environment(tmp_path, leaves).get_job_graph("leaving"))
    assert result.restarts == 1
    assert rows(tmp_path) == ALL


def test_value_of_a_state_that_cannot_be_stored_is_named_and_not_cut_off(tmp_path):
    leaves = Leaves(tmp_path, "pickle", "iteration")
    with pytest.raises(JobExecutionFailed, match=r"state 'held'.*: .*\w"):
        local.execute(environment(tmp_path, leaves).get_job_graph("leaving"))


@pytest.mark.parametrize("error", ERRORS)
def test_any_error_costs_an_attempt_and_no_row(tmp_path, run, error):
    result = run(Leaves(tmp_path, "map", error, 5))
    assert result.restarts == 1
    assert len(result.last_restart_cause) < 12_000
    assert rows(tmp_path) == ALL


@pytest.mark.parametrize("place", ["source", "generator", "async", "pickle", "notify", "encoder"])
def test_function_that_exits_in_a_worker_costs_an_attempt_and_no_row(tmp_path, place):
    leaves = Leaves(tmp_path, place, "exit", PLACES.get(place, 1))
    result = worker_coordinator.execute(environment(tmp_path, leaves, **WORKERS).get_job_graph("leaving"))
    assert result.restarts == 1
    assert "SystemExit" in result.last_restart_cause
    assert rows(tmp_path) == ALL


def test_function_that_always_exits_fails_the_job(tmp_path):
    class Always(Leaves):
        def at(self, place):
            if place == "map":
                sys.exit(0)

    options = {"restart_strategy__fixed_delay__attempts": 1_000_000}
    graph = environment(tmp_path, Always(tmp_path, "map", "exit"), **options).get_job_graph("leaving")
    with pytest.raises(JobExecutionFailed, match="SystemExit: 0"):
        local.execute(graph)


def test_rows_that_a_program_collects_end_with_the_error_of_a_function_that_exits():
    class Exits(MapFunction):
        def map(self, value):
            if value == 50:
                sys.exit(0)
            return value

    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection(range(100), Types.LONG())
    with (
        numbers.map(Exits(), Types.LONG()).execute_and_collect() as collected,
        pytest.raises(JobExecutionFailed, match="SystemExit: 0"),
    ):
        list(collected)


def test_client_of_a_job_whose_function_exits_learns_the_failure(tmp_path):
    options = {"restart_strategy__fixed_delay__attempts": 0}
    env = environment(tmp_path, Leaves(tmp_path, "map", "exit", 5), **options)
    client = env.execute_async("leaving")
    with pytest.raises(JobExecutionFailed, match="SystemExit: 0"):
        client.get_job_execution_result().result(PATIENCE_SECONDS)


def test_interrupt_of_the_engines_own_handler_is_no_failure_of_the_function(tmp_path):
    class Pressed(Leaves):
        def at(self, place):
            if place == "map":
                raise Interrupted

    graph = environment(tmp_path, Pressed(tmp_path, "map", "exit")).get_job_graph("leaving")
    with pytest.raises(KeyboardInterrupt):
        local.execute(graph)


def test_thread_of_a_function_that_keeps_the_program_from_ending_is_named(caplog):
    over = threading.Event()

    class Begins(MapFunction):
        def open(self, runtime_context):
            threading.Thread(target=over.wait, name="left over").start()

        def map(self, value):
            return value

        def __deepcopy__(self, memo):
            return self

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(range(10), Types.LONG()).map(Begins(), Types.LONG()).print()
    env.execute("begins")
    over.set()
    assert "has ended, but not its threads left over" in caplog.text


PROGRAM = """
import os, signal, sys
from onceproof.engine import Configuration, NumberSequenceSource, StreamExecutionEnvironment
from onceproof.engine.runtime.local import LocalExecution

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
handle_events, rounds = LocalExecution._handle_events, []

def handle(execution):
    # The signal comes while the engine's own code runs.
    rounds.append(0)
    if len(rounds) == 20:
        os.kill(os.getpid(), signal.SIGTERM)
    return handle_events(execution)

LocalExecution._handle_events = handle
configuration = Configuration.from_mapping({"pipeline.buffer-records": 1})
environment = StreamExecutionEnvironment.get_execution_environment(configuration)
environment.from_source(NumberSequenceSource(0, 1_000_000), None, "numbers").print()
environment.execute("terminated")
"""


def test_program_that_exits_with_0_while_its_job_runs_ends_with_another_code(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 1
    assert "was left by SystemExit(0) before it had ended" in ran.stderr


SLEEPS = """
import time
from onceproof.engine import NumberSequenceSource, StreamExecutionEnvironment

def slowly(number):
    print("working", flush=True)
    time.sleep(600)

environment = StreamExecutionEnvironment.get_execution_environment()
environment.from_source(NumberSequenceSource(0, 10), None, "numbers").map(slowly).print()
environment.execute("sleeps")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_that_strikes_in_a_function_ends_the_command_and_fails_no_function(tmp_path, number, code):
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    main = "from onceproof.harness.commands.cli import main; raise SystemExit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", main, "job", "run", "-D", "restart-strategy.type=fixed-delay", "sleeps.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while not process.stdout.readline().startswith("working"):
            assert process.poll() is None
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert "attempt" not in said
