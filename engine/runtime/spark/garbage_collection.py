"""Limits Python's garbage collection in Spark's workers to the objects of the current task."""

from __future__ import annotations

import gc
from itertools import count
from typing import Final

TASKS_BETWEEN_THAWS: Final = 50
"""After this number of tasks in a worker, one collection includes all its objects."""

_tasks = count(1)
"""Counts the tasks of this worker."""


def freeze_loaded_objects() -> None:
    """Freeze all objects of the worker at the beginning of a task, so that collections skip them.

    After every task Spark's daemon collects garbage in the whole worker while the next task waits. With
    pandas, Arrow and 200 MB of a source's own data that took longer than the task.
    """
    if next(_tasks) % TASKS_BETWEEN_THAWS == 0:
        gc.unfreeze()
    else:
        gc.freeze()
