"""Which family a test means, and by which words a command names it in the user's shell.

The rules this module lives by:

- A family is given as a built-in one's name, a path, a module, or an object or class with the members of
  ``Family``; where none is given it is the test's own module.
- A path is meant from the test's folder, else from the root of the tests: where pytest was started from does
  not change what is tested.
- What is printed is meant for the shell: paths as they are typed from where pytest was started.
- What pytest put on the path of modules, a new process lacks. Where modules were imported from there, the
  command sets PYTHONPATH, and so do the processes that a system starts.
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
from onceproof.harness.model.family import (
    FAMILY_MODULE,
    Family,
    FamilyError,
    address_of,
    family_of,
    load_family,
    source_file,
    split_address,
)
from onceproof.harness.model.user_file import module_name_of

FamilyLike: TypeAlias = str | os.PathLike[str] | object
"""A name, a path, a module, or an object or class with the members of a family; None: the test's module."""

_OURS: Final = str(Path(__file__).absolute().parents[2])
_OF_THE_INTERPRETER: Final = (sys.prefix, sys.base_prefix, str(Path(sys.executable).parent))


def find_family(given: FamilyLike, test_module: ModuleType | None, folders: Sequence[Path]) -> Family:
    """Return the family that a test means; FamilyError if there is none. ``folders`` are those of paths."""
    if given is None:
        place = "the test" if test_module is None else _place_of(test_module)
        return family_of(test_module, f"{place}: no family is named, so the test's own module is meant")
    if not isinstance(given, str | os.PathLike):
        return family_of(given, _place_of(given))
    address = os.fspath(given)
    path, attribute = split_address(address)
    if path is None:
        return load_family(address)
    for folder in folders:
        if (folder / path).is_file():
            return load_family(f"{folder / path}:{attribute}" if attribute else str(folder / path))
    looked = " and ".join(str(folder) for folder in dict.fromkeys(folders))
    raise FamilyError(f"{path}: no such file in {looked}")


def _place_of(given: object) -> str:
    if isinstance(given, ModuleType):
        return getattr(given, "__file__", None) or given.__name__
    kind = given if isinstance(given, type) else type(given)
    return f"{kind.__module__}.{kind.__qualname__}"


def typed(path: str | Path, folder: Path) -> str:
    """Return a path as somebody in the folder types it: from there if it is inside, else in full."""
    path = Path(path)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def replay_line(
    family: Family, subject: int | Path, system: str, folder: Path, path_at_start: Sequence[str]
) -> str:
    """Return the command that replays a seed or a file from a folder; empty where none finds the family.

    ``path_at_start`` is where Python looked for modules before pytest added to it.
    """
    try:
        address = address_of(family)
    except FamilyError:
        return ""
    if isinstance(subject, Path):
        subject = Path(typed(subject, folder))
    file, attribute = split_address(address)
    if file is None:
        return replay_command(subject, address, system)
    address = typed(file, folder) + (f":{attribute}" if attribute else "")
    command = replay_command(subject, address, system)
    needed = [typed(entry, folder) for entry in needed_paths(family, path_at_start)]
    return f"PYTHONPATH={shlex.quote(os.pathsep.join(needed))} {command}" if needed else command


def needed_paths(family: Family, path_at_start: Sequence[str]) -> list[str]:
    """Return the folders that modules were imported from and that a new interpreter would not look in."""
    file = source_file(family)
    # Loading a family adds the folder that it is imported from, and onceproof finds itself.
    given = {_OURS, *(os.path.abspath(entry) for entry in path_at_start[1:])}
    given |= set() if file is None else {str(module_name_of(Path(file))[1])}
    entries = [os.path.abspath(entry) for entry in sys.path]
    entries = [entry for entry in dict.fromkeys(entries) if os.path.isdir(entry) and entry not in given]
    used = _folders_of(sys.modules.values())
    return [entry for entry in entries if entry in used and not entry.startswith(_OF_THE_INTERPRETER)]


@contextmanager
def found_by_children(folders: Sequence[str]) -> Iterator[None]:
    """Let the processes that are started meanwhile look for modules in these folders as well."""
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
    """Return the folders in which modules stand that are neither tests, nor set them up, nor families."""
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
