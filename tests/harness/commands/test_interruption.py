"""A signal that strikes where Python drops exceptions."""

from __future__ import annotations

import os
import signal
import time
import weakref

import pytest

from onceproof.harness.commands.endings import interruptible


class Closed:
    """Something with a finalizer."""


def closed_and_waiting(closed: list[Closed]) -> None:
    closed.clear()
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_that_strikes_in_a_finalizer_is_not_lost(number: signal.Signals) -> None:
    closed = [Closed()]
    weakref.finalize(closed[0], os.kill, os.getpid(), number)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        closed_and_waiting(closed)
