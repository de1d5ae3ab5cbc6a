"""Looks for splits that have come since a job has started (Flink: the periodic discovery of an enumerator).

Flink's enumerator runs beside the job master and hands splits out. Here each subtask looks for itself,
because a split belongs to the subtask that ``Source.owner_of`` names, and which splits are known is in the
checkpoint that all of them restored. The rules:

- A thread lists the splits, because that may wait for a server. The task takes what was found.
- A listing that fails is logged and tried again: what is read already is not disturbed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

from onceproof.engine.forked_children import runs_user_code

if TYPE_CHECKING:
    from onceproof.engine.connectors.source import Source

_logger = logging.getLogger(__name__)


class SplitDiscovery:
    """The thread of one subtask.

    Args:
        source: lists the splits and says whose they are.
        interval_ms: the time between two listings.
        is_new: whether a split is one that this subtask is to read and does not read yet.
        wake_up: has the task polled.
    """

    def __init__(
        self, source: Source, interval_ms: int, is_new: Callable[[str], bool], wake_up: Callable[[], None]
    ) -> None:
        self._source = source
        self._interval_s = interval_ms / 1000
        self._is_new = is_new
        self._wake_up = wake_up
        self._found: deque[str] = deque()
        self._seen: set[str] = set()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="split discovery", daemon=True)

    def start(self) -> None:
        """Begin with a listing at once: splits may have come while the job was down."""
        self._thread.start()

    def take(self) -> str | None:
        """Return the next split that was found, or None. It never waits."""
        return self._found.popleft() if self._found else None

    def stop(self) -> None:
        """End the thread; a listing that is under way ends by itself."""
        self._stopped.set()

    @runs_user_code
    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                splits = self._source.splits()
            except BaseException as error:
                _logger.warning("new splits cannot be looked for, it is tried again: %s", error)
                splits = ()
            found = [split for split in splits if split not in self._seen and self._is_new(split)]
            if found:
                self._seen.update(found)
                self._found.extend(found)
                self._wake_up()
            self._stopped.wait(self._interval_s)
