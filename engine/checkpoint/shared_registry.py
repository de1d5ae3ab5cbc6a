"""Which files checkpoints share, and which checkpoint was the last to use each (Flink: SharedStateRegistry).

The rules this module lives by:

- A file is known by its content (the SHA-256), and lies under a path that is its upload's own. So a database
  that begins anew and gives an old name to other content can do no harm, and of two uploads of one content
  either will do.
- A snapshot names a content that is already stored without a path; the registry adds the path.
- A content that a completed checkpoint has stays where it is: what is uploaded again is deleted. Before that
  the latest upload counts, as in Flink.
- A file is deleted when the last checkpoint that used it is older than all that are kept, and never when a
  checkpoint is aborted: a later one may use it, too. What aborted ones have left goes the same way.
- After a restart of the process the registry is what the retained checkpoints say. Other files of its folder
  are unknown; recovery deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.state.stored import StateFile


class UnknownSharedFile(Exception):
    """A snapshot names a content that is nowhere stored. The message is one line."""


class _Entry(msgspec.Struct):
    path: str
    last_used_by: int
    is_confirmed: bool = False
    """Whether a completed checkpoint has it."""


class SharedStateRegistry:
    """The shared files of a job, by content."""

    __slots__ = ("_entries", "in_use")

    def __init__(self, retained: Iterable[CheckpointMetadata] = ()) -> None:
        self._entries: dict[str, _Entry] = {}
        self.in_use = False
        """Whether there have been shared files: most jobs have none, and nothing to look for."""
        for metadata in retained:
            for subtask in _subtasks(metadata.operators):
                if subtask.handle is not None and subtask.handle.files:
                    self.register_all(metadata.checkpoint_id, subtask.handle)
            self.completed(metadata)

    def __len__(self) -> int:
        return len(self._entries)

    def register(self, checkpoint_id: int, content: str, path: str) -> tuple[str, str | None]:
        """A checkpoint uses a content; ``path`` is where it was uploaded, or "" where it need not be.

        Gives the path that is kept, and the one that may be deleted, if any. Raises UnknownSharedFile.
        """
        entry = self._entries.get(content)
        if entry is None:
            if not path:
                raise UnknownSharedFile(f"a file with the SHA-256 {content} is named but not stored anywhere")
            self._entries[content] = _Entry(path, checkpoint_id)
            return path, None
        entry.last_used_by = max(entry.last_used_by, checkpoint_id)
        if not path or path == entry.path:
            return entry.path, None
        if entry.is_confirmed:
            return entry.path, path
        entry.path, superseded = path, entry.path
        return path, superseded

    def completed(self, metadata: CheckpointMetadata) -> None:
        """A checkpoint is complete, or about to be: what it names stays where it is.

        A later one may have used it since, so who used it last does not tell.
        """
        for subtask in _subtasks(metadata.operators):
            if subtask.handle is not None:
                self.confirm(subtask.handle)

    def confirm(self, handle: StateHandle) -> None:
        """A snapshot is part of a complete checkpoint."""
        for file in handle.files:
            entry = self._entries.get(file.sha256) if file.is_shared else None
            if entry is not None:
                entry.is_confirmed = True

    def unregister_unused(self, lowest_checkpoint_id: int) -> list[str]:
        """Forget what no checkpoint from this one on has used; give the paths, which may be deleted."""
        unused = {
            content: entry.path
            for content, entry in self._entries.items()
            if entry.last_used_by < lowest_checkpoint_id
        }
        for content in unused:
            del self._entries[content]
        return list(unused.values())

    # For the coordinator.

    def register_all(self, checkpoint_id: int, handle: StateHandle) -> list[str]:
        """Register what a snapshot shares; give the paths that may be deleted.

        An unknown content without a path is found when the metadata are to be written.
        """
        superseded: list[str] = []
        for file in handle.files:
            self.in_use = self.in_use or file.is_shared
            if file.is_shared and (file.path or file.sha256 in self._entries):
                _, deletable = self.register(checkpoint_id, file.sha256, file.path)
                if deletable is not None:
                    superseded.append(deletable)
        return superseded

    def deletable(self, handle: StateHandle) -> StateHandle:
        """Return what of a discarded snapshot may be deleted: all but uploads that others may name."""
        if not self._entries or not handle.files:
            return handle
        return replace(handle, files=tuple([file for file in handle.files if not self._is_kept(file)]))

    def _is_kept(self, file: StateFile) -> bool:
        entry = self._entries.get(file.sha256)
        return entry is not None and entry.path == file.path

    def resolved(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """The same with the path of every shared file. Raises UnknownSharedFile."""
        # Operators of a chain have one tuple between them, which is stored once for as long as it is one.
        known: dict[int, tuple[SubtaskState, ...]] = {}
        operators: list[OperatorMetadata] = []
        for operator in metadata.operators:
            subtasks = known.get(id(operator.subtasks))
            if subtasks is None:
                subtasks = known[id(operator.subtasks)] = tuple(map(self._resolved, operator.subtasks))
            operators.append(replace(operator, subtasks=subtasks))
        return replace(metadata, operators=tuple(operators))

    def _resolved(self, subtask: SubtaskState) -> SubtaskState:
        handle = subtask.handle
        if handle is None or not any(file.is_shared for file in handle.files):
            return subtask
        files = tuple([self.placed(file) if file.is_shared else file for file in handle.files])
        return replace(subtask, handle=replace(handle, files=files))

    def placed(self, file: StateFile) -> StateFile:
        entry = self._entries.get(file.sha256)
        if entry is None:
            raise UnknownSharedFile(f"{file.name}, a file with the SHA-256 {file.sha256}, is stored nowhere")
        return file if entry.path == file.path else replace(file, path=entry.path)


def _subtasks(operators: Sequence[OperatorMetadata]) -> list[SubtaskState]:
    """The states of all subtasks, those of a chain once."""
    chains = {id(operator.subtasks): operator.subtasks for operator in operators}
    return [subtask for chain in chains.values() for subtask in chain]
