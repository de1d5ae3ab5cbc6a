"""What an observer under trial puts in the place of a task's machines, to compare what they answer."""

from __future__ import annotations

from typing import Protocol

from onceproof.engine.configuration.alignment import CheckpointOptions
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.barriers.events import BarrierHandler
from onceproof.engine.watermarks.valve import WatermarkValve


class TaskWatch(Protocol):
    """Makes the machines of tasks; they do the same as those that a task makes itself."""

    def barriers(
        self, task: TaskId, vertex: JobVertex, options: CheckpointOptions, channels: int
    ) -> BarrierHandler:
        """Return the barrier handler of a task over so many input channels."""
        ...

    def operator(self, operator: Operator) -> Operator:
        """Return an operator that does the same as one that is not yet open."""
        ...

    def valve(self, name: str, channels: int) -> WatermarkValve:
        """Return the valve of an input, with so many channels, of the task with that name."""
        ...
