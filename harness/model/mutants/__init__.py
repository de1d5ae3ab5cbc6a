"""Planted engine bugs: the proof that the harness would find a real one.

The rules this package lives by:

- A mutant is a bug that an engine has had, or could well have; where it stands in the history of one, its
  origin names the issue. It never raises an error just to be found: what it breaks must be seen.
- Each names the guarantee it breaks. One that nothing finds is a hole in the harness, and is closed there.
- Mutants wrap the engine's methods instead of repeating them: a change of the engine changes them, too.
- One module a theme: alignment, tasks, completion, recovery, masters (who die alone), redistribution,
  in_flight (unaligned barriers, and counted ones), connected (operators with two inputs), sources, state,
  sharing (files that several checkpoints have), savepoints, timers, sinks, other_sinks (besides two-phase
  commit).
"""

from __future__ import annotations

from onceproof.harness.model.mutants.loading import built_in_mutants, find_mutant, load_mutants
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Mutant, MutantError, Reach, Reached, mutant, mutants_of

__all__ = [
    "Mutant",
    "MutantError",
    "Reach",
    "Reached",
    "built_in_mutants",
    "find_mutant",
    "load_mutants",
    "mutant",
    "mutants_of",
    "replaced",
]
