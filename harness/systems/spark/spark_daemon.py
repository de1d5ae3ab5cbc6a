"""The process on Spark from which all Python workers of a driver under trial are forked.

The rules this module lives by:

- What a worker needs is loaded here, once: a worker that takes the place of a killed one is ready at once.
  Nothing that starts threads may be loaded, for they would not live on in a fork.
- A planted bug is planted here, too, and so in all workers. Which one it is stands in the environment: that
  is all that Spark hands on to this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.daemon import manager

import onceproof.harness.systems.spark.observed_subtask  # noqa: F401

DAEMON: Final = "onceproof.harness.systems.spark.spark_daemon"
_MUTANT: Final = "ONCEPROOF_MUTANT"
_MUTANT_FILE: Final = "ONCEPROOF_MUTANT_FILE"


def variables(mutant: str, mutant_file: str) -> Mapping[str, str]:
    """The environment in which this process plants a bug; nothing where there is none."""
    return {_MUTANT: mutant, _MUTANT_FILE: mutant_file} if mutant else {}


@contextmanager
def planted(mutant: str, mutant_file: str) -> Iterator[None]:
    """Plant a bug, if there is one, for as long as the context lasts."""
    if not mutant:
        yield
        return
    from onceproof.harness.model.mutants import find_mutant

    with find_mutant(mutant, mutant_file or None).applied():
        yield


if __name__ == "__main__":
    with planted(os.environ.get(_MUTANT, ""), os.environ.get(_MUTANT_FILE, "")):
        manager()
