"""The order in which the results of requests are emitted (Flink: StreamElementQueue).

The rules this module lives by:

- Ordered: a result waits for all that came before it.
- Unordered: a result waits for nothing but watermarks. Watermarks divide the input into segments. A segment
  is emitted in the order of its answers, and its watermark once all its results are.
- A watermark never overtakes a record, and no record overtakes a watermark.
- What is not emitted is in ``requests``, in the order of the input: the snapshot takes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol


class Request:
    """A value that waits for its results."""

    __slots__ = ("number", "results", "segment", "timestamp", "tries", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        """None: there is no answer yet."""
        self.tries = 0
        self.number = 0
        """The number under which it runs; 0: it waits for another try, or is done."""
        self.segment: Segment | None = None


class StreamElementQueue(Protocol):
    """Requests and watermarks in the order of the input."""

    def add(self, request: Request) -> None:
        """Add a request behind all others."""
        ...

    def add_watermark(self, timestamp: int) -> None:
        """Add a watermark behind all requests."""
        ...

    def done(self, request: Request) -> None:
        """Note that a request has its results."""
        ...

    def take(self) -> Iterator[Request | int]:
        """Take out what may be emitted now: requests that are done, and watermarks."""
        ...

    def requests(self) -> Iterator[Request]:
        """Give all requests that were not taken, in the order of the input."""
        ...

    def __len__(self) -> int:
        """Return how many requests were not taken."""
        ...


class OrderedQueue:
    """Emits results in the order of the input."""

    def __init__(self) -> None:
        self._entries: deque[Request | int] = deque()
        self._requests = 0

    def add(self, request: Request) -> None:
        self._entries.append(request)
        self._requests += 1

    def add_watermark(self, timestamp: int) -> None:
        self._entries.append(timestamp)

    def done(self, request: Request) -> None:
        """Do nothing: the request knows its results."""

    def take(self) -> Iterator[Request | int]:
        entries = self._entries
        while entries:
            first = entries[0]
            if isinstance(first, Request):
                if first.results is None:
                    return
                self._requests -= 1
            yield entries.popleft()

    def requests(self) -> Iterator[Request]:
        return (entry for entry in self._entries if isinstance(entry, Request))

    def __len__(self) -> int:
        return self._requests


class Segment:
    """The requests between two watermarks, and the later one of the two."""

    __slots__ = ("done", "requests", "watermark")

    def __init__(self) -> None:
        self.requests: dict[Request, None] = {}
        """Those that were not taken, in the order of the input."""
        self.done: deque[Request] = deque()
        self.watermark: int | None = None


class UnorderedQueue:
    """Emits results as they come, within the bounds of watermarks."""

    def __init__(self) -> None:
        self._segments: deque[Segment] = deque([Segment()])
        self._requests = 0

    def add(self, request: Request) -> None:
        segment = request.segment = self._segments[-1]
        segment.requests[request] = None
        self._requests += 1

    def add_watermark(self, timestamp: int) -> None:
        self._segments[-1].watermark = timestamp
        self._segments.append(Segment())

    def done(self, request: Request) -> None:
        assert request.segment is not None, "a request that was not added is done"
        request.segment.done.append(request)

    def take(self) -> Iterator[Request | int]:
        segments = self._segments
        while True:
            first = segments[0]
            while first.done:
                request = first.done.popleft()
                del first.requests[request]
                self._requests -= 1
                yield request
            if first.requests or first.watermark is None:
                return
            segments.popleft()
            yield first.watermark

    def requests(self) -> Iterator[Request]:
        return (request for segment in self._segments for request in segment.requests)

    def __len__(self) -> int:
        return self._requests
