"""Planted bugs of the engine: a file of mutants, how each patches the engine, and how it is undone.

``onceproof mutants --load FILE`` measures how soon scenarios find them.
"""

from __future__ import annotations

from onceproof.harness.model.mutants.loading import find_mutant, load_mutants
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Mutant, MutantError, Reach, Reached, mutant, mutants_of

__all__ = [
    "Mutant",
    "MutantError",
    "Reach",
    "Reached",
    "find_mutant",
    "load_mutants",
    "mutant",
    "mutants_of",
    "replaced",
]
