"""Lets programs that import ``onceproof.engine`` run on PyFlink unchanged. Only the recorder imports it.

``install`` answers imports of ``onceproof``: the engine's names are PyFlink's of the same name, a program of
the textbook is read from its file, and everything else is a stand-in that accepts whatever a module does with
it as it is loaded. A stand-in has no behaviour: a program that uses one when it runs fails.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
ENGINE = "onceproof.engine"
TEXTBOOK = "onceproof.scenarios.textbook"
HOMES = (
    "pyflink.common",
    "pyflink.common.typeinfo",
    "pyflink.common.time",
    "pyflink.common.watermark_strategy",
    "pyflink.datastream",
    "pyflink.datastream.functions",
    "pyflink.datastream.state",
    "pyflink.datastream.window",
    "pyflink.datastream.output_tag",
)


class StandIn:
    """A name that PyFlink lacks, or a part of the project that a program needs only on trial."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> StandIn:
        return self

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Names(ModuleType):
    """The engine's public module, with PyFlink's classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for home in HOMES:
            found = getattr(importlib.import_module(home), name, None)
            if found is not None and not isinstance(found, ModuleType):
                return found
        # A class of its own, so that a program can inherit from two of them.
        return type(name, (StandIn,), {})


class Rest(ModuleType):
    """Any other module of the project."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class Loader(importlib.abc.Loader):
    """Makes modules of a kind."""

    def __init__(self, kind: type[ModuleType]) -> None:
        self._kind = kind

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the module."""
        module = self._kind(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty: its names are found when they are asked for."""


class Finder(importlib.abc.MetaPathFinder):
    """Answers imports of the project."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module comes from."""
        if fullname.partition(".")[0] != "onceproof":
            return None
        folder, _, name = fullname.rpartition(".")
        if folder == TEXTBOOK and name not in ("_on_trial", "_pairs_on_trial", "_transfers_on_trial"):
            return importlib.util.spec_from_file_location(
                fullname, ROOT / "scenarios" / "textbook" / f"{name}.py"
            )
        is_engine = f"{fullname}.".startswith(f"{ENGINE}.")
        return importlib.machinery.ModuleSpec(fullname, Loader(Names if is_engine else Rest))


def install() -> None:
    """Answer imports of ``onceproof`` from here on."""
    sys.meta_path.insert(0, Finder())
