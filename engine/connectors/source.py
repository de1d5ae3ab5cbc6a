"""The interface of sources (Flink: Source, SplitReader).

A job can be exactly-once only if its sources keep these rules:

- A split has a stable id, and the same records in the same order in every attempt.
- A reader opened at a position of an earlier reader returns exactly the records that the earlier one had not
  returned. A position is plain data (None, numbers, strings, bytes, tuples, lists), because it is stored.
- A source is an immutable description, shared by all subtasks and attempts; readers hold all progress.
- A source that cannot keep them, such as a socket, says so: ``can_be_replayed`` is False.

A split may have nothing now and something later. Its reader returns no record and is not exhausted. The task
then waits without spinning: until the reader calls the function that it got from ``when_available``, or until
``retry_ms`` has passed. A source with a split that never ends says so: ``is_bounded`` is False.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from onceproof.engine.elements import Record
from onceproof.engine.forked_children import runs_user_code

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


_logger = logging.getLogger(__name__)


class SplitDiscovery:
    """Finds the splits that have come since the job started, for one subtask, on a thread.

    Flink's enumerator runs beside the job master and hands splits out. Here each subtask looks for itself,
    because a split belongs to the subtask that ``Source.owner_of`` names, and which splits are known is in
    the checkpoint that all of them restored. A thread lists them, because that may wait for a server. A
    listing that fails is logged and tried again: what is read already is not disturbed.

    Args:
        list_splits: returns all splits.
        is_new: whether a split is one that this subtask is to read and does not read yet.
        wake_up: has the task polled.
    """

    def __init__(
        self,
        list_splits: Callable[[], Sequence[str]],
        is_new: Callable[[str], bool],
        wake_up: Callable[[], None],
    ) -> None:
        self._list_splits = list_splits
        self._is_new = is_new
        self._wake_up = wake_up
        self._found: deque[str] = deque()
        self._seen: set[str] = set()
        self._stopped = Event()

    def start(self, interval_ms: int) -> None:
        """Start the thread, which lists the splits every ``interval_ms`` milliseconds.

        The first listing comes at once: splits may have come while the job was down.
        """
        Thread(target=self._run, args=(interval_ms / 1000,), name="split discovery", daemon=True).start()

    def take(self) -> str | None:
        """Return the next split that was found, or None. It never waits."""
        return self._found.popleft() if self._found else None

    def stop(self) -> None:
        """End the thread; a listing that is under way ends by itself."""
        self._stopped.set()

    def look(self, splits: Iterable[str]) -> bool:
        """Look for new ones among the listed splits, and wake the task for them. Return whether some are."""
        found = [each for each in splits if each not in self._seen and self._is_new(each)]
        if found:
            self._seen.update(found)
            self._found.extend(found)
            self._wake_up()
        return bool(found)

    @runs_user_code
    def _run(self, interval_s: float) -> None:
        while not self._stopped.is_set():
            try:
                self.look(self._list_splits())
            except BaseException as error:
                _logger.warning("new splits cannot be looked for, it is tried again: %s", error)
            self._stopped.wait(interval_s)


DEFAULT_RETRY_MS: Final = 50


class SourceIdentity(NamedTuple):
    """What a source reads, in words: a job that goes on from the positions of another one must read the same.

    ``what`` is compared whenever a job goes on under its name. ``extent`` says how much there is: it may grow
    between two runs of a program, so it is compared only where all of it was read, or by another program.
    """

    what: str
    extent: str = ""


class SplitReader(ABC):
    """Reads one split (Flink: SplitReader)."""

    @abstractmethod
    def read(self, limit: int) -> list[Record]:
        """Return the next records, ``limit`` at most; [] at the end of the split, or if there is nothing now.

        A record is ``(value, timestamp in milliseconds or None)``. The call must not block: the tasks of a
        process share one thread.
        """

    @property
    @abstractmethod
    def position(self) -> Any:
        """The argument of ``open_split`` for the records after the last one returned."""

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether all records have been returned, and none will come."""

    @property
    def retry_ms(self) -> int:
        """After how many milliseconds to read again, asked when there was nothing to read."""
        return DEFAULT_RETRY_MS

    @property
    def pending_records(self) -> int | None:
        """Return how many records are there and not read yet; None: unknown (Flink: pendingRecords).

        Asked while the job runs, about once a second, so it must cost next to nothing.
        """
        return None

    def when_available(self, wake_up: Callable[[], None]) -> None:
        """Keep ``wake_up``, to be called when there is something to read again; once, before the first read.

        It may be called from any thread, and too often. A reader that has no way to know leaves it alone.
        """

    def react_to_change(self, reaction: str) -> None:
        """Keep what to do when the input is not what it was; once, before the first read.

        Args:
            reaction: the option ``source.on-change``: fail, from-start or skip. A reader that cannot notice
                leaves it alone.
        """

    def checkpoint_complete(self, position: Any) -> None:
        """Take note that the checkpoint with this position is complete; best effort, and never needed.

        Called only if the source says ``hears_of_checkpoints``, never twice for one checkpoint, perhaps not
        for each.
        """

    def close(self) -> None:
        """Release files and connections; called once, when the task finishes or is cancelled."""


