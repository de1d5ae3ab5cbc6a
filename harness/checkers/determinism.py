"""determinism: two runs of one scenario give the same trace, on any machine.

The only anomaly is "trace differs". The trace hash covers every step; if visible events differ too, the first
pair that differs is the witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.model.history import History

PROPERTY = "determinism"
TRACE_DIFFERS = "trace differs"


def check_determinism(first: History, second: History) -> Sequence[Violation]:
    """Return one violation if two runs of one scenario differ; else none."""
    if first.trace_hash == second.trace_hash and first.events == second.events:
        return ()
    witness: dict[str, Any] = {"hashes": [first.trace_hash, second.trace_hash]}
    where = "between two visible events"
    for index, (one, other) in enumerate(zip_longest(first.events, second.events)):
        if one != other:
            step = (one or other)[0]
            where = f"event {index}, step {step}"
            witness["events"] = [repr(one), repr(other)]
            break
    return [Violation(PROPERTY, TRACE_DIFFERS, where, witness)]
