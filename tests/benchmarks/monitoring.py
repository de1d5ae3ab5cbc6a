"""What it costs a job of the benchmark `local` to be monitored: pairs of runs, one with REST and one without.

The rules this module lives by:

- The two runs of a pair follow each other, so whatever else the machine does strikes both. The next pair runs
  in the other order, so neither always comes first.
- CPU seconds of the job's process count. What the process that serves HTTP takes stands beside them.
- A ratio of a pair is the time without against the time with, as all ratios: 0.98 is a cost of 2 %. The
  median of the pairs stands with an interval that holds it with at least 95 %, whatever the noise is like.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from math import comb
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Final

PAIRS: Final = 12
RECORDS: Final = 3_000_000
MISSED: Final = 0.05
"""With which probability the median may lie outside the interval."""
MONITORED: Final = {"rest.port": 0}


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which their median lies with at least 95 %, for any distribution.

    Each value lies below the true median with a probability of one half, so how many do is binomial. With
    fewer than six values there is no such interval: then the least and the greatest are returned.
    """
    ordered, number = sorted(values), len(values)
    outside = 0
    below = 0.0
    while outside < number // 2:
        below += comb(number, outside) / 2**number
        if 2 * below > MISSED:
            break
        outside += 1
    place = max(0, outside - 1)
    return ordered[place], ordered[number - 1 - place]


def monitoring_figures(
    job_seconds: Callable[[dict[str, int]], float], pairs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures and the ratios of the pairs; ``job_seconds`` runs the job with some more options."""
    with_monitor, without, ratios = [], [], []
    began = _seconds_of_children()
    for pair in range(pairs):
        seconds = {}
        for is_monitored in (True, False) if pair % 2 else (False, True):
            # The address of the API is not a result.
            with redirect_stderr(io.StringIO()):
                seconds[is_monitored] = job_seconds(MONITORED if is_monitored else {})
        with_monitor.append(seconds[True])
        without.append(seconds[False])
        ratios.append(seconds[False] / seconds[True])
    low, high = median_interval(ratios)
    figures = {
        "monitored_pairs": pairs,
        "monitored_cpu_seconds": round(median(with_monitor), 4),
        "not_monitored_cpu_seconds": round(median(without), 4),
        "monitor_process_cpu_seconds": round((_seconds_of_children() - began) / pairs, 4),
    }
    return figures, {
        "monitored": round(median(ratios), 4),
        "monitored_low": round(low, 4),
        "monitored_high": round(high, 4),
        "monitored_best": round(min(without) / min(with_monitor), 4),
    }


def _seconds_of_children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
