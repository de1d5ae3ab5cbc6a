"""Defects of stored values, for the table of ``planted_defects``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from onceproof.engine.state import keyed
from onceproof.engine.types import dynamic, objects
from onceproof.engine.types.composite import ListType


def tuples_come_back_as_lists(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    pack = dynamic.pack

    def listed(value: Any) -> Any:
        return pack([*value] if type(value) is tuple else value)

    patch.setattr(dynamic, "pack", listed)


def elements_of_none_are_dropped(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    prepare = ListType.prepare

    def without_none(self: ListType, values: Any, allow_pickle: bool = False) -> Any:
        pack = prepare(self, values, allow_pickle) or list
        return lambda value: pack([item for item in value if item is not None])

    patch.setattr(ListType, "prepare", without_none)


def data_imports_the_classes_that_it_names(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def imported(module: Any, name: Any) -> Any:
        return getattr(import_module(module), name, None)

    patch.setattr(objects, "_loaded", imported)


def opaque_objects_are_noticed_by_the_restore(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(keyed, "opaque_check", lambda what, operator, unit: lambda value: None)
