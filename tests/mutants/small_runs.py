"""Small runs by hand that a planted bug changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceproof.harness.model.mutants import find_mutant


def shown(mutant_id: str, run: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a run comes to without the bug, and with it."""
    right = run()
    with find_mutant(mutant_id).applied() as reach:
        wrong = run()
    assert reach.times, "the bug was not reached"
    assert run() == right, "the patch is not undone"
    return right, wrong
