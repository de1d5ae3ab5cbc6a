"""Import of a user's file: one that holds a family, or one that holds mutants.

The rules this module lives by:

- A file is run as Python runs it, so loading a file is trusting it.
- A file that stands in a package is imported as a part of that package; any other is a module of its own.
- An error in the file becomes one line that names the file and the deepest line of it that took part.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterable
from pathlib import Path
from types import ModuleType


def import_file(path: Path, prefix: str) -> ModuleType:
    """Import a file as a part of its package if it stands in one, else as a module of its own.

    The folder from which Python imports the file is added to the path of modules, so the file can import the
    modules beside it. Any exception of the file passes through; ``error_line`` puts it into words.
    """
    name, folder = module_name_of(path)
    if str(folder) not in sys.path:
        # Last: a file of a user's must not stand in for a module of ours or of Python's.
        sys.path.append(str(folder))
    if "." in name and _is_found_at(name, path):
        return importlib.import_module(name)
    return import_alone(path, prefix)


def import_alone(path: Path, prefix: str) -> ModuleType:
    """Run a file as a module that belongs to no package; its name is ``prefix`` and the name of the file."""
    module_name = f"{prefix}{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up here while the file still runs.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def modules_in(folders: Collection[Path], names: Iterable[str] | None = None) -> list[str]:
    """Return the names of the imported modules whose files lie in some folders.

    Args:
        names: those of the modules that are looked at; None: all.
    """
    found = []
    for name in list(sys.modules if names is None else names):
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str) and Path(file).absolute().parent in folders:
            found.append(name)
    return found


def defined_in(path: Path) -> frozenset[str]:
    """Return the names that a file of Python defines at its top level, read from its syntax tree.

    None of it runs. Raises OSError, SyntaxError or ValueError.
    """
    found: set[str] = set()
    for node in ast.parse(path.read_bytes(), str(path)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update(each.asname or each.name for each in names)
    return frozenset(found)


def imported_by(path: Path) -> frozenset[str]:
    """Return the packages that a file of Python imports anywhere, read from its syntax tree.

    None of it runs. Raises OSError, SyntaxError or ValueError.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        match node:
            case ast.Import(names=names):
                found.update(each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
    return frozenset(found)


def module_name_of(path: Path) -> tuple[str, Path]:
    """Return under which name Python imports a file, and the folder from which it does."""
    folder = path.absolute().parent
    parts = [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def error_line(path: Path, error: Exception, own: type[Exception]) -> str:
    """Return "FILE:LINE: TYPE: MESSAGE" for an error that a file raised.

    The type is left out where the error is one of the caller's ``own``: its message stands for itself.
    """
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = "" if isinstance(error, own) else f"{type(error).__name__}: "
    return f"{path}:{_line_in(path, error)}: {kind}{' '.join(message.split())}"


def _is_found_at(name: str, path: Path) -> bool:
    """Return whether Python finds a module of that name in that file, and not somewhere else."""
    try:
        specification = importlib.util.find_spec(name)
    except ImportError:
        return False
    origin = None if specification is None else specification.origin
    return origin is not None and _is_same(origin, path)


def _line_in(path: Path, error: Exception) -> int:
    """Return the line of the file at which an error was raised or found, the deepest one of that file."""
    if isinstance(error, SyntaxError) and error.filename and _is_same(error.filename, path):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if _is_same(frame.filename, path)), 1)


def _is_same(name: str, path: Path) -> bool:
    return Path(name).resolve() == path.resolve()
