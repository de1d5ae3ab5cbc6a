"""`onceproof checkpoints list|show|verify|delete`: inspect, verify and delete checkpoints and savepoints.

The rules this module lives by:

- Only metadata and checksums are read. No state is decoded, so no untrusted pickle is loaded, and a
  checkpoint that no job could restore can still be inspected.
- Only `delete` changes anything: it deletes one checkpoint or savepoint, the metadata first, and only files
  in its own folder. Files that other checkpoints share are kept.
- `verify` continues after the first damaged file, so that the user learns which checkpoints are intact.
- A path is a folder or an address (`s3://...`). At an address nothing is deleted, because there is no lock
  that shows whether the job runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    decode_metadata,
)
from onceproof.engine.checkpoint.verification import damages_of, handles_of
from onceproof.engine.connectors import committing, two_phase, write_ahead
from onceproof.engine.locations import location, name_of, parent_of, scheme_of
from onceproof.engine.messages import CHECKPOINT
from onceproof.engine.runtime.job_fingerprint import printable
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.request_folder import kept_from_running
from onceproof.engine.runtime.restore_point import as_found, place_of
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import DamagedFile, leads_out
from onceproof.harness.model.exit_codes import FAILED, NOTHING_RAN, PASSED, UsageError
from onceproof.reports.text import counted

TRANSACTIONS: Final = frozenset((two_phase.STATE_NAME, committing.COMMITTER_STATE, write_ahead.STATE_NAME))
"""Names of the list states in which sinks keep pending transactions. A user's state may share one."""


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """The folder of a checkpoint, and its metadata, or why they cannot be read (``damage``)."""

    folder: str
    metadata: CheckpointMetadata | None
    damage: str = ""


def list_command(path: str, as_json: bool) -> int:
    """List the checkpoints under a path."""
    found = list(_found(path))
    if as_json:
        _print_json([_summary(each) for each in found])
        return PASSED if found else NOTHING_RAN
    for each in found:
        print(f"{each.folder}: {_checkpoint_text(each)}")
    return PASSED if found else _print_none(path)


def show_command(path: str, as_json: bool) -> int:
    """Show the operators of the checkpoints under a path."""
    found = list(_found(path))
    if as_json:
        _print_json([{**_summary(each), "operators": _operators(each)} for each in found])
        return PASSED if found else NOTHING_RAN
    for each in found:
        print(f"{each.folder}: {_checkpoint_text(each)}")
        for operator in _operators(each):
            parallelism = f"parallelism {operator['parallelism']} of {operator['max_parallelism']}"
            files = _sizes_text(operator)
            ended = ", finished" if operator["finished"] else ""
            print(f"  {operator['name']}: {parallelism}, {files}{ended}")
            for line in _state_lines(operator["states"]):
                print(f"    {line}")
        if each.metadata is not None and each.metadata.records_in_flight:
            print(f"  in flight: {counted(each.metadata.records_in_flight, 'record')}")
    return PASSED if found else _print_none(path)


def verify_command(path: str, as_json: bool) -> int:
    """Check every file of the checkpoints under a path; FAILED if one is damaged or missing."""
    found = list(_found(path))
    damages = {each.folder: list(_damages(each)) for each in found}
    if as_json:
        _print_json([{**_summary(each), "damages": damages[each.folder]} for each in found])
    else:
        for each in found:
            lines = damages[each.folder]
            print(f"{each.folder}: {_checkpoint_text(each)}: {'DAMAGED' if lines else 'intact'}")
            for line in lines:
                print(f"  {line}")
    if not found:
        return NOTHING_RAN if as_json else _print_none(path)
    return FAILED if any(damages.values()) else PASSED


