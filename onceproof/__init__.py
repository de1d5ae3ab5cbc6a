"""Onceproof: property-based fault injection for stateful stream jobs, and the engine that it puts on trial.

The names below and those of ``onceproof.engine`` are the public interface; all other modules are private.
Python imports a name when it is first used, so that ``import onceproof.engine`` does not load the harness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceproof.harness.model.chance import Chance
    from onceproof.harness.model.columns import OrderedBy
    from onceproof.harness.model.family import Family, FamilyError, FamilyOptions, JobIO, Workload
    from onceproof.harness.model.family_places import load_family
    from onceproof.harness.model.mutants import Mutant, MutantError, Reached, mutant, replaced
    from onceproof.harness.testing.plugin import exactly_once

__all__ = [
    "Chance",
    "Family",
    "FamilyError",
    "FamilyOptions",
    "JobIO",
    "Mutant",
    "MutantError",
    "OrderedBy",
    "Reached",
    "Workload",
    "exactly_once",
    "load_family",
    "mutant",
    "replaced",
]

_MODULES: Final = {
    "Chance": "onceproof.harness.model.chance",
    "Family": "onceproof.harness.model.family",
    "FamilyError": "onceproof.harness.model.family",
    "FamilyOptions": "onceproof.harness.model.family",
    "JobIO": "onceproof.harness.model.family",
    "Mutant": "onceproof.harness.model.mutants",
    "MutantError": "onceproof.harness.model.mutants",
    "OrderedBy": "onceproof.harness.model.columns",
    "Reached": "onceproof.harness.model.mutants",
    "Workload": "onceproof.harness.model.family",
    "exactly_once": "onceproof.harness.testing.plugin",
    "load_family": "onceproof.harness.model.family_places",
    "mutant": "onceproof.harness.model.mutants",
    "replaced": "onceproof.harness.model.mutants",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
