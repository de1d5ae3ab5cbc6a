"""The lifeline between a worker and its coordinator: each learns by it that the other one is gone.

Rules:

- The worker ends at once when the coordinator's end closes, also in the middle of a user's function.
- Over the same sockets it sends heartbeats, in a thread of its own: a user's function that takes long is no
  silence, unless it is C code that never releases the interpreter.
- A coordinator that is stopped takes no heartbeat, and its workers wait for it, as long as it lives: no other
  process can have their tasks before it has claimed the job (recovery.py).
- A worker ends by os._exit. So it ends the daemonic processes of ``multiprocessing`` that a function has
  started by itself, as Python does at a usual exit.
- The coordinator also watches the process itself, by its pidfd where the system has them: the connections of
  a worker may live on in a process that C code has forked from it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress

BEAT = b"b"


def keep_alive(lifeline: socket.socket, interval_ms: int) -> None:
    """Start the thread that sends heartbeats, and ends this process when the lifeline is closed."""
    arguments = (lifeline, interval_ms)
    threading.Thread(target=_keep_alive, args=arguments, name="lifeline", daemon=True).start()


def _keep_alive(lifeline: socket.socket, interval_ms: int) -> None:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    with suppress(OSError):
        while True:
            with suppress(BlockingIOError):
                lifeline.send(BEAT, socket.MSG_DONTWAIT)
            if poll.poll(interval_ms):
                break
    end_daemonic_children()
    os._exit(1)


def end_daemonic_children() -> None:
    """End the daemonic processes that this one has started with ``multiprocessing``."""
    # Most jobs never import it, which takes its time.
    multiprocessing = sys.modules.get("multiprocessing")
    for child in () if multiprocessing is None else multiprocessing.active_children():
        # The processes of the program that has forked this one are none of its children.
        with suppress(AssertionError, OSError):
            if child.daemon and child.is_alive():
                child.terminate()


def process_descriptor(pid: int) -> int | None:
    """Return a descriptor that can be read once the process is gone; None: the system has none of it."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        # The process is gone already, or the system forbids the call.
        return None


def kill_process(pid: int, descriptor: int | None) -> None:
    """Kill a process; by its descriptor, if it has one, so that no other one with its id can be meant."""
    with suppress(ProcessLookupError):
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
