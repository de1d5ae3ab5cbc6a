"""A job whose user code fails in the same way each time does not restart for ever."""

from __future__ import annotations

import logging
import re

import pytest

from onceproof.engine import Configuration, MapFunction, StreamExecutionEnvironment
from onceproof.engine.runtime.job_result import JobExecutionFailed


@pytest.fixture
def tries():
    """The values of attempts: how often ``open`` was called."""
    return []


class Failing(MapFunction):
    """Raises at ``open`` or at a value, in the first ``times`` attempts."""

    def __init__(self, tries, error, at="value", times=1000):
        self.tries = tries
        self.error = error
        self.at = at
        self.times = times

    def __deepcopy__(self, memo):
        return Failing(self.tries, self.error, self.at, self.times)

    def open(self, runtime_context):
        self.tries.append(self.at)
        if self.at == "open" and len(self.tries) <= self.times:
            raise self.error(len(self.tries))

    def map(self, value):
        if self.at == value and len(self.tries) <= self.times:
            raise self.error(len(self.tries))
        return value


def run(function, **options):
    configuration = Configuration()
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 30,
        "restart-strategy.fixed-delay.delay": "1 ms",
        # Equal errors come behind equally many buffers: a busy machine must not split them.
        "execution.buffer-timeout.interval": "1 min",
        **{key.replace("_", "-"): value for key, value in options.items()},
    }
    for key, value in settings.items():
        configuration.set_string(key, str(value))
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(1)
    # Without checkpoints each attempt reads all again.
    return set(environment.from_collection(["a", "b", "value"]).map(function).execute_and_collect())


def same(number):
    return ValueError("no such currency: XX")


@pytest.mark.parametrize("at", ["open", "a", "value"])
def test_third_equal_error_ends_the_job_with_the_cause_and_the_mend(tries, caplog, at):
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(JobExecutionFailed) as failed:
        run(Failing(tries, same, at))
    assert len(tries) == 3
    said = str(failed.value)
    assert re.search(
        r"ValueError: no such currency: XX \(test_equal_errors\.py, line \d+\): 3 attempts have ended with"
        r" this error at the same place",
        said,
    )
    assert said.endswith("set restart-strategy.max-equal-errors to 0 to restart as the strategy says")
    assert "\n" not in said


def test_limit_of_zero_leaves_it_to_the_restart_strategy(tries, caplog):
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(
        JobExecutionFailed, match=r"no such currency: XX \(test_equal_errors\.py, line \d+\)$"
    ):
        run(Failing(tries, same), **{"restart-strategy.max-equal-errors": 0})
    assert len(tries) == 31


@pytest.mark.parametrize(
    "error",
    [lambda number: ValueError(f"try {number}"), lambda number: ConnectionRefusedError("no database")],
    ids=["another text each time", "no connection"],
)
def test_errors_that_differ_or_may_pass_are_retried(tries, caplog, error):
    caplog.set_level(logging.CRITICAL)
    assert run(Failing(tries, error, times=10)) == {"a", "b", "value"}
    assert len(tries) == 11


def test_error_that_is_gone_in_time_is_survived(tries, caplog):
    caplog.set_level(logging.CRITICAL)
    assert run(Failing(tries, same, times=2)) == {"a", "b", "value"}
