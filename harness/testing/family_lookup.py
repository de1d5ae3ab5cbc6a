"""Finds the family that a test names, and builds the command line that replays its scenarios.

The rules this module lives by:

- A test names a family by a built-in name, a path, a module, or an object or class with the members of
  ``Family``. Without a name the family is the test's own module.
- A path is relative to the test's folder, else to pytest's rootdir. The folder in which pytest was started
  does not change what is tested.
- Printed paths are relative to the folder in which pytest was started, ready for the shell.
- A new process lacks the entries that pytest added to ``sys.path``. If the test imported modules from them,
  the command sets PYTHONPATH, and so does the environment of child processes.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from onceproof.harness.explanation.descriptions import replay_command
from onceproof.harness.model.family import FAMILY_MODULE, Family, FamilyError, family_of, source_file
from onceproof.harness.model.family_places import address_of, joined_address, load_family, split_address
from onceproof.harness.model.user_file import module_name_of

FamilyLike: TypeAlias = str | os.PathLike[str] | object
"""A name, a path, a module, or an object or class with a family's members; None: the test's own module."""

_PACKAGE_ROOT: Final = str(Path(__file__).absolute().parents[3])
_INTERPRETER_PATHS: Final = (sys.prefix, sys.base_prefix, str(Path(sys.executable).parent))


def find_family(given: FamilyLike, test_module: ModuleType | None, folders: Sequence[Path]) -> Family:
    """Return the family that a test names.

    ``test_module`` is the module of the test. ``folders`` are searched for relative paths, in order. Raises
    FamilyError if there is no such family.
    """
    if given is None:
        place = "the test" if test_module is None else _place_of(test_module)
        return family_of(test_module, f"{place}: no family is named, so it must be the test's own module")
    if not isinstance(given, str | os.PathLike):
        return family_of(given, _place_of(given))
    address = os.fspath(given)
    path, attribute = split_address(address)
    if path is None:
        return load_family(address)
    for folder in folders:
        if (folder / path).is_file():
            return load_family(joined_address(folder / path, attribute))
    looked = " and ".join(str(folder) for folder in dict.fromkeys(folders))
    raise FamilyError(f"{path}: no such file in {looked}")


def _place_of(given: object) -> str:
    if isinstance(given, ModuleType):
        return getattr(given, "__file__", None) or given.__name__
    kind = given if isinstance(given, type) else type(given)
    return f"{kind.__module__}.{kind.__qualname__}"


def path_as_typed(path: str | Path, folder: Path) -> str:
    """Return a path relative to ``folder`` if it lies inside, else unchanged."""
    path = Path(path)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def replay_command_line(
    family: Family, subject: int | Path, system: str, folder: Path, path_at_start: Sequence[str]
) -> str:
    """Return the command line that replays ``subject``, a seed or a file, in ``folder``.

    The text is empty for a family that has no address, such as an object made by a function.
    ``path_at_start`` is ``sys.path`` before pytest extended it.
    """
    try:
        address = address_of(family)
    except FamilyError:
        return ""
    if isinstance(subject, Path):
        subject = Path(path_as_typed(subject, folder))
    file, attribute = split_address(address)
    if file is None:
        return replay_command(subject, address, system)
    address = joined_address(path_as_typed(file, folder), attribute)
    command = replay_command(subject, address, system)
    needed = [path_as_typed(entry, folder) for entry in needed_python_path(family, path_at_start)]
    return f"PYTHONPATH={shlex.quote(os.pathsep.join(needed))} {command}" if needed else command


def needed_python_path(family: Family, path_at_start: Sequence[str]) -> list[str]:
    """Return the folders of imported modules that are not on the ``sys.path`` of a new interpreter."""
    file = source_file(family)
    # `onceproof replay` adds the folder of the family itself.
    given = {_PACKAGE_ROOT, *(os.path.abspath(entry) for entry in path_at_start[1:])}
    given |= set() if file is None else {str(module_name_of(Path(file))[1])}
    entries = [os.path.abspath(entry) for entry in sys.path]
    entries = [entry for entry in dict.fromkeys(entries) if os.path.isdir(entry) and entry not in given]
    used = _folders_of(sys.modules.values())
    return [entry for entry in entries if entry in used and not entry.startswith(_INTERPRETER_PATHS)]


@contextmanager
def extended_python_path(folders: Sequence[str]) -> Iterator[None]:
    """Prepend folders to PYTHONPATH, for child processes that start within the context."""
    before = os.environ.get("PYTHONPATH")
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before


def _folders_of(modules: Iterable[object]) -> set[str]:
    """Return the folders of top-level modules, except for tests, conftest files and families."""
    folders = set()
    for module in list(modules):
        if not isinstance(module, ModuleType) or "." in module.__name__:
            continue
        file = vars(module).get("__file__")
        if not isinstance(file, str) or module.__name__.startswith(FAMILY_MODULE):
            continue
        path = Path(file)
        if path.name == "__init__.py":
            path = path.parent
        if not path.stem.startswith("test_") and path.stem != "conftest":
            folders.add(str(path.parent))
    return folders
