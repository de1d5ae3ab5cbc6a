"""The context of user functions, and the errors of calls that come too early."""

from __future__ import annotations

import pytest

from onceproof.engine.functions import CheckpointListener, Function, RuntimeContext, SinkFunction
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types


@pytest.fixture
def context():
    points = []
    made = RuntimeContext(
        task_name="count",
        subtask=1,
        parallelism=2,
        max_parallelism=128,
        attempt="3.2",
        clock=lambda: 99,
        pass_point=lambda point, checkpoint_id: points.append((point, checkpoint_id)),
    )
    return made, points


def test_the_context_knows_its_subtask(context):
    context, _ = context
    assert context.get_task_name() == "count"
    assert context.get_index_of_this_subtask() == 1
    assert context.get_number_of_parallel_subtasks() == 2
    assert context.get_max_number_of_parallel_subtasks() == 128
    assert context.get_attempt_id() == "3.2"
    assert context.get_current_processing_time() == 99


def test_keyed_state_needs_a_keyed_stream(context):
    context, _ = context
    mend = "state 'total' of 'count' needs a keyed stream: call key_by directly before the operator"
    with pytest.raises(TypeError, match=mend):
        context.get_state(ValueStateDescriptor("total", Types.LONG()))


def test_probe_reaches_the_observer(context):
    context, points = context
    context.probe("committing", 5)
    assert points == [("committing", 5)]


def test_a_function_has_no_context_before_it_runs():
    with pytest.raises(RuntimeError, match="Function has no runtime context before its task is restored"):
        Function().get_runtime_context()


def test_hooks_are_optional():
    function = Function()
    function.open(None)
    function.close()
    listener = CheckpointListener()
    listener.notify_checkpoint_complete(1)
    listener.notify_checkpoint_aborted(1)
    sink = SinkFunction()
    sink.finish()
    assert not sink.invoke_batch(["a"])


def test_a_sink_must_take_values():
    class Empty(SinkFunction):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must implement invoke\(value, context\)"):
        Empty().invoke("a", None)
