"""Which tasks a kill of tasks hits: the same on every system."""

from __future__ import annotations

from onceproof.harness.model.faults import FaultRow


def is_victim(row: FaultRow, passing: str, name: str) -> bool:
    """Return whether a fault of this kind kills the task ``name`` when ``passing`` passes its point."""
    match row.victims:
        case "passing":
            return name == passing
        case "all":
            return True
        case "none":
            return False
