"""A task on a bench: hand-made operators that write down who calls them, and queues that do the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import CheckpointBarrier, Element, Record
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskId,
    TriggerCheckpoint,
)
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.task.events import POLL, Deliver, Restore, TaskEffect
from onceproof.engine.task.outputs import Output, SingleOutput
from onceproof.engine.task.task import Task, TaskSettings
from onceproof.engine.task.timed_task import TimedTask

ATTEMPT = AttemptId("3.2")
TASK = TaskId(0, 1)


class Recorder(Operator):
    """Passes records on and writes every call into ``calls``; raises in the one that ``raises_in`` names.

    ``before_barrier`` and ``at_end`` are the values it emits of itself.
    """

    def __init__(
        self,
        name: str,
        calls: list[tuple[Any, ...]],
        *,
        stateful: bool = True,
        before_barrier: Sequence[Any] = (),
        at_end: Sequence[Any] = (),
        keeps: Callable[[Any], bool] = lambda value: True,
        raises_in: str = "",
    ) -> None:
        self.name = name
        self.calls = calls
        self.stateful = stateful
        self.before_barrier = before_barrier
        self.at_end = at_end
        self.keeps = keeps
        self.raises_in = raises_in
        self.on_time: Callable[[int], Sequence[Any]] = lambda time: ()
        """What follows from a watermark, or from a time that was asked for."""
        self.context: OperatorContext | None = None

    def note(self, call: str, *arguments: Any) -> None:
        self.calls.append((call, self.name, *arguments))
        if call == self.raises_in:
            raise RuntimeError(f"{call} of {self.name}")

    def open(self, context: OperatorContext) -> None:
        self.context = context
        self.note("open")

    def commit_without_checkpoints(self, now: int) -> None:
        self.note("commit")

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        self.note("process", input_index, *[value for value, _ in records])
        return [record for record in records if self.keeps(record[0])]

    def process_watermark(self, timestamp: int) -> list[Record]:
        self.note("watermark", timestamp)
        return [(value, timestamp) for value in self.on_time(timestamp)]

    def process_time(self, now: int) -> list[Record]:
        self.note("time", now)
        return [(value, now) for value in self.on_time(now)]

    def finish(self) -> list[Record]:
        self.note("finish")
        return [(value, None) for value in self.at_end]

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        self.note("prepare", checkpoint_id)
        return [(value, None) for value in self.before_barrier]

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        self.note("snapshot", checkpoint_id)
        return OperatorSnapshot() if self.stateful else None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note("complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.note("aborted", checkpoint_id)

    def close(self) -> None:
        self.note("close")


class Letters(Source):
    """Given values in the split of subtask 1."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = list(values)

    def splits(self) -> list[str]:
        return ["a split of subtask 0", "letters"]

    def open_split(self, split: str, position: Any) -> SplitReader:
        return LetterReader(self.values, position or 0)


class LetterReader(SplitReader):
    """Reads on from a position."""

    def __init__(self, values: list[Any], position: int) -> None:
        self._values = values
        self._position = position

    def read(self, limit: int) -> list[Record]:
        begin = self._position
        self._position = min(begin + limit, len(self._values))
        return [(value, None) for value in self._values[begin : self._position]]

    @property
    def position(self) -> int:
        return self._position

    @property
    def exhausted(self) -> bool:
        return self._position == len(self._values)


class LoggedQueue(deque[Element]):
    """A channel without a receiver; every element is also an entry in ``calls``."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.calls = calls

    def append(self, element: Element) -> None:
        super().append(element)
        if isinstance(element, list):
            self.calls.append(("send", *[value for value, _ in element]))
        else:
            self.calls.append(("send", element))


class Bench:
    """Builds a task and drives it; ``calls`` is all that happened in it, ``points`` what its probe saw."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.points: list[tuple[str, str, int]] = []
        self.sent: list[LoggedQueue] = []

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        self.points.append((point, task, checkpoint_id))

    def recorder(self, name: str, **how: Any) -> Recorder:
        return Recorder(name, self.calls, **how)

    def source(self, values: Iterable[Any] = "ab") -> SourceOperator:
        return SourceOperator(Letters(values))

    def task(
        self,
        *operators: Operator,
        channels: Sequence[int] = (),
        outputs: int = 1,
        checkpointing: bool = True,
        restored: int | None = None,
        running: bool = True,
    ) -> Task:
        """A task with an input channel for each index of an input edge in ``channels``."""
        nodes = tuple(
            OperatorNode(f"{position:032x}", None, f"op {position}", lambda: Operator())
            for position in range(len(operators))
        )
        vertex = JobVertex(0, "work", nodes, 2, 8, True, (), ())
        settings = TaskSettings(ATTEMPT, 1, self.probe, checkpointing)
        kind = TimedTask if any(operator.uses_time for operator in operators) else Task
        task = kind(TASK, vertex, settings, channels, operators)
        self.sent = [LoggedQueue(self.calls) for _ in range(outputs)]
        task.connect([self.output(queue) for queue in self.sent])
        if running:
            self.restore(task, restored)
        return task

    def restore(self, task: Task, restored: int | None = None, now: int = 0) -> Sequence[TaskEffect]:
        """Let the task run; what came out of it."""
        effects = task.handle(Restore(restored, {}), now)
        self.calls.clear()
        self.points.clear()
        return effects

    def output(self, queue: LoggedQueue) -> Output:
        return SingleOutput([queue])

    def feed(self, task: Task, channel: int, *elements: Element) -> list[TaskEffect]:
        """Put elements into a channel and let the task read as far as it may; what came out of it."""
        effects: list[TaskEffect] = []
        task.queues[channel].extend(elements)
        progress = True
        while progress:
            progress = False
            for place, queue in enumerate(task.queues):
                while queue and not task.barriers.blocked[place]:
                    effects.extend(task.handle(Deliver(place), 0))
                    task.validate()
                    progress = True
        return effects

    def poll(self, task: Task, times: int = 1) -> list[TaskEffect]:
        """Let a source read so many buffers."""
        return [effect for _ in range(times) for effect in task.handle(POLL, 0)]

    # What the job master and the neighbours say.

    def barrier(self, checkpoint_id: int) -> CheckpointBarrier:
        return CheckpointBarrier(checkpoint_id, 1000 + checkpoint_id)

    def trigger(self, checkpoint_id: int, attempt: str = ATTEMPT) -> TriggerCheckpoint:
        return TriggerCheckpoint(AttemptId(attempt), TASK, checkpoint_id, 1000 + checkpoint_id)

    def complete(self, checkpoint_id: int, attempt: str = ATTEMPT) -> NotifyCheckpointComplete:
        return NotifyCheckpointComplete(AttemptId(attempt), TASK, checkpoint_id)

    def aborted(self, checkpoint_id: int, attempt: str = ATTEMPT) -> NotifyCheckpointAborted:
        return NotifyCheckpointAborted(AttemptId(attempt), TASK, checkpoint_id)

    # What the task answers.

    def acknowledgement(self, checkpoint_id: int, handle: object, finished: bool = False) -> Send:
        return Send(AcknowledgeCheckpoint(ATTEMPT, TASK, checkpoint_id, handle, finished))

    def decline(self, checkpoint_id: int, reason: str) -> Send:
        return Send(DeclineCheckpoint(ATTEMPT, TASK, checkpoint_id, reason))

    def take_calls(self) -> list[tuple[Any, ...]]:
        """What happened since the last time."""
        calls, self.calls[:] = list(self.calls), []
        return calls


@pytest.fixture
def bench() -> Bench:
    return Bench()
