"""State with a time to live: drives a hashmap backend, step by step, under a clock of its own.

``stored_keys`` covers all kinds but maps: a map that an iteration empties keeps its key in Flink, and
gives it back here.
"""

from typing import Any

from onceproof.engine.durations import Time
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types

MAX_PARALLELISM = 128
DEFAULT_KEY = "k"


class Sum:
    """The aggregation of the vectors: a sum, returned as text."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> str:
        return f"sum={accumulator}"


DESCRIPTORS = {
    "value": lambda: ValueStateDescriptor("state"),
    "list": lambda: ListStateDescriptor("state"),
    "map": lambda: MapStateDescriptor("state"),
    "reducing": lambda: ReducingStateDescriptor("state", lambda one, other: one + other),
    "aggregating": lambda: AggregatingStateDescriptor("state", Sum(), Types.LONG()),
}


class Steps:
    """One state of one backend, and its clock."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.now = 0
        self.kind = given["state_type"]
        self.descriptor: StateDescriptor = DESCRIPTORS[self.kind]()
        self.descriptor.enable_time_to_live(config_of(given))
        self.open(None)

    def open(self, stored: Any) -> None:
        """Start empty, or from stored state."""
        self.backend = HashMapStateBackend(
            MAX_PARALLELISM, (0, MAX_PARALLELISM - 1), Types.STRING(), lambda: self.now
        )
        if stored is not None:
            self.backend.restore(stored)
        self.state = self.backend.state(self.descriptor)

    def take(self, step: dict[str, Any]) -> dict[str, Any]:
        """Do one step and return its line of the trace."""
        self.now = step["t"]
        self.backend.current_key = step.get("key", DEFAULT_KEY)
        operation = step["op"]
        answer: dict[str, Any] = {"t": self.now, "op": operation}
        if operation == "snapshot_restore":
            snapshot = OperatorSnapshot(self.backend.snapshot())
            encoded = encode_task_snapshot(TaskSnapshot({"op": snapshot}))
            self.open(decode_task_snapshot(encoded.data, "snapshot")["op"].keyed)
        elif operation in ("update", "add", "add_all", "put", "put_all", "remove", "clear"):
            arguments = step["arg"] if operation == "put" else [step["arg"]] if "arg" in step else []
            getattr(self.state, operation)(*arguments)
        else:
            answer["result"] = self.read(operation, step)
        if self.kind != "map":
            answer["stored_keys"] = len(self.backend.keys(self.descriptor))
        return answer

    def read(self, operation: str, step: dict[str, Any]) -> Any:
        """Read the state."""
        if operation == "entries":
            return dict(self.state.items())
        if operation in ("keys", "values"):
            return sorted(getattr(self.state, operation)())
        if self.kind == "map" and operation != "is_empty":
            return getattr(self.state, operation)(step["arg"])
        return getattr(self.state, operation)()


def config_of(given: dict[str, Any]) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(given["ttl_ms"]))
    builder.set_update_type(StateTtlConfig.UpdateType[given["update_type"]])
    builder.set_state_visibility(StateTtlConfig.StateVisibility[given["visibility"]])
    builder.disable_cleanup_in_background()
    if given["cleanup"] == "full_snapshot":
        builder.cleanup_full_snapshot()
    elif given["cleanup"] == "incremental":
        builder.cleanup_incrementally(given.get("cleanup_size", 5), False)
    elif given["cleanup"] != "none":
        raise ValueError(f"unknown cleanup {given['cleanup']!r}")
    return builder.build()


def steps(given: dict[str, Any]) -> dict[str, Any]:
    taken = Steps(given)
    return {"trace": [taken.take(step) for step in given["steps"]]}


ADAPTERS = {"state.ttl": steps}
