"""The checkpoint store and the redistribution of state: drives onceproof.engine.checkpoint."""

from typing import Any

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.checkpoint.redistribution import (
    RestoreRefused,
    deal_out,
    effective_max_parallelism,
    match_state,
    redistribute,
)
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.engine.key_groups import operator_id
from onceproof.engine.state.stored import SnapshotIndex, StateFile


def completed(checkpoint_id: int, kind: Any = "checkpoint", operators: tuple[Any, ...] = ()) -> Any:
    """Make a checkpoint of which only what is given matters."""
    return CheckpointMetadata(checkpoint_id, "", "job", 0, kind, "1.1", operators)


def retention(given: dict[str, Any]) -> dict[str, Any]:
    store = CompletedCheckpointStore(given["num_retained"])
    trace = []
    for checkpoint_id, kind in given["add"]:
        subsumed = store.add(completed(checkpoint_id, kind))
        trace.append(
            {
                "retained": [item.checkpoint_id for item in store.retained],
                "subsumed": [item.checkpoint_id for item in subsumed],
            }
        )
    return {"trace": trace}


def repartition(given: dict[str, Any], state_name_iteration_order: list[str] | None = None) -> dict[str, Any]:
    holders = [
        (subtask, holder) for subtask, held in enumerate(given["subtasks"]) for holder in held if holder
    ]
    modes = {name: state["mode"] for _, holder in holders for name, state in holder["states"].items()}
    order = sorted(modes) if state_name_iteration_order is None else state_name_iteration_order
    dealt = deal_out(
        [
            (
                name,
                modes[name],
                [
                    (place, len(holder["states"][name]["offsets"]))
                    for place, (_, holder) in enumerate(holders)
                    if name in holder["states"]
                ],
            )
            for name in order
        ],
        [subtask for subtask, _ in holders],
        given["old_parallelism"],
        given["new_parallelism"],
    )
    return {
        "new_subtasks": [
            {
                name: [
                    [holders[place][1]["handle"], holders[place][1]["states"][name]["offsets"][element]]
                    for place, elements in slices
                    for element in elements
                ]
                for name, (_, slices) in share.items()
            }
            for share in dealt
        ],
        "state_name_iteration_order": order,
    }


def stored_operator(uid: str, parallelism: int, max_parallelism: int, has_state: bool) -> OperatorMetadata:
    """Make an operator of a checkpoint, each subtask of which has an entry of keyed state, or none."""
    index = SnapshotIndex({"state": {0: 1}} if has_state else {}, {})
    handle = StateHandle(uid, 0, "", {operator_id(uid): index})
    subtasks = tuple(SubtaskState(handle, False) for _ in range(parallelism))
    return OperatorMetadata(operator_id(uid), uid, uid, parallelism, max_parallelism, subtasks)


def mapping(given: dict[str, Any]) -> dict[str, Any]:
    operators = tuple(
        stored_operator(uid, item["parallelism"], item["max_parallelism"], item.get("has_state", True))
        for uid, item in given["snapshot"].items()
    )
    vertices = [
        (
            operator_id(uid),
            item["parallelism"],
            item["max_parallelism"],
            item.get("max_parallelism_explicit", False),
        )
        for uid, item in given["job"].items()
    ]
    metadata = completed(1, operators=operators)
    try:
        redistribute(metadata, vertices, given.get("allow_non_restored_state", False))
    except RestoreRefused:
        return {"error": True}
    effective = effective_max_parallelism(metadata, vertices)
    match = match_state(metadata, list(effective))
    uids = {operator_id(uid): uid for uid in given["job"]}
    answer: dict[str, Any] = {"ok": True, "restored": sorted(uids[each] for each in match.restored)}
    if match.starts_empty:
        answer["starts_empty"] = sorted(uids[each] for each in match.starts_empty)
    if match.skipped:
        answer["skipped"] = sorted(each.name for each in match.skipped)
    for identifier, _, max_parallelism, _ in vertices:
        if effective[identifier] != max_parallelism:
            answer["effective_max_parallelism"] = effective[identifier]
    return answer


def with_files(checkpoint_id: int, contents: list[str]) -> CheckpointMetadata:
    """Make a checkpoint whose only subtask shares files."""
    files = tuple([StateFile("", content, "", 0, content) for content in contents])
    subtasks = (SubtaskState(StateHandle("", 0, "", {}, files), False),)
    return completed(checkpoint_id, operators=(OperatorMetadata("", "", "", 1, 1, subtasks),))


def shared_files(given: dict[str, Any]) -> dict[str, Any]:
    registry = SharedStateRegistry()
    registered: dict[int, list[str]] = {}
    trace = []
    for name, checkpoint_id, *arguments in given["events"]:
        step: dict[str, Any] = {"op": name, "discarded": []}
        if name == "register":
            answers = [registry.register(checkpoint_id, key, path) for key, path in arguments[0]]
            registered[checkpoint_id] = [key for key, _ in arguments[0]]
            step["kept"] = [kept for kept, _ in answers]
            step["discarded"] = [path for _, path in answers if path is not None]
        elif name == "completed":
            registry.completed(with_files(checkpoint_id, registered[checkpoint_id]))
        elif name == "unregister_unused":
            step["discarded"] = registry.unregister_unused(checkpoint_id)
            # Ours never keep the folder of a checkpoint for the sake of what it shares: that lies elsewhere.
            step["checkpoints_still_referenced"] = []
        else:
            raise ValueError(f"unknown event {name!r}")
        trace.append(step)
    return {"trace": trace}


ADAPTERS = {
    "checkpoint.retention": retention,
    "opstate.repartition": repartition,
    "restore.mapping": mapping,
    "state.shared_registry": shared_files,
}

GIVEN = {"opstate.repartition": ("state_name_iteration_order",)}
