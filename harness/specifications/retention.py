"""Which completed checkpoints a job keeps, and which files it may delete (semantics 9 and 11).

Rules:

- A completed checkpoint drops the oldest beyond those to retain, but neither itself nor the latest checkpoint
  that is no savepoint. What is dropped is deleted; a savepoint is its user's, and stays.
- A shared file is deleted only when no retained checkpoint uses it, and nothing refers to it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onceproof.engine.messages import CHECKPOINT


class Kept(NamedTuple):
    """A completed checkpoint: its id, its kind, and the attempt that took it."""

    checkpoint_id: int
    kind: str
    attempt: str
    files: frozenset[str] = frozenset()
    """The paths of its shared files."""


def kept_of(metadata: Any) -> Kept:
    """Return what the rules ask of the metadata of a checkpoint."""
    handles = [each.handle for operator in metadata.operators for each in operator.subtasks if each.handle]
    files = frozenset(file.path for handle in handles for file in handle.files if file.path)
    return Kept(metadata.checkpoint_id, metadata.kind, metadata.attempt, files)


@dataclass(slots=True)
class RetentionSpecification:
    """The completed checkpoints of a job that retains ``count`` of them, oldest first."""

    count: int
    kept: list[Kept] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    """The shared files that were deleted."""

    def completed(self, checkpoint: Kept) -> Sequence[Kept]:
        """Add a checkpoint; return those whose files are to be deleted now."""
        self.kept.append(checkpoint)
        latest = [each for each in self.kept if each.kind == CHECKPOINT][-1:]
        dropped: list[Kept] = []
        for each in list(self.kept):
            if len(self.kept) > self.count and each is not checkpoint and each not in latest:
                self.kept.remove(each)
                dropped.append(each)
        return [each for each in dropped if each.kind == CHECKPOINT]

    def still_used(self, paths: Iterable[str]) -> list[str]:
        """Note that shared files are deleted; return those that a retained checkpoint uses."""
        paths = set(paths)
        self.deleted |= paths
        return sorted(path for path in paths if any(path in each.files for each in self.kept))
