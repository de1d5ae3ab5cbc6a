"""What a file sink notes of its commits in its folder, so that a commit is known when its file is gone.

A consumer may move or delete a file as soon as it is visible. A restore then finds neither of its names, and
must tell a file that was committed from one that is lost.

The rules this module lives by:

- An entry is an empty hidden file, ``.<place>.<owner>-<subtask>-<attempt>.<epoch>-<number>.committed``. It
  says that this subtask has begun to commit its part file of that epoch and number in that attempt, and so
  has committed all before it: they are committed in order, and none after one that has failed.
- The entry is there before the file gets its visible name, and that is one rename: while the hidden name is
  there, the file waits. If neither name is there, the entry decides. So a kill at any instruction is decided.
- A commit renames the entry of the one before it. It costs one call and no sync of its own: the sync of the
  folder makes both names durable. After a loss of power the entry may be missing of a file that was visible
  and is gone; that is an error, never a silent loss.
- The place is the job's checkpoint folder by its path. An entry of the same place and operator with another
  owner is of a run of this job whose checkpoint folder was deleted, moved or replaced: to begin anew beside
  its visible output would write every row again. ``.ended`` in place of ``.committed``: that run has
  committed all its output. Where the job has no checkpoint folder, the entry is deleted then, and kept in
  memory, where its checkpoints are, too: another subtask may fail, and the job restore one again.
- The newest KEPT attempts of a subtask keep their entries: a savepoint restores transactions of earlier ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from onceproof.engine.connectors.part_files import OWNER_DIGITS_SHOWN, FileSinkBroken, Mark
from onceproof.engine.file_calls import FileCalls
from onceproof.engine.owner_ids import OWNER_DIGITS

KEPT: Final = 16
COMMITTED: Final = ".committed"
ENDED: Final = ".ended"
NO_PLACE: Final = "0" * OWNER_DIGITS
_ID: Final = rf"[0-9a-f]{{{OWNER_DIGITS}}}"
_ENTRY: Final = re.compile(
    rf"\.({_ID})\.({_ID})-([0-9]{{1,9}})-([0-9A-Za-z.]{{1,40}})\.([0-9]{{1,18}})-([0-9]{{1,9}})"
    rf"({re.escape(COMMITTED)}|{re.escape(ENDED)})"
)


class Entry(NamedTuple):
    """An entry, as its name gives it."""

    place: str
    owner: str
    subtask: int
    attempt: str
    epoch: int
    number: int
    has_ended: bool

    @property
    def name(self) -> str:
        """The name of its file."""
        end = ENDED if self.has_ended else COMMITTED
        return f"{self._beginning}.{self.epoch}-{self.number}{end}"

    @property
    def _beginning(self) -> str:
        return f".{self.place}.{self.owner}-{self.subtask}-{self.attempt}"

    @property
    def age(self) -> tuple[list[int], int, int]:
        """What orders the entries of a subtask."""
        return [int(part) for part in self.attempt.split(".") if part.isdecimal()], self.epoch, self.number


def entry_of(name: str) -> Entry | None:
    """Return the entry of that name; None for any other file."""
    match = _ENTRY.fullmatch(name)
    if match is None:
        return None
    place, owner, subtask, attempt, epoch, number, end = match.groups()
    return Entry(place, owner, int(subtask), attempt, int(epoch), int(number), end == ENDED)


def entries_in(names: Iterable[str]) -> list[Entry]:
    """Return the entries among names."""
    return [entry for name in names if (entry := entry_of(name)) is not None]


def refuse_earlier_run(folder: str, names: Sequence[str], place: str, owner: str) -> None:
    """Raise FileSinkBroken if the names show output of a run at this place, of another owner, not ended."""
    earlier = {
        entry.owner
        for entry in entries_in(names)
        if entry.place == place and entry.owner != owner and not entry.has_ended
    }
    for each in sorted(earlier):
        shown = f"-{each[:OWNER_DIGITS_SHOWN]}-"
        visible = re.compile(rf"[^.].*{shown}[0-9]+-[0-9]+-.*", re.DOTALL)
        if any(map(visible.fullmatch, names)):
            raise FileSinkBroken(
                f"folder {folder} has output of an earlier run of this job (files with {shown} in their"
                " names), whose checkpoint folder was deleted, moved or replaced, and every row would be"
                " written again: bring that folder back or restore a savepoint (--from,"
                " execution.state-recovery.path), or move the files away to begin anew"
            )


_written: Final[WeakKeyDictionary[FileCalls, dict[tuple[str, str, int], list[Entry]]]] = WeakKeyDictionary()
"""By file calls, then by folder, owner and subtask: the entries that this process has seen, the newest last.

