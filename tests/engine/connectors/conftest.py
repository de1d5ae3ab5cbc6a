"""A small stand-in for task and coordinator: drives sink functions through attempts and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import EncodedList


class SinkJob:
    """All subtasks of one sink over several attempts; checkpointed ``states`` are encoded and decoded."""

    def __init__(self, create_function: Callable[[], Any], job_id: str = "") -> None:
        self.create_function = create_function
        self.job_id = job_id
        self.scope = ""
        self.attempt = 0
        self.functions: list[Any] = []
        self.stores: list[OperatorStateStore] = []
        self.checkpoints: dict[int, list[dict[str, EncodedList]]] = {}
        self.passed: list[tuple[str, int]] = []
        self.probe: Callable[[str, int], None] = lambda point, checkpoint_id: self.passed.append(
            (point, checkpoint_id)
        )
        self.now_ms = 0

    def start(
        self,
        parallelism: int = 1,
        restored: int | None = None,
        attempt: str | None = None,
        settled: bool = False,
    ) -> Any:
        """Begin an attempt; the functions of the previous one stay as a crash would leave them."""
        self._make(parallelism, restored, attempt)
        for function, store in zip(self.functions, self.stores, strict=True):
            if hasattr(function, "initialize_state"):
                function.initialize_state(FunctionInitializationContext(restored, store, settled))
            function.open(function.get_runtime_context())
        return self.functions[0]

    def settle(self, restored: int | None, parallelism: int = 1) -> None:
        """Commit as a driver does in place of its tasks."""
        self._make(parallelism, restored, "2.driver")
        for function, store in zip(self.functions, self.stores, strict=True):
            function.settle(FunctionInitializationContext(restored, store))
        for function in self.functions:
            function.abort_unlisted()

    def _make(self, parallelism: int, restored: int | None, attempt: str | None) -> None:
        self.attempt += 1
        self.functions = []
        self.stores = []
        for subtask in range(parallelism):
            store = OperatorStateStore()
            if restored is not None:
                store.restore(self._dealt(restored, subtask, parallelism))
            function: SinkFunction = self.create_function()
            context = RuntimeContext(
                task_name="sink",
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=128,
                attempt=attempt or f"1.{self.attempt}",
                clock=lambda: self.now_ms,
                pass_point=lambda point, checkpoint_id: self.probe(point, checkpoint_id),
                job_id=self.job_id,
                scope=self.scope,
            )
            function.set_runtime_context(context)
            self.functions.append(function)
            self.stores.append(store)

    def snapshot(self, checkpoint_id: int) -> None:
        """Take a checkpoint in all subtasks; it counts as completed from here on."""
        states = []
        for function, store in zip(self.functions, self.stores, strict=True):
            function.snapshot_state(FunctionSnapshotContext(checkpoint_id, self.now_ms))
            task = TaskSnapshot({"sink": OperatorSnapshot(None, store.snapshot())})
            encoded = encode_task_snapshot(task)
            states.append(decode_task_snapshot(encoded.data, "snapshot")["sink"].operator)
        self.checkpoints[checkpoint_id] = states

    def notify(self, checkpoint_id: int) -> None:
        """Notify every subtask that the checkpoint is complete."""
        for function in self.functions:
            function.notify_checkpoint_complete(checkpoint_id)

    def _dealt(self, checkpoint_id: int, subtask: int, parallelism: int) -> dict[str, EncodedList]:
        dealt: dict[str, EncodedList] = {}
        for state in self.checkpoints[checkpoint_id]:
            for name, part in state.items():
                before = dealt.get(name)
                elements = [*(before.elements if before else []), *part.elements]
                dealt[name] = EncodedList(part.mode, part.type, elements)
        restored = {}
        for name, part in dealt.items():
            # Contiguous runs, the first of them longer: as redistribution deals split state.
            size, longer = divmod(len(part.elements), parallelism)
            begin = subtask * size + min(subtask, longer)
            elements = part.elements[begin : begin + size + (subtask < longer)]
            restored[name] = EncodedList(part.mode, part.type, elements)
        return restored


@pytest.fixture
def sink_job() -> type[SinkJob]:
    """Return the class, because each test has its own sink."""
    return SinkJob
