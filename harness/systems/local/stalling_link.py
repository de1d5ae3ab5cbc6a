"""The connection between a worker and the coordinator, which may stall.

Rules:

- A socket between two processes loses nothing, repeats nothing and keeps the order. But what is sent may
  arrive late: a busy machine does not run the receiver, or the sender's next call. So a message that a fault
  delays holds back all that follows it in both directions. What other workers send arrives meanwhile.
- A message is asked for its fault once: a trigger and a notification as they arrive, an acknowledgement as it
  is sent.
- Where the scenario's schedule is not fair, the connection also stalls at one message in `STALLS_IN` that
  arrive, whatever it says, for a while: the seed of the schedule decides at which.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

from onceproof.engine.messages import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from onceproof.engine.runtime.workers.link import Frame, Link
from onceproof.engine.types import exchange
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import Fault

FaultOf: TypeAlias = Callable[[Point, Any], Fault | None]
"""Returns the fault that a message suffers at a point."""

STALLS_IN: Final = 10
LONGEST_STALL_MS: Final = 100
_ARRIVING: Final[dict[type, Point]] = {TriggerCheckpoint: "triggered", NotifyCheckpointComplete: "notified"}
_LEAVING: Final[dict[type, Point]] = {AcknowledgeCheckpoint: "acknowledged"}


class StallingLink(Link):
    """The worker's end of the connection to its coordinator."""

    __slots__ = ("_fault_of", "_kept", "_stalls_by", "_until_ns")

    def __init__(self, connection: socket.socket, fault_of: FaultOf, stalls: Random | None = None) -> None:
        """Take the connection over; ``stalls`` decides when it stalls without a fault, None: never."""
        super().__init__(connection)
        self._fault_of = fault_of
        self._stalls_by = stalls
        self._kept: deque[Frame] = deque()
        self._until_ns = 0

    @property
    def waits_to_write(self) -> bool:
        """Return whether the socket could take something now."""
        return not self._stalls() and super().waits_to_write

    def _stalls(self) -> bool:
        return time.monotonic_ns() < self._until_ns

    def put(self, kind: int, channel: int, content: bytes) -> None:
        """Write a frame into memory."""
        self._stall_by(_LEAVING, content)
        super().put(kind, channel, content)

    def flush(self) -> None:
        """Pass on what the socket takes, unless the connection stalls."""
        if not self._stalls():
            super().flush()

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that have arrived, up to one at which the connection stalls."""
        while self._kept and not self._stalls():
            yield self._kept.popleft()
        if self._stalls():
            return
        for each in super().receive():
            if not self._stalls():
                self._stall_by(_ARRIVING, each[2])
                self._stall_by_chance()
            if self._stalls():
                self._kept.append(each)
            else:
                yield each

    def _stall_by(self, points: dict[type, Point], content: bytes) -> None:
        message = exchange.decode(content)
        point = points.get(type(message))
        fault = None if point is None else self._fault_of(point, message)
        if fault is not None:
            self.stall(fault)

    def _stall_by_chance(self) -> None:
        random = self._stalls_by
        if random is not None and random.randrange(STALLS_IN) == 0:
            self._stall_for(random.randint(1, LONGEST_STALL_MS))

    def stall(self, fault: Fault) -> None:
        """Let nothing pass the connection to a worker until the fault's delay is over."""
        self._stall_for(fault.delay)

    def _stall_for(self, milliseconds: int) -> None:
        self._until_ns = time.monotonic_ns() + milliseconds * 1_000_000