On Spark a new function commits each epoch. Another process may have changed the files meanwhile, unless the
checkpoints of the job are in memory."""


class CommitLedger:
    """The entries of one sink; ``place`` is that of its job, "" if the job has no checkpoint folder."""

    def __init__(self, calls: FileCalls, place: str) -> None:
        self._calls = calls
        self._place = place or NO_PLACE
        self._entries = _written.setdefault(calls, {})

    def note(self, folder: str, mark: Mark, number: int) -> None:
        """Note that the part file of this mark and number is about to be committed. Raises OSError."""
        entry = Entry(self._place, mark.owner, mark.subtask, mark.attempt, mark.epoch, number, False)
        known = self._entries.setdefault((folder, mark.owner, mark.subtask), [])
        own = [each for each in known if each.attempt == mark.attempt and each != entry]
        others = [each for each in known if each.attempt != mark.attempt]
        if entry in known or not own or not self._rename(folder, own.pop(), entry):
            self._create(folder, entry)
        # A process that commits before it has looked at the folder leaves the entry of an earlier one there.
        cut = max(0, len(others) + 1 - KEPT)
        for each in (*own, *others[:cut]):
            with suppress(FileNotFoundError):
                self._calls.unlink(os.path.join(folder, each.name))
        known[:] = [*others[cut:], entry]

    def has(self, folder: str, mark: Mark, number: int) -> bool:
        """Return whether the part file of this mark and number was committed here. Raises OSError."""
        return any(
            (entry.owner, entry.subtask, entry.attempt) == (mark.owner, mark.subtask, mark.attempt)
            and (entry.epoch, entry.number) >= (mark.epoch, number)
            for entry in (*self._listed(folder), *self._remembered(folder, mark.owner, mark.subtask))
        )

    def found(self, folder: str, names: Iterable[str], owner: str) -> None:
        """Learn the entries of an owner that an earlier process has left among the names in the folder."""
        by_subtask: dict[int, list[Entry]] = {}
        for entry in entries_in(names):
            if entry.owner == owner:
                by_subtask.setdefault(entry.subtask, []).append(entry)
        for subtask, found in by_subtask.items():
            known = {*found, *self._remembered(folder, owner, subtask)}
            self._entries[folder, owner, subtask] = sorted(known, key=lambda entry: entry.age)

    def end(self, folder: str, owner: str, is_own: Callable[[int], bool]) -> None:
        """Note that the subtasks of an owner have committed all their output. Raises OSError."""
        for entry in self._listed(folder):
            if entry.owner == owner and is_own(entry.subtask) and not entry.has_ended:
                if entry.place == NO_PLACE:
                    self._calls.unlink(os.path.join(folder, entry.name))
                else:
                    self._rename(folder, entry, entry._replace(has_ended=True))
                    self._entries.pop((folder, owner, entry.subtask), None)

    def _remembered(self, folder: str, owner: str, subtask: int) -> list[Entry]:
        """Return what this process knows of a subtask whose job lives no longer than the process."""
        return self._entries.get((folder, owner, subtask), []) if self._place == NO_PLACE else []

    def _listed(self, folder: str) -> list[Entry]:
        try:
            return entries_in([name for name, _ in self._calls.entries(folder)])
        except FileNotFoundError:
            return []

    def _create(self, folder: str, entry: Entry) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        self._calls.close(self._calls.open(os.path.join(folder, entry.name), flags))

    def _rename(self, folder: str, earlier: Entry, entry: Entry) -> bool:
        """Rename an entry; return False if it is gone."""
        try:
            self._calls.rename(os.path.join(folder, earlier.name), os.path.join(folder, entry.name))
        except FileNotFoundError:
            return False
        return True
