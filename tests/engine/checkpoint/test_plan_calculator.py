"""Which tasks a checkpoint begins at and which must answer, as tasks finish."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.coordinator import checkpoint_tasks
from onceproof.engine.messages import TaskId

LEFT, RIGHT = TaskId(0, 0), TaskId(0, 1)
FIRST, SECOND = TaskId(1, 0), TaskId(1, 1)
SINK = TaskId(2, 0)
UPSTREAMS = {LEFT: (), RIGHT: (), FIRST: (LEFT,), SECOND: (RIGHT,), SINK: (FIRST, SECOND)}


@pytest.mark.parametrize(
    ("finished", "triggered", "answering"),
    [
        ((), (LEFT, RIGHT), (LEFT, RIGHT, FIRST, SECOND, SINK)),
        ((LEFT,), (RIGHT, FIRST), (RIGHT, FIRST, SECOND, SINK)),
        ((LEFT, FIRST), (RIGHT,), (RIGHT, SECOND, SINK)),
        ((RIGHT, LEFT), (FIRST, SECOND), (FIRST, SECOND, SINK)),
        ((LEFT, RIGHT, FIRST, SECOND), (SINK,), (SINK,)),
    ],
)
def test_task_without_a_running_upstream_is_triggered_itself(finished, triggered, answering):
    tasks = checkpoint_tasks(UPSTREAMS, finished)
    assert tasks is not None
    assert (tasks.triggered, tasks.answering) == (triggered, answering)


def test_there_is_none_when_all_have_finished():
    assert checkpoint_tasks(UPSTREAMS, tuple(UPSTREAMS)) is None


@pytest.mark.parametrize("finished", [(LEFT,), (LEFT, FIRST)])
def test_there_is_none_after_the_first_has_finished_where_it_is_not_to_go_on(finished):
    assert checkpoint_tasks(UPSTREAMS, finished, after_tasks_finish=False) is None
    assert checkpoint_tasks(UPSTREAMS, (), after_tasks_finish=False) is not None
