"""Limits Python's garbage collection while a job runs, and in Spark's workers to the current task."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

GARBAGE_THRESHOLD: Final = 100_000
"""Most objects of a buffer are short-lived; Python's default of 700 costs a third of the time."""
TASKS_BETWEEN_THAWS: Final = 50
"""After this number of tasks in a worker, one collection includes all its objects."""

_tasks = count(1)
"""Counts the tasks of this worker."""


@contextmanager
def few_garbage_collections() -> Iterator[None]:
    """Raise the threshold of the youngest generation; the old thresholds come back at the end."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, before[1], before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def freeze_loaded_objects() -> None:
    """Freeze all objects of the worker at the beginning of a task, so that collections skip them.

    After every task Spark's daemon collects garbage in the whole worker while the next task waits. With
    pandas, Arrow and 200 MB of a source's own data that took longer than the task.
    """
    if next(_tasks) % TASKS_BETWEEN_THAWS == 0:
        gc.unfreeze()
    else:
        gc.freeze()
