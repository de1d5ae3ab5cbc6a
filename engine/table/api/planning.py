"""Where programs get their plans: what runs a program says who asks Flink's planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from onceproof.engine.table.planner.planner_process import PlannerBroken, PlanRequest

AskPlanner: TypeAlias = Callable[[PlanRequest], Mapping[str, Any]]
"""Returns the planner's answer to a request, or raises PlanningFailed or PlannerBroken."""

_PLANNERS: Final[list[AskPlanner]] = []


def use_planner(ask: AskPlanner | None) -> None:
    """Set who is asked for plans from now on; None: without a planner."""
    _PLANNERS.clear()
    if ask is not None:
        _PLANNERS.append(ask)


def has_planner() -> bool:
    """Return whether programs have a planner."""
    return bool(_PLANNERS)


def ask_planner(request: PlanRequest) -> Mapping[str, Any]:
    """Ask for a plan. Raises PlannerBroken if there is no planner."""
    if not _PLANNERS:
        raise PlannerBroken(
            "tables need Flink's planner: install it by `onceproof flink install`, and run the program by"
            " `onceproof run` or `onceproof job run`"
        )
    return _PLANNERS[-1](request)
