"""Small runs by hand that a planted bug changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.planted.catalogue import built_in_mutants, find_mutant

SET_SIZE: Final = 16


def shown(mutant_id: str, run: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a run comes to without the bug, and with it."""
    right = run()
    with find_mutant(mutant_id).applied() as reach:
        wrong = run()
    assert reach.times, "the bug was not reached"
    assert run() == right, "the patch is not undone"
    return right, wrong


def first(value: Any) -> Any:
    return value[0]


def values(records: list[tuple[Any, int | None]]) -> list[Any]:
    return [value for value, _ in records]


def not_shown(test_file: str, *themes: ModuleType) -> list[str]:
    """Return the bugs of some themes for which a file of tests has no run."""
    text = Path(test_file).read_text()
    ids = [each.id for each in built_in_mutants() if each.module in {theme.__name__ for theme in themes}]
    assert len(ids) == SET_SIZE
    return [each for each in ids if f'shown("{each}", ' not in text]
