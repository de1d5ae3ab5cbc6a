"""A signal that strikes where Python drops exceptions."""

from __future__ import annotations

import os
import signal
import time
import weakref

import pytest

from onceproof.harness.commands import endings
from onceproof.harness.commands.endings import interruptible


class Closed:
    """Something with a finalizer."""


def closed_and_waiting(closed: list[Closed]) -> None:
    closed.clear()
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [endings._SECONDS_TO_LEAVE, 0])
def test_signal_that_strikes_in_a_finalizer_is_not_lost(
    number: signal.Signals, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without any wait the signal comes again while the hook still runs.
    monkeypatch.setattr(endings, "_SECONDS_TO_LEAVE", seconds)
    closed = [Closed()]
    weakref.finalize(closed[0], os.kill, os.getpid(), number)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        closed_and_waiting(closed)
