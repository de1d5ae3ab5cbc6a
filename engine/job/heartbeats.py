"""Whether a worker is alive, by what is heard of it (Flink: HeartbeatMonitorImpl).

Rules:

- A worker sends heartbeats from a thread of its own, whatever its tasks do. Each ends the silence.
- A worker that is silent for the timeout is dead: its process has stopped, or its machine is swamped.
- Silence is counted from look to look, each time one interval at most. So a coordinator that was stopped
  itself, or whose machine slept, finds no worker dead before it has listened again.
"""

from __future__ import annotations


class HeartbeatMonitor:
    """What is heard of one worker. ``now`` is in milliseconds of a clock that never jumps."""

    def __init__(self, interval_ms: int, timeout_ms: int, now: int) -> None:
        self.interval_ms = interval_ms
        self.timeout_ms = timeout_ms
        self._looked_ms = now
        self._silent_ms = 0

    def heard(self, now: int) -> None:
        """Note that a heartbeat has arrived."""
        self._looked_ms = now
        self._silent_ms = 0

    def is_overdue(self, now: int) -> bool:
        """Look at the silence, and return whether it has lasted for the timeout."""
        self._silent_ms += min(max(0, now - self._looked_ms), self.interval_ms)
        self._looked_ms = now
        return self._silent_ms >= self.timeout_ms
