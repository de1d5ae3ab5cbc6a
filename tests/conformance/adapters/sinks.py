"""Committers and write-ahead sinks: drives engine.connectors with a scripted external system."""

from collections.abc import Sequence
from typing import Any

from onceproof.engine.connectors.committables import (
    CommitFailedUnexpectedly,
    CommitGivenUp,
    CommittableCollector,
    CommittableSummary,
    CommittableWithLineage,
    DuplicateSummary,
    IncompleteCommittables,
    UnexpectedCommittable,
)
from onceproof.engine.connectors.sink_writer import CommitRequest, Committer
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext, RuntimeContext
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import EncodedList

OPERATOR = "sink"

ERRORS = {
    CommitGivenUp: "IOException",
    IncompleteCommittables: "IllegalArgumentException",
    UnexpectedCommittable: "IllegalStateException",
    CommitFailedUnexpectedly: "IllegalStateException",
    DuplicateSummary: "UnsupportedOperationException",
}


class ScriptedCommitter(Committer):
    """Reacts to each call with the vector's next word for the committable, and succeeds when none is left."""

    def __init__(self, behaviour: dict[str, list[str]]) -> None:
        self.behaviour = {committable: list(words) for committable, words in behaviour.items()}
        self.calls: list[list[Any]] = []

    def commit(self, committables: Sequence[CommitRequest]) -> None:
        self.calls.append([request.get_committable() for request in committables])
        for request in committables:
            words = self.behaviour.get(request.get_committable())
            if words:
                self.say(request, words.pop(0))

    @staticmethod
    def say(request: CommitRequest, word: str) -> None:
        reason = RuntimeError("the commit fails as the vector wants it")
        outcome = word.lower()
        if "already" in outcome:
            request.signal_already_committed()
        elif "unknown" in outcome:
            request.signal_failed_with_unknown_reason(reason)
        elif "known" in outcome:
            request.signal_failed_with_known_reason(reason)
        elif "update" in outcome:
            request.update_and_retry_later(word.partition(":")[2] or request.get_committable())
        elif "retry" in outcome:
            request.retry_later()
        elif outcome not in ("ok", "success", "commit"):
            raise ValueError(f"unknown behaviour {word}")


class CommitterScript:
    """Plays a vector's events on one collector after another."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.max_retries = given["max_retries"]
        self.committer = ScriptedCommitter(given.get("committer_behaviour", {}))
        self.collector = CommittableCollector()
        self.snapshots: dict[int, list[Any]] = {}

    def play(self, event: list[Any]) -> dict[str, Any]:
        """Play one event and return its effects."""
        self.committer.calls = []
        led_to: dict[str, Any] = {"commit_calls": self.committer.calls}
        name, *arguments = event
        try:
            result = getattr(self, f"on_{name}")(*arguments)
        except tuple(ERRORS) as error:
            led_to["error"] = ERRORS[type(error)]
        else:
            if result:
                led_to["result"] = result
        return led_to

    def on_summary(self, subtask: int, subtasks: int, checkpoint_id: int, committables: int) -> None:
        self.collector.add_summary(CommittableSummary(subtask, checkpoint_id, committables))

    def on_committable(self, subtask: int, checkpoint_id: int, committable: str) -> None:
        self.collector.add(CommittableWithLineage(subtask, checkpoint_id, committable))

    def on_snapshot(self, checkpoint_id: int) -> None:
        self.snapshots[checkpoint_id] = self.collector.stored()

    def on_restore(self, snapshot_ids: list[int]) -> None:
        self.collector = CommittableCollector()
        for snapshot_id in snapshot_ids:
            self.collector.restore(self.snapshots[snapshot_id])

    def on_notify_complete(self, checkpoint_id: int) -> list[dict[str, Any]]:
        result = []
        for due_id in self.collector.due(checkpoint_id):
            committed = self.collector.commit(due_id, self.committer, self.max_retries)
            result.append({"checkpoint": due_id, "successful": list(committed.successful)})
        return result


def committer(given: dict[str, Any]) -> dict[str, Any]:
    script = CommitterScript(given)
    return {"trace": [script.play(event) for event in given["events"]]}


class Target(CheckpointCommitter):
    """The external system of a write-ahead sink, which outlives the sink."""

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.fails = False

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        self.committed.append(f"{subtask_idx}:{checkpoint_id}")

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return f"{subtask_idx}:{checkpoint_id}" in self.committed


class RecordingWriteAheadSink(GenericWriteAheadSink):
    """Records what it sends."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.target = target

    def send_values(self, values: Sequence[Any], checkpoint_id: int, timestamp: int) -> bool:
        is_taken = not self.target.fails
        self.target.sent.append({"checkpoint": checkpoint_id, "values": list(values), "ok": is_taken})
        return is_taken


class WriteAheadScript:
    """Plays a vector's events on one instance of the sink after another."""

    def __init__(self) -> None:
        self.target = Target()
        self.sink = RecordingWriteAheadSink(self.target)
        self.store = OperatorStateStore()
        self.snapshots: dict[int, dict[str, EncodedList]] = {}

    def play(self, event: list[Any]) -> dict[str, Any]:
        """Play one event and return its effects."""
        self.target.sent = []
        name, *arguments = event
        led_to = getattr(self, f"on_{name}")(*arguments) or {}
        return {"sent": self.target.sent, **led_to}

    def start(self, restored_id: int | None, restored: Any) -> None:
        """Start a new instance, like a task."""
        self.sink = RecordingWriteAheadSink(self.target)
        self.store = OperatorStateStore()
        if restored is not None:
            self.store.restore(restored)
        context = RuntimeContext(
            task_name="sink",
            subtask=0,
            parallelism=1,
            max_parallelism=128,
            attempt="1.1",
            clock=lambda: 0,
            pass_point=lambda point, checkpoint_id: None,
        )
        self.sink.set_runtime_context(context)
        self.sink.initialize_state(FunctionInitializationContext(restored_id, self.store))
        self.sink.open(context)

    def on_open(self) -> None:
        self.start(None, None)

    def on_restore(self, snapshot_ids: list[int]) -> None:
        merged: dict[str, EncodedList] = {}
        for snapshot_id in snapshot_ids:
            for name, part in self.snapshots[snapshot_id].items():
                before = merged.get(name, EncodedList(part.mode, part.type, []))
                merged[name] = EncodedList(part.mode, part.type, before.elements + part.elements)
        self.start(max(snapshot_ids, default=0), merged)

    def on_crash(self) -> None:
        del self.sink

    def on_element(self, value: str) -> None:
        self.sink.invoke(value, None)

    def on_snapshot(self, checkpoint_id: int) -> dict[str, Any]:
        self.sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, 0))
        encoded = encode_task_snapshot(
            TaskSnapshot({OPERATOR: OperatorSnapshot(None, self.store.snapshot())})
        )
        self.snapshots[checkpoint_id] = decode_task_snapshot(encoded.data, "snapshot")[OPERATOR].operator
        waiting = [batch.checkpoint_id for batch in self.sink.pending_batches()]
        return {"pending_checkpoints_in_state": waiting}

    def on_notify_complete(self, checkpoint_id: int) -> None:
        self.sink.notify_checkpoint_complete(checkpoint_id)

    def on_send_fails(self, fails: bool) -> None:
        self.target.fails = fails


def write_ahead(given: dict[str, Any]) -> dict[str, Any]:
    script = WriteAheadScript()
    trace = [script.play(event) for event in given["events"]]
    return {"trace": trace, "committed_checkpoints": script.target.committed}


ADAPTERS = {"2pc.committer": committer, "2pc.write_ahead_sink": write_ahead}