class ForwardingReader(SplitReader):
    """Base of readers over another reader, which keeps the position; subclasses define ``read``."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    @property
    def position(self) -> Any:
        """The position of the inner reader."""
        return self._reader.position

    @property
    def exhausted(self) -> bool:
        """Whether the inner reader has returned all records."""
        return self._reader.exhausted

    @property
    def retry_ms(self) -> int:
        """The time of the inner reader."""
        return self._reader.retry_ms

    @property
    def pending_records(self) -> int | None:
        """The number of the inner reader."""
        return self._reader.pending_records

    def when_available(self, wake_up: Callable[[], None]) -> None:
        """Let the inner reader keep ``wake_up``."""
        self._reader.when_available(wake_up)

    def react_to_change(self, reaction: str) -> None:
        """Let the inner reader keep it."""
        self._reader.react_to_change(reaction)

    def checkpoint_complete(self, position: Any) -> None:
        """Pass it on."""
        self._reader.checkpoint_complete(position)

    def close(self) -> None:
        """Close the inner reader."""
        self._reader.close()


class Source(ABC):
    """Lists splits and opens them (Flink: Source)."""

    is_bounded: bool = True
    """Whether every split ends (Flink: Boundedness)."""
    can_be_replayed: bool = True
    """Whether a reader can begin at a position again. If not, a failure loses or repeats records."""
    hears_of_checkpoints: bool = False
    """Whether its readers hear of complete checkpoints."""
    can_discover: bool = False
    """Whether splits may come later, in this run of a job or a following one. Its checkpoints then hold the
    names of all known splits, and it defines ``owner_of``."""
    discovery_interval_ms: int | None = None
    """How often to look for splits that have come; None: never, or the source is bounded."""

    @abstractmethod
    def splits(self) -> Sequence[str]:
        """Return the ids of all splits, in any order."""

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values, or None if unknown (Flink: ResultTypeQueryable)."""
        return None

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return the ids of all splits of a job that begins with ``parallelism`` subtasks: ``splits()``.

        A source that can be cut at will overrides this. The splits stay when the parallelism changes later.
        """
        return self.splits()

    def owner_of(self, split: str, parallelism: int) -> int | None:
        """Return the subtask that reads a new split, as a function of the arguments alone.

        None: the sorted splits are dealt out one after the other; so it is by default.
        """
        return None

    def start_discovery(self, discovery: SplitDiscovery, interval_ms: int) -> None:
        """Start the discovery of a subtask. A source that wraps another one forwards this call."""
        discovery.start(interval_ms)

    def open_discovered_split(self, split: str) -> SplitReader:
        """Return a reader of a split that came after the job had started; by default as of any other."""
        return self.open_split(split, None)

    @abstractmethod
    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader of a split.

        Args:
            split: an id from ``splits``.
            position: a ``SplitReader.position``; None: the beginning.
        """

    def identity(self) -> SourceIdentity:
        """Return what the source reads, so that no job goes on from the positions of another one's source.

        By default only the name of the class: then an object with other arguments, which reads something
        else, goes on from the same positions. It reads no data that may be far away or gone, and it is the
        same in every process. A source around another one returns the identity of the inner source.
        """
        return SourceIdentity(type(self).__qualname__)
