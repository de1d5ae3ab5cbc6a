"""What a function can ask of its runtime context in a job."""

from __future__ import annotations

import pytest

from onceproof.engine import Configuration, MapFunction, StreamExecutionEnvironment
from onceproof.engine.runtime_context import RuntimeContext


class Asking(MapFunction):
    """Writes what the context says into a file: with workers it runs in another process."""

    def __init__(self, path):
        self.path = path

    def open(self, runtime_context):
        self.context = runtime_context

    def map(self, value):
        context = self.context
        parameters = [context.get_job_parameter(name, "none") for name in ("rate", "place")]
        said = [context.get_task_name_with_subtasks(), context.get_attempt_number(), *parameters]
        self.path.write_text(repr(said))
        return value


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_reads_its_names_and_the_parameters_of_the_job(workers, tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration.from_mapping({"execution.local.workers": workers}))
    env.get_config().set_global_job_parameters({"rate": 5})
    path = tmp_path / "said"
    asked = env.from_collection([1]).rebalance().map(Asking(path)).name("asking").set_parallelism(3)
    asked.rebalance().print()
    env.execute("asking")
    assert path.read_text() == repr(["asking (1/3)", 0, "5", "none"])


@pytest.mark.parametrize(("attempt", "number"), [("1.1", 0), ("7.3", 2), ("", 0)])
def test_the_attempt_number_counts_restarts_in_one_process(attempt, number):
    context = RuntimeContext(
        task_name="t",
        subtask=0,
        parallelism=1,
        max_parallelism=1,
        attempt=attempt,
        clock=lambda: 0,
        pass_point=lambda point, checkpoint_id: None,
    )
    assert context.get_attempt_number() == number
