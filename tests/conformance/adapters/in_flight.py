"""The subtasks that take over records in flight after a rescale: drives in_flight_redistribution."""

from typing import Any

from onceproof.engine.checkpoint.in_flight_redistribution import SubtaskMapper
from onceproof.engine.checkpoint.redistribution import RestoreRefused


def mapping(given: dict[str, Any]) -> dict[str, Any]:
    mapper = SubtaskMapper(given["mapper"])
    old, new = given["old_parallelism"], given["new_parallelism"]
    try:
        new_to_old = [list(mapper.old_subtasks(subtask, old, new)) for subtask in range(new)]
    except RestoreRefused:
        return {"error": "UnsupportedOperationException"}
    return {
        "new_to_old": new_to_old,
        "ambiguous": mapper.is_ambiguous,
        "ambiguous_old_subtasks": mapper.shared_subtasks(old, new),
    }


ADAPTERS = {"rescale.channel_mapping": mapping}
