"""The context of a function that a test runs without a task."""

from __future__ import annotations

from onceproof.engine.functions import RuntimeContext


def lone_context(attempt: str = "1.1", subtask: int = 0, parallelism: int = 1) -> RuntimeContext:
    """Return the context of one subtask of a job without a folder."""
    return RuntimeContext(
        task_name="sink",
        subtask=subtask,
        parallelism=parallelism,
        max_parallelism=128,
        attempt=attempt,
        clock=lambda: 0,
        pass_point=lambda point, checkpoint_id: None,
    )
