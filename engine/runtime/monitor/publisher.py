"""Passes views of a job to those who look at it, in a thread of its own.

The rules this module lives by:

- The thread of the job leaves a view here and goes on. If the receivers are slow, the newer view replaces the
  one that waits: nothing piles up, and no receiver makes the job wait.
- A receiver that fails is reported once in the log and asked no more. It never fails the job.
- At the end the last view is passed on, within a limit of time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Condition, Thread
from typing import Final, Protocol

from onceproof.engine.configuration.monitor_options import LOG
from onceproof.engine.graph import JobGraph
from onceproof.engine.runtime.job_requests import JobRequest, Respond
from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.log_reporter import LogReporter
from onceproof.engine.runtime.monitor.monitor_link import open_monitor_process
from onceproof.engine.runtime.mounted_storage import MountedStorage

LAST_VIEW_SECONDS: Final = 3.0
"""How long the last view may take on its way."""

_logger = logging.getLogger(__name__)


class Receiver(Protocol):
    """Takes views; called in the publisher's thread."""

    def take(self, view: JobView) -> None:
        """Take a view. What it raises ends its part; the job goes on."""
        ...


class Publisher:
    """Passes the latest view to the receivers."""

    def __init__(self, receivers: Sequence[Receiver], job_name: str) -> None:
        self._receivers = list(receivers)
        self._job_name = job_name
        self._changed = Condition()
        self._latest: JobView | None = None
        self._is_closed = False
        self._thread = Thread(target=self._live, name="monitor-publisher", daemon=True)
        self._thread.start()

    def publish(self, view: JobView) -> None:
        """Leave a view; called in the thread of the job."""
        with self._changed:
            self._latest = view
            self._changed.notify()

    def close(self) -> None:
        """Pass the last view on, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(LAST_VIEW_SECONDS)

    def _live(self) -> None:
        while True:
            with self._changed:
                while self._latest is None:
                    if self._is_closed:
                        return
                    self._changed.wait()
                view, self._latest = self._latest, None
            for receiver in list(self._receivers):
                try:
                    receiver.take(view)
                except Exception as error:
                    self._receivers.remove(receiver)
                    _logger.warning(
                        "job %r: %s accepts no more views; the job continues without it: %s",
                        self._job_name,
                        type(receiver).__name__,
                        error,
                    )


@contextmanager
def open_publisher(
    graph: JobGraph, storage: MountedStorage, submit: Callable[[JobRequest, Respond], None]
) -> Iterator[Publisher]:
    """Open what the settings of a job ask for, and close it behind the job.

    Args:
        graph: the job.
        storage: that of its checkpoints, whose folder gets the token.
        submit: passes a user's request to the job, from any thread.

    Raises:
        AddressInUse: a port is taken.
    """
    settings = graph.settings.monitor
    with ExitStack() as stack:
        receivers: list[Receiver] = [
            LogReporter(each.interval_ms) for each in settings.reporters if each.kind == LOG
        ]
        process = open_monitor_process(graph, storage, submit)
        if process is not None:
            receivers.append(stack.enter_context(process))
        publisher = Publisher(receivers, graph.name)
        stack.callback(publisher.close)
        yield publisher
