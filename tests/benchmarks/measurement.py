"""The benchmarks: each a function that measures one thing beside its floor or peer, in the same run.

The rules this module lives by:

- Times differ from machine to machine, ratios hold better: so whatever is measured is measured next to a
  floor (the least that must be done, written by hand) or a peer, and the ratio is what a claim stands on.
- A ratio is ours against the other, and higher is better.
- A benchmark is named here and imported only when it runs: some need a JVM.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from onceproof.harness.model.exit_codes import UsageError


class Measurement(msgspec.Struct, frozen=True):
    """What a benchmark found."""

    name: str
    figures: dict[str, float]
    floors: dict[str, float]
    """What the floors and peers reached, by the same names as in ``figures`` where they can be compared."""
    ratios: dict[str, float]
    machine: str


Benchmark: TypeAlias = Callable[..., Measurement]
"""All parameters have defaults; one named ``large`` adds what takes minutes and gigabytes."""

BENCHMARKS: Final[dict[str, str]] = {
    "simulate": "tests.benchmarks.simulate:measure",
    "local": "tests.benchmarks.local:measure",
    "state": "tests.benchmarks.state:measure",
    "checkpoint": "tests.benchmarks.checkpoint:measure",
    "peers": "tests.benchmarks.peers:measure",
    "windows": "tests.benchmarks.windows:measure",
    "campaign": "tests.benchmarks.campaign:measure",
    "nexmark": "tests.benchmarks.nexmark:measure",
    "sql": "tests.benchmarks.sql:measure",
    "spark": "tests.benchmarks.spark:measure",
    "rescale": "tests.benchmarks.spark_rescale:measure",
    "postgres": "tests.benchmarks.postgres:measure",
    "recover": "tests.benchmarks.recover:measure",
    "kafka": "tests.benchmarks.kafka:measure",
}
"""By name, "module:function"."""


def load_benchmark(name: str) -> Benchmark:
    """Return a benchmark by its name; UsageError where there is none."""
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BENCHMARKS) or 'none yet'}"
        raise UsageError(f"unknown benchmark {name!r}: {hint}")
    module, _, function = BENCHMARKS[name].partition(":")
    benchmark: Benchmark = getattr(importlib.import_module(module), function)
    return benchmark


def has_large_part(benchmark: Benchmark) -> bool:
    """Whether a benchmark has a part that runs only when it is asked for."""
    return "large" in inspect.signature(benchmark).parameters
