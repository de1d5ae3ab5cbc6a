"""Operators without a task: opened with a context, snapshotted, and restored from that at any parallelism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, SubtaskState, handle_of
from onceproof.engine.checkpoint.redistribution import Vertex, read_assignment, redistribute
from onceproof.engine.elements import Record
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.state.snapshot import TaskSnapshot, encode_task_snapshot

MAX_PARALLELISM = 8


class Behind:
    """Records what an operator sends to its downstream: values, watermarks, "idle" and "active"."""

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.wishes: list[int] = []
        """The times at which it wants to be called."""

    def emit(self, records: list[Record]) -> None:
        self.elements.extend([value for value, _ in records])

    def watermark(self, timestamp: int) -> None:
        self.elements.append(timestamp)

    def status(self, is_idle: bool) -> None:
        self.elements.append("idle" if is_idle else "active")

    def wake_at(self, due_ms: int) -> None:
        self.wishes.append(due_ms)

    wake_at_steady = wake_at


class Bench:
    """Opens operators, and restores their state into other subtasks through encoded files."""

    def __init__(self) -> None:
        self.now = 0
        self.points: list[tuple[str, int]] = []
        self.behind = Behind()
        self.side: dict[str, list[Record]] = {}
        """The records of side outputs by tag; only tags that a test enters here have a reader."""

    def open(
        self,
        operator: Operator,
        *,
        subtask: int = 0,
        parallelism: int = 1,
        restored: int | None = None,
        keyed: Any = None,
        lists: Any = None,
        has_finished: bool = False,
    ) -> Any:
        operator.open(
            OperatorContext(
                task_name="work",
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=MAX_PARALLELISM,
                key_groups=key_group_range(MAX_PARALLELISM, parallelism, subtask),
                attempt="3.2",
                clock=lambda: self.now,
                steady_clock=lambda: self.now,
                probe=lambda point, checkpoint_id: self.points.append((point, checkpoint_id)),
                restored_checkpoint_id=restored,
                keyed=keyed,
                operator=lists,
                has_finished=has_finished,
                downstream=self.behind,
                auto_watermark_interval_ms=10,
                side_outputs={tag: [records.extend] for tag, records in self.side.items()},
            )
        )
        return operator

    def open_all(self, make: Callable[[], Operator], parallelism: int) -> list[Any]:
        """Open every subtask at a fresh start."""
        return [self.open(make(), subtask=subtask, parallelism=parallelism) for subtask in range(parallelism)]

    def restore_all(
        self,
        operators: Sequence[Operator],
        make: Callable[[], Operator],
        parallelism: int,
        *,
        has_finished: bool = False,
    ) -> list[Any]:
        """Take checkpoint 7 of ``operators``, and restore it into new subtasks."""
        files: dict[str, bytes] = {}
        subtasks = []
        for subtask, operator in enumerate(operators):
            snapshot = operator.snapshot(7, 70)
            assert snapshot is not None
            encoded = encode_task_snapshot(TaskSnapshot({"op": snapshot}))
            path = f"chk-7/{subtask}"
            files[path] = encoded.data
            subtasks.append(SubtaskState(handle_of(path, encoded), has_finished))
        metadata = OperatorMetadata("op", "op", "op", len(operators), MAX_PARALLELISM, tuple(subtasks))
        checkpoint = CheckpointMetadata(7, "job", "words", 70, "checkpoint", "3.1", (metadata,))
        dealt = redistribute(checkpoint, [Vertex("op", parallelism, MAX_PARALLELISM, True)])
        restored = []
        for subtask in range(parallelism):
            state = read_assignment(dealt["op", subtask], files.__getitem__)
            restored.append(
                self.open(
                    make(),
                    subtask=subtask,
                    parallelism=parallelism,
                    restored=7,
                    keyed=state.keyed,
                    lists=state.operator,
                    has_finished=dealt["op", subtask].finished,
                )
            )
        return restored

    def process(self, operator: Operator, *values: Any, timestamps: bool = False) -> list[Any]:
        """Process values (or records, if each is one) and return the emitted values."""
        if timestamps:
            return operator.process_batch(list(values), 0)
        return [value for value, _ in operator.process_batch([(value, None) for value in values], 0)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> type[Bench]:
    """For tests that need a bench for each of many examples."""
    return Bench
