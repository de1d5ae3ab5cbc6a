"""The parts of a report beyond its verdict and its failures: real input, coverage, mutants, costs, trend.

The rules are those of `reports/model.py`, through which everything here is imported.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = tuple[Cell, ...]
Effect: TypeAlias = Literal["matters", "changes", "idle"]
DifferenceMark: TypeAlias = Literal["equal", "lost", "duplicated", "phantom", "wrong value"]


LEAST_Q2 = 0.5
"""What predicts less of a cost explains nothing."""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base of every part: immutable, strict about its fields, short as JSON."""


class Sizes(Value, frozen=True):
    """How big a scenario is."""

    records: int = 0
    faults: int = 0
    schedule: int = 0


class RowDifference(Value, frozen=True):
    """One row, as it should be and as it was; a side that has no such row is null."""

    mark: DifferenceMark
    expected: Row | None = None
    actual: Row | None = None
    times: int = 1
    """How many such rows there are too many, too few, or equal."""


class RealKill(Value, frozen=True, kw_only=True):
    """One death of a real job, and its recovery."""

    point: str
    task: str = ""
    checkpoint: int | None = None
    """The checkpoint from which it recovered; null: from the start."""
    position: int | None = None
    """How many records had been read when it died."""
    replayed: int | None = None
    recovery_seconds: float | None = None
    parallelism_before: int = 0
    parallelism_after: int = 0


class RealInput(Value, frozen=True, kw_only=True):
    """A real data set, run through a real runtime under real kills, compared with an oracle row by row."""

    name: str
    source: str = ""
    """Where the data comes from, in a sentence."""
    runtime: str = ""
    oracle: str = ""
    records: int = 0
    kills: tuple[RealKill, ...] = ()
    rescales: int = 0
    checkpoints: int = 0
    seconds: float = 0.0
    rows_expected: int = 0
    rows_actual: int = 0
    rows_different: int = 0
    columns: tuple[str, ...] = ()
    differences: tuple[RowDifference, ...] = ()
    error: str = ""
    """Why it did not come to a comparison."""
    command: str = ""


class Decision(Value, frozen=True):
    """One decision of a failing scenario, and what became of the scenario without it."""

    text: str
    effect: Effect
    otherwise: str = ""
    """How it fails without the decision, where it fails in another way: `fencing, zombie commit`."""


class CoverageCell(Value, frozen=True):
    """One fault kind at one protocol point: in how many places it was planned, and how often it fired."""

    kind: str
    point: str
    planned: int = 0
    fired: int = 0


class Coverage(Value, frozen=True):
    """Fault kinds by protocol points; a pair that makes no sense has no cell."""

    cells: tuple[CoverageCell, ...] = ()
    points: tuple[str, ...] = ()
    """The order of the points; points that it does not name follow as they appear."""
    required: bool = False
    """The campaign is big enough that a pair that never fired fails it."""


class Mutant(Value, frozen=True, kw_only=True):
    """A planted bug, as `onceproof mutants --json` writes it."""

    id: str
    origin: str = ""
    breaks: str = ""
    reached: bool | int = False
    killed: bool = False
    property: str | None = None
    scenarios: int | None = None
    shrunk: Sizes | None = None
    seconds: float = 0.0
    summary: str = ""


class Bin(Value, frozen=True):
    """How many values lie in [low, high); the last bin of a distribution includes its end."""

    low: float
    high: float
    count: int


class Distribution(Value, frozen=True, kw_only=True):
    """How a cost of recovery spreads over the scenarios (`reports/summaries.py` makes one from values)."""

    name: str
    unit: str
    count: int
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    percentile_95: float
    maximum: float
    bins: tuple[Bin, ...] = ()
    note: str = ""


class Influence(Value, frozen=True):
    """How much of a cost's variance one parameter explains, alone and in all its interactions."""

    parameter: str
    first_order: float
    total: float
    note: str = ""
    """What the cost is where the parameter is low and where it is high, in words."""


class Drivers(Value, frozen=True, kw_only=True):
    """What one cost follows from; shown only where the model predicts (Q² of LEAST_Q2 or more)."""

    cost: str
    sentence: str
    """What drives it, for somebody who has never heard of variances."""
    q2: float | None = None
    """The share of the variance that is predicted for scenarios left out; null: nothing varied."""
    chance: float | None = None
    """The share of the variance that is chance."""
    mean: float = 0.0
    unit: str = ""
    meaning: str = ""
    degree: int = 0
    """Of the polynomial that predicts."""
    influences: tuple[Influence, ...] = ()

    @property
    def is_explained(self) -> bool:
        """Whether the influences may be believed."""
        return self.q2 is not None and self.q2 >= LEAST_Q2


class Sensitivity(Value, frozen=True, kw_only=True):
    """An experiment with one family: which scenario parameters drive its costs."""

    family: str
    seed: int = 0
    scenarios: int = 0
    points: int = 0
    """Settings of all parameters that were tried, each with as many scenarios as the others."""
    failed: int = 0
    """Scenarios in which a property failed; they do not count for the costs."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """What was varied: (name, what it is, from where to where)."""
    drivers: tuple[Drivers, ...] = ()
    command: str = ""


class KnownFailure(Value, frozen=True, kw_only=True):
    """A signature that the settings list: it fails no run, and is to be taken out once it is mended."""

    family: str
    property: str
    anomaly: str
    since: str = ""
    why: str = ""
    scenarios: int = 0
    """In how many scenarios of this run it occurred."""
    of: int = 0
    """How many scenarios of its family there were; none: this run says nothing of it."""
    nights_without: int = 0
    """How many nights before this one, one after another, did without it."""


class Night(Value, frozen=True, kw_only=True):
    """One night of the trend."""

    started: str
    status: str = "passed"
    """The verdict of its report."""
    scenarios: int = 0
    failed: int = 0
    known: int = 0
    """How many of those that failed did so with a known signature."""
    new_signatures: int = 0
    """Ways to fail that were neither known nor seen before."""
    broke: tuple[str, ...] = ()
    """Some of the signatures it failed with, each in a phrase."""
    broke_otherwise: int = 0
    """How many more there were."""
    seconds: float = 0.0
    """What the campaign took."""
    night_seconds: float = 0.0
    """What the whole night took."""
    engine_version: str = ""
    seed: int | None = None
    records_replayed: float | None = None
    """The median, over the scenarios in which the job had to start again."""
    recovery_steps: float | None = None
    """The median over the same."""
    mutants_tried: int = 0
    mutants_killed: int = 0


class OracleAgreement(Value, frozen=True, kw_only=True):
    """Two oracles, written apart, over the same scenarios."""

    scenarios: int
    disagreed: int = 0
    seconds: float | None = None
    first: str = "Python"
    second: str = "Spark SQL"
    witnesses: tuple[str, ...] = ()