def delete_command(path: str, as_json: bool = False) -> int:
    """Delete one savepoint or retained checkpoint, as Flink's `savepoint --dispose`.

    Raises UsageError if the path is an address, no checkpoint, or belongs to a running job.
    """
    at = place_of(path)
    if scheme_of(at):
        raise UsageError(
            f"{at}: onceproof cannot see whether the job of a remote checkpoint runs:"
            " delete it with the tools of the store"
        )
    folder = Path(at)
    if not (folder / METADATA).is_file():
        raise UsageError(f"{folder}: no savepoint or checkpoint (no file {METADATA}): nothing is deleted")
    with kept_from_running(folder.parent) as is_free:
        if not is_free:
            raise UsageError(f"{folder}: its job is running and may need it: stop the job first")
        left = _delete(folder)
    if as_json:
        _print_json({"folder": str(folder), "left": left})
    elif left:
        print(f"{folder}: deleted, except for unknown files: {', '.join(left)}")
    else:
        print(f"Savepoint '{folder}' disposed.")
    return PASSED


def _delete(folder: Path) -> list[str]:
    """Delete a checkpoint whose job cannot begin to run meanwhile; return the unknown files that stay."""
    [found] = _found(str(folder))
    (folder / METADATA).unlink()
    if found.metadata is not None:
        root = folder.parent if found.metadata.kind == CHECKPOINT else folder
        for name in sorted({path for handle in handles_of(found.metadata) for path in handle.paths}):
            file = (root / name).resolve()
            if file.is_relative_to(folder.resolve()):
                file.unlink(missing_ok=True)
    left = sorted(file.name for file in folder.iterdir())
    if not left:
        folder.rmdir()
    return left


def _found(path: str) -> Iterator[FoundCheckpoint]:
    """Yield the checkpoints under a path: a checkpoint, a job's folder, or a folder of jobs."""
    at = location(path)
    if not scheme_of(at) and not Path(at).is_dir():
        raise UsageError(f"{path}: no such folder")
    try:
        storage = open_storage(at, stands_in=True)
        unreadable: dict[str, str] = {}
        if isinstance(storage, LocalCheckpointStorage):
            names, unreadable = storage.list_readable()
        else:
            names = storage.list("")
        names = [name for name in names if name_of(f"/{name}") == METADATA]
    except StorageError as error:
        raise UsageError(str(error)) from error
    for folder, why in sorted(unreadable.items()):
        yield FoundCheckpoint(storage.place_of(folder), None, why)
    for name in sorted(names, key=lambda name: [_order(part) for part in name.split("/")]):
        file = storage.place_of(name)
        try:
            folder = parent_of(file)
            yield FoundCheckpoint(folder, as_found(decode_metadata(storage.read(name), file), folder))
        except DamagedFile as damage:
            yield FoundCheckpoint(parent_of(file), None, f"{damage.what}: {damage.mend}")
        except StorageError as error:
            yield FoundCheckpoint(parent_of(file), None, str(error))


def _order(part: str) -> tuple[str, int]:
    """Return a sort key that puts chk-10 after chk-9."""
    name, _, number = part.rpartition("-")
    return (name, int(number)) if number.isdecimal() else (part, 0)


def _damages(found: FoundCheckpoint) -> Iterator[str]:
    """Yield a line for each damaged or missing file of a checkpoint."""
    if found.metadata is None:
        yield f"{METADATA}: {found.damage}"
        return
    is_own = found.metadata.kind == CHECKPOINT
    # A savepoint names files relative to its own folder, so that the folder can be moved.
    root = parent_of(found.folder) if is_own else found.folder
    storage = open_storage(root, stands_in=True)

    def read(path: str) -> bytes:
        if leads_out(path) or not (scheme_of(root) or _is_below(root, path)):
            raise DamagedFile(path, f"leads out of the {'job' if is_own else 'savepoint'}'s folder")
        return storage.read(path)

    yield from map(str, damages_of(found.metadata, read))


def _is_below(root: str, path: str) -> bool:
    """Return whether a file lies below a folder after symbolic links are resolved."""
    return Path(root, path).resolve().is_relative_to(Path(root).resolve())


