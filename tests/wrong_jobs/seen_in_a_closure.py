"""Retries are left out by a set that a closure captures."""

from __future__ import annotations

from typing import Any

from onceproof.engine import Types
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "`seen`"


def is_new() -> Any:
    seen: set[int] = set()

    def keep(order: Any) -> bool:
        if order[0] in seen:
            return False
        seen.add(order[0])  # wrong
        return True

    return keep


def build(orders: Any) -> Any:
    fresh = orders.key_by(lambda order: order[0], Types.LONG()).filter(is_new())
    return fresh.map(lambda order: (order[1], order[0], order[2]), ROW)


family = WrongJob("seen_in_a_closure", build, deduplicated, vertices=("Filter -> work",))
