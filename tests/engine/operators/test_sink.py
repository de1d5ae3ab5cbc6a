"""The sink operator: one by one or a buffer at once, and the hooks of functions with state."""

from __future__ import annotations

import pytest

from onceproof.engine.functions import CheckpointedFunction, CheckpointListener, SinkFunction
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.state.descriptors import ListStateDescriptor


class Collecting(SinkFunction):
    """Takes values one by one, with all values of the context."""

    def __init__(self):
        self.taken = []

    def invoke(self, value, context):
        self.taken.append((value, context.timestamp(), context.current_processing_time()))


class Batched(Collecting):
    """Takes whole buffers if ``accepts`` is set."""

    def __init__(self, accepts=True):
        super().__init__()
        self.accepts = accepts

    def invoke_batch(self, values):
        if self.accepts:
            self.taken.append(list(values))
        return self.accepts


class Remembering(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Keeps its values in list state and writes down every call."""

    def __init__(self):
        self.calls = []
        self.values = []

    def initialize_state(self, context):
        self.calls.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id()))
        self.state = context.get_list_state(ListStateDescriptor("values"))
        self.values = self.state.get()

    def open(self, runtime_context):
        self.calls.append("open")

    def invoke(self, value, context):
        self.values.append(value)

    def snapshot_state(self, context):
        self.calls.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.state.update(self.values)

    def finish(self):
        self.calls.append("finish")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.calls.append(("aborted", checkpoint_id))

    def close(self):
        self.calls.append("close")


def test_values_are_invoked_one_by_one_and_nothing_is_emitted(bench):
    bench.now = 50
    function = Collecting()
    operator = bench.open(SinkOperator(function))
    assert operator.process_batch([("a", 1), ("b", None)], 0) == []
    assert function.taken == [("a", 1, 50), ("b", None, 50)]


def test_function_with_invoke_batch_gets_a_whole_buffer(bench):
    function = Batched()
    operator = bench.open(SinkOperator(function))
    operator.process_batch([("a", 1), ("b", 2)], 0)
    assert function.taken == [["a", "b"]]


def test_values_refused_by_invoke_batch_are_invoked_one_by_one(bench):
    function = Batched(accepts=False)
    operator = bench.open(SinkOperator(function))
    operator.process_batch([("a", 1), ("b", 2)], 0)
    assert [value for value, _, _ in function.taken] == ["a", "b"]


def test_a_buffer_of_one_is_no_batch(bench):
    function = Batched()
    bench.open(SinkOperator(function)).process_batch([("a", 1)], 0)
    assert function.taken == [("a", 1, 0)]


def test_state_is_initialised_before_the_function_opens_and_every_hook_is_called(bench):
    function = Remembering()
    operator = bench.open(SinkOperator(function))
    operator.snapshot(3, 30)
    operator.notify_checkpoint_complete(3)
    operator.notify_checkpoint_aborted(4)
    assert operator.finish() == []
    operator.close()
    assert function.calls == [
        ("initialize", False, None),
        "open",
        ("snapshot", 3, 30),
        ("complete", 3),
        ("aborted", 4),
        "finish",
        "close",
    ]


@pytest.mark.parametrize("after", [1, 2, 4])
def test_list_state_is_dealt_out_over_the_restored_subtasks(bench, after):
    operators = bench.open_all(lambda: SinkOperator(Remembering()), 2)
    operators[0].process_batch([("a", None), ("b", None)], 0)
    operators[1].process_batch([("c", None)], 0)
    restored = bench.restore_all(operators, lambda: SinkOperator(Remembering()), after)
    assert sorted(value for operator in restored for value in operator.function.values) == ["a", "b", "c"]
    for operator in restored:
        assert operator.function.calls[0] == ("initialize", True, 7), "restored, be it with nothing"


def test_a_function_without_hooks_has_no_state_and_hears_nothing(bench):
    operator = bench.open(SinkOperator(Collecting()))
    assert operator.snapshot(1, 0) is None
    operator.notify_checkpoint_complete(1)
    operator.notify_checkpoint_aborted(2)
    assert operator.finish() == []