def _sizes(handles: Iterable[StateHandle]) -> dict[str, int]:
    """Return the number and the bytes of distinct files, and of those shared with other checkpoints."""
    lengths: dict[str, int] = {}
    shared: dict[str, int] = {}
    for handle in handles:
        lengths[handle.path] = handle.length
        for file in handle.files:
            lengths[file.path] = file.length
            if file.is_shared:
                shared[file.path] = file.length
    sizes = {"files": len(lengths), "bytes": sum(lengths.values())}
    return sizes | ({"shared_files": len(shared), "shared_bytes": sum(shared.values())} if shared else {})


def _summary(found: FoundCheckpoint) -> dict[str, Any]:
    metadata = found.metadata
    if metadata is None:
        return {"folder": found.folder, "damage": found.damage}
    return {
        "folder": found.folder,
        "checkpoint": metadata.checkpoint_id,
        "kind": metadata.kind,
        "job": metadata.job_name,
        "job_id": metadata.job_id,
        "attempt": metadata.attempt,
        "timestamp": metadata.timestamp,
        **_sizes(handles_of(metadata)),
    }


def _operators(found: FoundCheckpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": operator.name,
            "uid": operator.uid,
            "operator_id": operator.operator_id,
            "parallelism": operator.parallelism,
            "max_parallelism": operator.max_parallelism,
            "finished": operator.is_finished,
            "states": _states(operator),
            **_sizes([subtask.handle for subtask in operator.subtasks if subtask.handle is not None]),
        }
        for operator in (found.metadata.operators if found.metadata is not None else ())
    ]


def _states(operator: OperatorMetadata) -> dict[str, dict[str, Any]]:
    """Return by state name its kind and size over all subtasks, from the metadata alone."""
    states: dict[str, dict[str, Any]] = {}
    for subtask in operator.subtasks:
        index = None if subtask.handle is None else subtask.handle.index.get(operator.operator_id)
        if index is None:
            continue
        for name, groups in index.keyed.items():
            state = states.setdefault(name, {"kind": "keyed", "entries": 0, "key_groups": 0})
            state["entries"] += sum(groups.values())
            state["key_groups"] += len(groups)
            if index.is_native:
                state["kind"] = "keyed, in a database"
        for name, (mode, count) in index.operator.items():
            state = states.setdefault(name, {"kind": mode.lower(), "elements": 0})
            state["elements"] += count
            if name in TRANSACTIONS:
                state["pending_transactions"] = True
    return states


def _state_lines(states: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, state in states.items():
        if state["kind"] == "keyed":
            groups = counted(state["key_groups"], "key group")
            yield f"{name}: {counted(state['entries'], 'entry', 'entries')} in {groups}"
        elif "elements" not in state:
            yield f"{name}: in a database"
        else:
            pending = ", pending transactions" if "pending_transactions" in state else ""
            yield f"{name}: {counted(state['elements'], 'element')}, {state['kind']}{pending}"


def _checkpoint_text(found: FoundCheckpoint) -> str:
    if found.metadata is None:
        return f"unreadable metadata: {found.damage}"
    summary = _summary(found)
    job, attempt, job_id = (printable(summary[key]) for key in ("job", "attempt", "job_id"))
    return (
        f"{summary['kind']} {summary['checkpoint']} of {job}, attempt {attempt}, {_sizes_text(summary)},"
        f" job id {job_id}"
    )


def _sizes_text(sizes: dict[str, Any]) -> str:
    text = f"{counted(sizes['files'], 'file')}, {counted(sizes['bytes'], 'byte')}"
    if "shared_files" in sizes:
        text += (
            f" ({counted(sizes['shared_files'], 'shared file')}, {counted(sizes['shared_bytes'], 'byte')})"
        )
    return text


def _print_none(path: str) -> int:
    print(f"{path}: no checkpoint found")
    return NOTHING_RAN


def _print_json(document: Any) -> None:
    print(msgspec.json.encode(document).decode())
