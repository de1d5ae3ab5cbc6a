"""Savepoints and stops of a job on Spark, which happen between two epochs.

The rules this module lives by:

- A savepoint is a copy of the latest checkpoint (checkpoint/savepoint_copy.py). What it lists is committed:
  between epochs nothing is pending.
- Where the job has no checkpoint yet, it gets one first. Where it is to be drained, one more epoch reads
  nothing and ends all data.
- A job is cancelled at once; its epoch is called off.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from onceproof.engine.checkpoint.events import CheckpointTriggered, RequestResolved
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.savepoint_copy import copy_as_savepoint
from onceproof.engine.messages import SAVEPOINT, SYNC_SAVEPOINT, Kind
from onceproof.engine.runtime.job_requests import (
    JobAnswer,
    JobRequest,
    OpenRequests,
    Respond,
)
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import discard_checkpoint
from onceproof.engine.runtime.request_folder import RequestFolder

LOOK_SECONDS: Final = 0.2


class EpochRequests:
    """The requests that arrive while an epoch runs and wait for its end."""

    def __init__(
        self,
        open_requests: OpenRequests,
        storage: MountedStorage,
        publish: Callable[[CheckpointMetadata], None],
    ) -> None:
        self._open_requests = open_requests
        self._storage = storage
        self._publish = publish
        self._folder = RequestFolder.of(storage)
        self._asked: SimpleQueue[tuple[JobRequest, Respond]] = SimpleQueue()
        self._waiting: deque[tuple[JobRequest, Respond]] = deque()
        self._next_look = 0.0
        self.is_cancelled = False

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Submit a request from another thread."""
        self._asked.put((request, respond))

    def look(self) -> None:
        """Take requests from other threads and, a few times a second, from the request folder."""
        now = time.monotonic()
        if self._folder is not None and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._folder.look(self.submit)
        while True:
            try:
                request, respond = self._asked.get_nowait()
            except Empty:
                return
            if request.kind == "cancel":
                self._open_requests.take(request, respond)
                self.is_cancelled = True
            else:
                self._waiting.append((request, respond))

    def next(self) -> JobRequest | None:
        """Return the next waiting request, or None."""
        return self._waiting[0][0] if self._waiting else None

    def carry_out(self, latest: CheckpointMetadata) -> CheckpointMetadata | None:
        """Write the savepoint of the next request and answer it; return it if the job is to stop with it."""
        request, respond = self._waiting.popleft()
        if self._open_requests.take(request, respond) is None:
            return None
        kind: Kind = SYNC_SAVEPOINT if request.kind == "stop" else SAVEPOINT
        number = self._open_requests.latest_number
        leads = self._open_requests.begun(CheckpointTriggered(latest.checkpoint_id, kind, number))
        assert leads is not None, "a savepoint without a folder"
        self._storage.mount(*leads)
        try:
            savepoint = copy_as_savepoint(self._storage, latest, kind)
            self._publish(savepoint)
        except OSError as error:
            discard_checkpoint(self._storage, latest.checkpoint_id, kind)
            self._open_requests.resolved(RequestResolved(number, None, str(error)))
            return None
        self._open_requests.resolved(RequestResolved(number, savepoint.checkpoint_id))
        return None if request.kind == "savepoint" else savepoint

    def refuse_rest(self) -> None:
        """Answer all waiting requests with an error at the end of the job."""
        for _, respond in self._waiting:
            respond(JobAnswer(error="there is no savepoint: the job has ended before"))
        self._waiting.clear()
