"""Two-phase commit: drives engine.connectors.two_phase with transactions t1, t2, ... kept in a dict."""

from typing import Any

from onceproof.engine.connectors.two_phase import CommitFailed, TwoPhaseCommitSinkFunction
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


class Outside:
    """The external system, which outlives the sink."""

    def __init__(self) -> None:
        self.begun = 0
        self.uncommitted: dict[str, list[str]] = {}
        self.committed: list[str] = []
        self.calls: list[str] = []
        self.fails_all = False
        self.fails_one: str | None = None
        self.now_ms = 0


class RecordingSink(TwoPhaseCommitSinkFunction):
    """Records each call that the engine makes."""

    def __init__(self, outside: Outside) -> None:
        super().__init__(clock=lambda: outside.now_ms)
        self.outside = outside

    def begin_transaction(self) -> str:
        self.outside.begun += 1
        name = f"t{self.outside.begun}"
        self.outside.calls.append(f"begin {name}")
        self.outside.uncommitted[name] = []
        return name

    def invoke_transaction(self, transaction: str, value: str, context: Any) -> None:
        self.outside.calls.append(f"invoke {transaction} {value}")
        self.outside.uncommitted[transaction].append(value)

    def pre_commit(self, transaction: str) -> None:
        self.outside.calls.append(f"preCommit {transaction}")

    def commit(self, transaction: str) -> None:
        self.outside.calls.append(f"commit {transaction}")
        if self.outside.fails_all or self.outside.fails_one == transaction:
            raise RuntimeError("the commit fails as the vector wants it")
        self.outside.committed.extend(self.outside.uncommitted.pop(transaction, []))

    def abort(self, transaction: str) -> None:
        self.outside.calls.append(f"abort {transaction}")
        self.outside.uncommitted.pop(transaction, None)

    def recover_and_commit(self, transaction: str) -> None:
        self.outside.calls.append(f"recoverAndCommit {transaction}")
        super().recover_and_commit(transaction)

    def recover_and_abort(self, transaction: str) -> None:
        self.outside.calls.append(f"recoverAndAbort {transaction}")
        super().recover_and_abort(transaction)

    def finish_processing(self, transaction: str) -> None:
        self.outside.calls.append(f"finishProcessing {transaction}")


class Script:
    """Plays a vector's events on one instance of the sink after another."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.outside = Outside()
        self.attempts = 0
        self.sink: RecordingSink | None = None
        self.store = OperatorStateStore()
        self.snapshots: dict[int, dict[str, EncodedList]] = {}

    def play(self, event: list[Any]) -> dict[str, Any]:
        """Play one event and return its effects."""
        name, *arguments = event
        outside = self.outside
        outside.calls = []
        visible = len(outside.committed)
        led_to: dict[str, Any] = {"calls": outside.calls}
        try:
            state = getattr(self, f"on_{name}")(*arguments)
        except CommitFailed:
            led_to["error"] = "FlinkRuntimeException"
        except RuntimeError:
            led_to["error"] = "RuntimeException"
        else:
            if state is not None:
                led_to["state"] = state
        if outside.committed[visible:]:
            led_to["newly_visible"] = outside.committed[visible:]
        return led_to

    @property
    def running(self) -> RecordingSink:
        assert self.sink is not None, "the vector uses a sink that does not run"
        return self.sink

    def start(self, restored: dict[str, EncodedList] | None, checkpoint_id: int | None) -> None:
        """Start a new instance, like a task."""
        self.attempts += 1
        sink = self.sink = RecordingSink(self.outside)
        if "transaction_timeout_ms" in self.given:
            sink.set_transaction_timeout(self.given["transaction_timeout_ms"])
        if self.given.get("ignore_failures_after_timeout"):
            sink.ignore_failures_after_transaction_timeout()
        context = RuntimeContext(
            task_name="sink",
            subtask=0,
            parallelism=1,
            max_parallelism=128,
            attempt=f"1.{self.attempts}",
            clock=lambda: self.outside.now_ms,
            pass_point=lambda point, checkpoint_id: None,
        )
        self.store = OperatorStateStore()
        if restored is not None:
            self.store.restore(restored)
        sink.set_runtime_context(context)
        sink.initialize_state(FunctionInitializationContext(checkpoint_id, self.store))
        sink.open(context)

    def on_clock(self, now_ms: int) -> None:
        self.outside.now_ms = now_ms

    def on_fail_commits(self, fails: bool) -> None:
        self.outside.fails_all = fails

    def on_fail_commit_of(self, transaction: str) -> None:
        self.outside.fails_one = transaction

    def on_open(self) -> None:
        self.start(None, None)

    def on_restore(self, snapshot_ids: list[int]) -> None:
        merged: dict[str, EncodedList] = {}
        for snapshot_id in snapshot_ids:
            for name, part in self.snapshots[snapshot_id].items():
                before = merged.get(name, EncodedList(part.mode, part.type, []))
                merged[name] = EncodedList(part.mode, part.type, before.elements + part.elements)
        self.start(merged, max(snapshot_ids, default=0))

    def on_crash(self) -> None:
        self.sink = None

    def on_close(self) -> None:
        self.running.close()

    def on_finish(self) -> None:
        self.running.finish()

    def on_element(self, value: str) -> None:
        self.running.invoke(value, None)

    def on_snapshot(self, checkpoint_id: int) -> dict[str, Any]:
        sink = self.running
        sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, self.outside.now_ms))
        encoded = encode_task_snapshot(
            TaskSnapshot({OPERATOR: OperatorSnapshot(None, self.store.snapshot())})
        )
        self.snapshots[checkpoint_id] = decode_task_snapshot(encoded.data, "snapshot")[OPERATOR].operator
        return {"pending_commit": sink.pending_transactions(), "open": sink.current_transaction()}

    def on_notify_complete(self, checkpoint_id: int) -> None:
        self.running.notify_checkpoint_complete(checkpoint_id)

    def on_notify_aborted(self, checkpoint_id: int) -> None:
        self.running.notify_checkpoint_aborted(checkpoint_id)


def sink_function(given: dict[str, Any]) -> dict[str, Any]:
    script = Script(given)
    trace = [script.play(event) for event in given["events"]]
    return {
        "trace": trace,
        "committed": script.outside.committed,
        "uncommitted_transactions": script.outside.uncommitted,
    }


ADAPTERS = {"2pc.sink_function": sink_function}
