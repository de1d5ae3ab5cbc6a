"""Answers imports of ``pyflink`` with the engine, so that programs of PyFlink run unchanged.

Every module of ``pyflink`` has all public names of ``onceproof.engine``; a name that the engine lacks fails
where it is imported. What is imported is taken back at the end, so that no other test finds it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from onceproof import engine

PYFLINK = "pyflink"


class EngineNames(ModuleType):
    """A module of PyFlink; its names are the engine's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(engine, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes the modules of PyFlink."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module comes from."""
        if fullname.partition(".")[0] != PYFLINK:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the module."""
        return EngineNames(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty: its names are found when they are asked for."""


@contextmanager
def engine_as_pyflink() -> Iterator[None]:
    """Answer imports of ``pyflink`` with the engine inside of the block."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == PYFLINK]:
            del sys.modules[name]
