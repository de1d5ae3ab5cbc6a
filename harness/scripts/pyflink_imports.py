"""Lets a program that imports ``pyflink`` run on the engine.

Rules:

- It counts inside ``with pyflink_imports()``, or from ``answer_imports()`` on, and for the program alone: a
  library that asks whether PyFlink is there gets the answer of the machine. So no module ``pyflink`` is put
  into ``sys.modules``; the ``import`` statement is answered by who executes it.
- A file of the program is one that lies neither in Python's library nor among installed packages.
- Where PyFlink is installed, a block changes nothing unless it is asked to, and only the files below the
  folder of a script on trial find the engine: what is tested is the engine's graph of its job.
- Each module of PyFlink 1.12 to 2.3 has all names of the engine: a program may import ``Types`` from any
  module that ever re-exported it. Modules of tables have their own names first: some are those of streams as
  well. A name that the engine lacks is an ImportError that says why.
- ``importlib.import_module("pyflink")`` is not answered: it does not say who asks.
"""

from __future__ import annotations

import builtins
import importlib.util
import site
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from onceproof import engine
from onceproof.engine.flink_names import PACKAGE, flink_names, why_missing
from onceproof.engine.table.api import names as tables

_NAMES: Final = frozenset((*engine.__all__, *engine.DEPRECATED))

_TABLES: Final = f"{PACKAGE}.table"
_EXPRESSIONS: Final = f"{_TABLES}.expressions"

_modules: Final[dict[str, PyflinkModule]] = {}


class PyflinkModule(ModuleType):
    """A module of PyFlink with the engine's names."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "A module of PyFlink, with the names of onceproof.engine.")
        # The mark of a package.
        self.__path__: list[str] = []
        self._is_of_tables = f"{name}.".startswith(f"{_TABLES}.")
        self.__all__ = engine.__all__
        if self._is_of_tables:
            # Expressions have names that a program has of its own, such as e and row.
            self.__all__ = [*(tables.EXPRESSIONS if name == _EXPRESSIONS else tables.CLASSES)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if self._is_of_tables:
            if name in tables.NAMES:
                return tables.NAMES[name]
            if (reason := tables.why_missing(name)) is not None:
                raise AttributeError(reason)
        below = f"{self.__name__}.{name}"
        # Some classes of tables have the name of a class of streams.
        homonym = f"{'.'.join(self.__name__.split('.')[:2])}.{name}"
        if homonym not in flink_names().reasons:
            if name in _NAMES:
                return getattr(engine, name)
            if below in flink_names().modules:
                return _module(below)
        reason = why_missing(homonym) or why_missing(name)
        raise AttributeError(reason or f"{self.__name__} has no name {name!r}")


def _module(name: str) -> PyflinkModule:
    """Return a module by its full name; ImportError if PyFlink has none, or the engine nothing of it."""
    if name not in flink_names().modules:
        reason = why_missing(name)
        raise ModuleNotFoundError(reason or f"PyFlink has no module {name!r}", name=name)
    return _modules.setdefault(name, PyflinkModule(name))


@contextmanager
def pyflink_imports(*, always: bool = False) -> Iterator[None]:
    """Answer a program's imports of ``pyflink`` inside the block, in all threads of the process.

    Args:
        always: also where PyFlink is installed.
    """
    if not always and _is_installed():
        yield
        return
    with _lock:
        _blocks.append(_import)
        builtins.__import__ = _import
    try:
        yield
    finally:
        with _lock:
            _blocks.pop()
            if not _blocks and not _folders and builtins.__import__ is _import:
                builtins.__import__ = _PYTHONS


def answer_imports(folder: Path) -> None:
    """Answer them from now on, in this process: functions of a program may import when they run.

    Args:
        folder: that of a script, below which its own modules lie.
    """
    with _lock:
        _folders.add(folder.absolute())
        builtins.__import__ = _import


def _is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


_PYTHONS: Final = builtins.__import__
_lock: Final = threading.Lock()
_blocks: Final[list[object]] = []
"""One entry for each block that is open, in all threads."""
_folders: Final[set[Path]] = set()
"""Those of the scripts on trial."""


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if level == 0 and (name == PACKAGE or name.startswith(f"{PACKAGE}.")) and _is_program(globals):
        found = _module(name)
        if not fromlist:
            return _module(PACKAGE)
        for each in fromlist:
            if each != "*":
                _check(found, each)
        return found
    return _PYTHONS(name, globals, locals, fromlist or (), level)


def _check(module: PyflinkModule, name: str) -> None:
    """Raise ImportError with the reason: Python's own message would drop that of the AttributeError."""
    try:
        getattr(module, name)
    except AttributeError as error:
        raise ImportError(str(error), name=module.__name__) from None


def _is_program(globals: Mapping[str, Any] | None) -> bool:
    if globals is None:
        return False
    file = globals.get("__file__")
    if file is not None and _is_library(file):
        return False
    if _blocks or not _is_installed():
        return True
    return file is not None and any(Path(file).absolute().is_relative_to(each) for each in _folders)


@cache
def _is_library(file: str) -> bool:
    return any(Path(file).absolute().is_relative_to(each) for each in _libraries())


@cache
def _libraries() -> tuple[str, ...]:
    places = sysconfig.get_paths()
    found = [places[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return (*found, *site.getsitepackages(), site.getusersitepackages())
