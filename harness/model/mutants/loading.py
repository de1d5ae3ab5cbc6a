"""Where mutants come from: the built-in modules, and files of somebody's own.

A file is run as a module, which does what the file says: loading a mutant is trusting it. Whatever is wrong
with a file is said in one line that names the file and, where there is one, the line in it.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from onceproof.harness.model.mutants.registry import Mutant, MutantError, mutants_of

THEMES: Final = (
    "alignment",
    "tasks",
    "completion",
    "recovery",
    "masters",
    "redistribution",
    "in_flight",
    "connected",
    "sources",
    "state",
    "sharing",
    "savepoints",
    "timers",
    "sinks",
    "other_sinks",
)


@cache
def built_in_mutants() -> tuple[Mutant, ...]:
    """Return the mutants that come with onceproof, by theme; their ids differ."""
    found: dict[str, Mutant] = {}
    for theme in THEMES:
        for each in mutants_of(importlib.import_module(f"onceproof.harness.mutants.{theme}")):
            if each.id in found:
                raise MutantError(f"two mutants have the id {each.id!r}: an id names one")
            found[each.id] = each
    return tuple(found.values())


def load_mutants(path: str | Path) -> tuple[Mutant, ...]:
    """Return the mutants in a file; MutantError if it cannot be run, or holds none."""
    path = Path(path)
    if not path.is_file():
        raise MutantError(f"{path}: no such file")
    module_name = f"onceproof_mutants_{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise MutantError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up here while the file still runs.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
        found = mutants_of(module)
    except Exception as error:
        del sys.modules[module_name]
        line = _line_in(specification.origin, error)
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        kind = "" if isinstance(error, MutantError) else f"{type(error).__name__}: "
        raise MutantError(f"{path}:{line}: {kind}{' '.join(said.split())}") from error
    if not found:
        raise MutantError(f"{path}: holds no mutant: decorate a function with onceproof.mutant")
    return tuple([replace(each, path=str(path)) for each in found])


def find_mutant(mutant_id: str, path: str | None = None) -> Mutant:
    """Return a mutant by its id, from a file or from the built-in ones; MutantError if there is none."""
    mutants = built_in_mutants() if path is None else load_mutants(path)
    for each in mutants:
        if each.id == mutant_id:
            return each
    near = difflib.get_close_matches(mutant_id, [each.id for each in mutants], n=1)
    hint = f"did you mean {near[0]}?" if near else "`onceproof mutants` lists them"
    raise MutantError(f"unknown mutant {mutant_id!r}: {hint}")


def _line_in(origin: str | None, error: Exception) -> int:
    """Return the line of the file at which an error was raised or found, the deepest one of that file."""
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == origin), 1)
