"""Planted engine bugs: the proof that the harness would find a real one.

The rules this package lives by:

- A mutant is a bug that a real engine had or could have; its origin names the issue, if there is one. It
  never raises an exception only to be found: the checkers must find its consequences.
- Each mutant names the guarantee that it breaks. A mutant that no scenario kills shows a gap in the harness.
- Mutants wrap the engine's methods instead of copying them, so they follow changes of the engine.
- One module for each theme: alignment, tasks, completion, recovery, masters (job masters), late_puts (what
  an object store performs late), databases (what is stored of them), redistribution,
  unions (union list state), in_flight (unaligned barriers, and counted ones), edges (random and custom
  ones), connected (operators with two inputs), sources, endless (input without an end), state, sharing
  (files that several checkpoints have), retention (what the job must keep), savepoints, timers, sinks,
  other_sinks (besides two-phase commit), object_sinks (the file sink in an object store), requests
  (AsyncDataStream), rich_functions (state of functions that are no process functions), user_functions (what
  calls users' functions), windows (windows and idle streams). From the trackers of released engines:
  repeated_recoveries (one recovery after another), ends_of_subtasks, ends_of_jobs (stops and savepoints),
  incomplete_success (a job that says that it has finished, and has not),
  late_answers (of checkpoints that were given up), restored_windows, restored_state. Beside them
  late_messages (the same, and commits that fail as a job is restored).
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
