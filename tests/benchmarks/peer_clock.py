"""Measures what a job takes: on the processor, by a process and all that it has started, and on the wall."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil


class Stopwatch:
    """Measures from its construction on."""

    def __init__(self) -> None:
        self._cpu, self._wall = _cpu_seconds(), time.perf_counter()

    def seconds(self) -> dict[str, float]:
        """Return the seconds by "cpu" and "wall"."""
        return {"cpu": _cpu_seconds() - self._cpu, "wall": time.perf_counter() - self._wall}


def _cpu_seconds() -> float:
    here = psutil.Process()
    total = 0.0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):
            # Those of children are of children that have ended.
            total += sum(process.cpu_times()[:4])
    return total
