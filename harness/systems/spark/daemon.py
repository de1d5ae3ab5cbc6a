"""The daemon process from which Spark forks the Python workers of a driver under test.

Rules:

- The daemon imports what workers need, so that the successor of a killed worker starts at once. It imports
  nothing that starts threads, because threads do not survive a fork.
- The daemon also plants a bug, and so all workers have it. The bug's name is in the environment, the only
  thing that Spark passes to this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.daemon import manager

import onceproof.harness.systems.spark.observed_subtask  # noqa: F401

DAEMON: Final = "onceproof.harness.systems.spark.daemon"
_MUTANT: Final = "ONCEPROOF_MUTANT"
_MUTANT_FILE: Final = "ONCEPROOF_MUTANT_FILE"


def variables(mutant: str, mutant_file: str) -> Mapping[str, str]:
    """Return the environment variables that name a bug for this process; empty without a bug."""
    return {_MUTANT: mutant, _MUTANT_FILE: mutant_file} if mutant else {}


@contextmanager
def planted(mutant: str, mutant_file: str) -> Iterator[None]:
    """Apply a mutant within the context; an empty name applies none."""
    if not mutant:
        yield
        return
    from onceproof.harness.model.mutants import find_mutant

    with find_mutant(mutant, mutant_file).applied():
        yield


if __name__ == "__main__":
    with planted(os.environ.get(_MUTANT, ""), os.environ.get(_MUTANT_FILE, "")):
        manager()
