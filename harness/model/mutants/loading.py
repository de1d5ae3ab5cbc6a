"""Mutants from a file, all of them or one by its id.

An error in a file is reported in one line with the file and, where there is one, the line in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onceproof.harness.model.mutants.registry import Mutant, MutantError, mutants_of
from onceproof.harness.model.user_file import error_line, import_alone

MUTANTS_MODULE: Final = "onceproof_mutants_"
"""Prefix of the names of the modules that hold a user's mutants."""


def load_mutants(path: str | Path) -> tuple[Mutant, ...]:
    """Return the mutants in a file; MutantError if it cannot be run, or holds none."""
    path = Path(path)
    if not path.is_file():
        raise MutantError(f"{path}: no such file")
    try:
        module = import_alone(path, MUTANTS_MODULE)
        found = mutants_of(module)
    except Exception as error:
        raise MutantError(error_line(path, error, MutantError)) from error
    if not found:
        raise MutantError(f"{path}: holds no mutant: decorate a function with onceproof.mutant")
    return tuple([replace(each, path=str(path)) for each in found])


def find_mutant(mutant_id: str, path: str | Path) -> Mutant:
    """Return a mutant of a file by its id; MutantError if there is none."""
    return mutant_of(mutant_id, load_mutants(path))


def mutant_of(mutant_id: str, mutants: Sequence[Mutant]) -> Mutant:
    """Return the mutant with an id; MutantError with the nearest id if there is none."""
    for each in mutants:
        if each.id == mutant_id:
            return each
    near = difflib.get_close_matches(mutant_id, [each.id for each in mutants], n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    raise MutantError(f"unknown mutant {mutant_id!r}{hint}")
