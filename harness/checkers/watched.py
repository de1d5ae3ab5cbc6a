"""What might have happened in a run, and whether it did: reports say what never happened in any run.

The rules this module lives by:

- A key is a kind and what it concerns: "rows/ledger" for a sink, "kill" for a kill between the first row and
  the last. The simulation adds times to live and timers in processing time, which leave no event.
- A kill between rows might have happened where a kill struck and a row became visible.
- It judges nothing.
"""

from __future__ import annotations

from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import (
    FAULT_FIRED,
    KILL,
    ROWS,
    ROWS_FOUND,
    ROWS_WRITTEN,
    TRANSACTION_VISIBLE,
    History,
)


def watched_in(history: History) -> dict[str, bool]:
    """Return by what might have happened in a run whether it did."""
    watched = dict(history.statistics.watched)
    watched[ROWS] = False
    has_rows = has_kill = is_between = is_followed = False
    for _, kind, subject, payload in history.events:
        if kind in (TRANSACTION_VISIBLE, ROWS_WRITTEN, ROWS_FOUND):
            sink = payload.get("sink")
            key = f"{ROWS}/{sink}" if sink else ROWS
            if payload["rows"]:
                watched[key] = has_rows = True
                is_followed = is_followed or is_between
            else:
                watched.setdefault(key, False)
        elif kind == FAULT_FIRED and subject in KILLS:
            has_kill = True
            is_between = has_rows
    if has_kill and has_rows:
        watched[KILL] = is_followed
    return watched
