"""Garbage in Spark's Python workers: where it is looked for between two tasks."""

from __future__ import annotations

import gc
from itertools import count
from typing import Final

TASKS_BETWEEN_THAWS: Final = 50
"""After so many tasks of a worker everything in it is looked through for garbage again."""

_tasks = count(1)
"""Of this worker."""


def freeze_loaded_objects() -> None:
    """At the beginning of a task: have garbage looked for among what it makes, not in all of its worker.

    After every task Spark's daemon looks through all that the worker holds, while the next task waits: with
    pandas, Arrow and 200 MB of a source's own data that took longer than the task. What is there now has just
    been through it.
    """
    if next(_tasks) % TASKS_BETWEEN_THAWS == 0:
        gc.unfreeze()
    else:
        gc.freeze()
