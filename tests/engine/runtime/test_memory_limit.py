"""Checkpoints in memory have a bound; a job that exceeds it says how to mend it."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    Configuration,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed


class Keeping(KeyedProcessFunction):
    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value, ctx):
        self.kept.update("x" * 1000)
        yield value


def run(options):
    given = {"execution.checkpointing.interval-records": 1, "restart-strategy.type": "none", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(given))
    env.from_collection([1, 2, 3]).key_by(lambda value: value).process(Keeping()).print()
    return env.execute("keeping")


def test_a_job_whose_state_exceeds_the_bound_fails_with_the_mend():
    with pytest.raises(JobExecutionFailed, match=r"exceeds the 900 .* set execution\.checkpointing\.dir"):
        run({"execution.checkpointing.max-memory-state": "900"})


def test_the_bound_is_five_mebibytes_and_does_not_hold_for_files(tmp_path):
    assert run({}).checkpoints > 0
    bounded = {
        "execution.checkpointing.max-memory-state": "900",
        "execution.checkpointing.dir": str(tmp_path),
    }
    assert run(bounded).checkpoints > 0
