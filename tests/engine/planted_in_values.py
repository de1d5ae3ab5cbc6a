"""Defects of stored values, for the table of ``planted_defects``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from onceproof.engine.state import keyed
from onceproof.engine.types import objects


def data_imports_the_classes_that_it_names(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def imported(module: Any, name: Any) -> Any:
        return getattr(import_module(module), name, None)

    patch.setattr(objects, "_loaded", imported)


def opaque_objects_are_noticed_by_the_restore(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(keyed, "opaque_check", lambda what, operator, unit: lambda value: None)
