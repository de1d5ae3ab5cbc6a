"""The second thread of the local runtime: it writes snapshots and metadata, one after the other.

The rules this module lives by:

- The driver submits work and gets the report of each piece in its own thread, in the order of submission.
- Work that has not begun can be withdrawn, with all that it holds in memory. So what waits here belongs to
  checkpoints that are pending: at most as many per task as may be under way at a time.
- Work that has begun is finished: a storage call cannot be interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any, Protocol

from msgspec import Struct

from onceproof.engine.forked_children import runs_user_code

Report = Callable[[], None]
"""What the driver does in its own thread once a piece of work is done."""


class Work(Struct, eq=False):
    """A piece of work: ``about`` says what it belongs to, ``run`` does it and returns its report."""

    about: Any
    run: Callable[[], Report]


class Writer(Protocol):
    """Does the work of a driver, in another thread or at once."""

    def submit(self, work: Work) -> None:
        """Queue a piece of work."""
        ...

    def withdraw(self, is_void: Callable[[Any], bool]) -> list[Work]:
        """Drop and return the work that has not begun and whose ``about`` is void."""
        ...

    def close(self) -> None:
        """Finish what is left, and end the thread."""
        ...


class CheckpointWriter:
    """Does work in a thread of its own, and passes each report to ``report``."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self.report = report
        self.waiting: deque[Work] = deque()
        """The work that has not begun."""
        self._changed = Condition()
        self._is_closed = False
        self._thread: Thread | None = None

    def submit(self, work: Work) -> None:
        """Queue a piece of work; the first one starts the thread."""
        with self._changed:
            self.waiting.append(work)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="checkpoint-writer", daemon=True)
                self._thread.start()
            self._changed.notify()

    def withdraw(self, is_void: Callable[[Any], bool]) -> list[Work]:
        """Drop and return the work that has not begun and whose ``about`` is void."""
        with self._changed:
            dropped = [work for work in self.waiting if is_void(work.about)]
            if dropped:
                self.waiting = deque([work for work in self.waiting if not is_void(work.about)])
        return dropped

    def close(self) -> None:
        """Finish what is left, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    @runs_user_code
    def _work(self) -> None:
        while True:
            with self._changed:
                while not self.waiting:
                    if self._is_closed:
                        return
                    self._changed.wait()
                work = self.waiting.popleft()
            try:
                report = work.run()
            except BaseException as error:
                report = _raiser(error)
            self.report(report)
            # Nothing may keep the snapshot while the thread waits.
            del work, report


def _raiser(error: BaseException) -> Report:
    def raise_it() -> None:
        raise error

    return raise_it
