"""The parts of a report besides its failures: input, coverage, mutants, costs, experiments, trend, systems.

`reports/model.py` exports these classes and states their rules.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = tuple[Cell, ...]
Effect: TypeAlias = Literal["matters", "changes", "idle"]
DifferenceMark: TypeAlias = Literal["equal", "lost", "duplicated", "phantom", "wrong value"]


LEAST_Q2 = 0.5
"""Smallest cross-validated Q² with which a model of a cost is shown."""


class ReportStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the model: immutable; unknown fields are errors; defaults are omitted from the JSON."""


class Sizes(ReportStruct, frozen=True):
    """The size of a scenario: its records, faults and schedule choices."""

    records: int = 0
    faults: int = 0
    schedule: int = 0


class RowDifference(ReportStruct, frozen=True):
    """One row as expected and as committed; a side without the row is null."""

    mark: DifferenceMark
    expected: Row | None = None
    actual: Row | None = None
    times: int = 1
    """Number of equal, missing or surplus rows."""


class RealKill(ReportStruct, frozen=True, kw_only=True):
    """One kill of a real job, and its recovery."""

    point: str
    task: str = ""
    checkpoint: int | None = None
    """The checkpoint from which it recovered; null: from the start."""
    position: int | None = None
    """Number of records read before the kill."""
    replayed: int | None = None
    recovery_seconds: float | None = None
    parallelism_before: int = 0
    parallelism_after: int = 0


class RealInput(ReportStruct, frozen=True, kw_only=True):
    """A real data set, processed under real kills and compared with an oracle row by row."""

    name: str
    source: str = ""
    """The origin of the data, as a sentence."""
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
    """Why the rows could not be compared; empty if they were."""
    command: str = ""


class Decision(ReportStruct, frozen=True):
    """One decision of a failing scenario, and the effect of removing it."""

    text: str
    effect: Effect
    otherwise: str = ""
    """The signature without the decision, if it is another one: `fencing, zombie commit`."""


class CoverageCell(ReportStruct, frozen=True):
    """One fault kind at one protocol point: how often it was planned, and how often it fired."""

    kind: str
    point: str
    planned: int = 0
    fired: int = 0


class Coverage(ReportStruct, frozen=True):
    """The table of fault kinds by protocol points; an impossible pair has no cell."""

    cells: tuple[CoverageCell, ...] = ()
    points: tuple[str, ...] = ()
    """The order of the points; further points follow in the order of the cells."""
    required: bool = False
    """The campaign is so large that a pair that never fired fails it."""


class SituationCount(ReportStruct, frozen=True):
    """One situation, a pattern of a run's history: in how many scenarios it was, and where to find more."""

    name: str
    purpose: str
    """Which bugs show there."""
    scenarios: int = 0
    family: str = ""
    """The family that was in it most often; where none was, the one that can be."""
    required: bool = False
    """The campaign is so large, and has the families, that it fails without the situation."""
    rare: bool = False
    """The campaign is so large that this is a warning: too few of its scenarios were in the situation."""


class Mutant(ReportStruct, frozen=True, kw_only=True):
    """A planted bug, with the fields of `onceproof mutants --json`."""

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


class Bin(ReportStruct, frozen=True):
    """The number of values in [low, high); the last bin of a distribution includes its end."""

    low: float
    high: float
    count: int


class Distribution(ReportStruct, frozen=True, kw_only=True):
    """The distribution of a cost over the scenarios; `reports/summaries.py` computes one from values."""

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


class Influence(ReportStruct, frozen=True):
    """The share of a cost's variance that one parameter explains, alone and with its interactions."""

    parameter: str
    first_order: float
    total: float
    note: str = ""
    """The cost at a low and at a high value of the parameter, as a text."""


class Drivers(ReportStruct, frozen=True, kw_only=True):
    """The parameters that drive one cost; shown only if the model has a Q² of LEAST_Q2 or more."""

    cost: str
    sentence: str
    """The main driver in plain words, without statistics."""
    q2: float | None = None
    """Cross-validated share of the variance that the model predicts; null: the cost does not vary."""
    chance: float | None = None
    """The share of the variance that is chance."""
    mean: float = 0.0
    unit: str = ""
    meaning: str = ""
    degree: int = 0
    """Degree of the polynomial."""
    influences: tuple[Influence, ...] = ()

    @property
    def is_explained(self) -> bool:
        """Whether the model predicts well enough to show its influences."""
        return self.q2 is not None and self.q2 >= LEAST_Q2


class Sensitivity(ReportStruct, frozen=True, kw_only=True):
    """An experiment with one family that measures which parameters drive the costs."""

    family: str
    seed: int = 0
    scenarios: int = 0
    points: int = 0
    """Number of parameter settings, each with the same number of scenarios."""
    failed: int = 0
    """Failed scenarios; the costs leave them out."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """The varied parameters: (name, meaning, range)."""
    drivers: tuple[Drivers, ...] = ()
    command: str = ""


class KnownFailure(ReportStruct, frozen=True, kw_only=True):
    """A signature that the settings list as known, so that it does not fail a run."""

    family: str
    property: str
    anomaly: str
    since: str = ""
    why: str = ""
    scenarios: int = 0
    """Number of scenarios of this run with the signature."""
    of: int = 0
    """Number of scenarios of the family; 0: the family did not run."""
    nights_without: int = 0
    """Number of nights in a row before this one without the signature."""


class Night(ReportStruct, frozen=True, kw_only=True):
    """One night of the trend."""

    started: str
    status: str = "passed"
    """The verdict of its report."""
    scenarios: int = 0
    failed: int = 0
    known: int = 0
    """Failed scenarios with a known signature."""
    new_signatures: int = 0
    """Number of signatures that are neither known nor seen before."""
    broke: tuple[str, ...] = ()
    """The first signatures of the failures, each a phrase."""
    broke_otherwise: int = 0
    """Number of further signatures."""
    seconds: float = 0.0
    """Duration of the campaign."""
    night_seconds: float = 0.0
    """Duration of the whole night."""
    engine_version: str = ""
    seed: int | None = None
    records_replayed: float | None = None
    """Median over the scenarios in which the job restarted."""
    recovery_steps: float | None = None
    """Median over the same scenarios."""
    mutants_tried: int = 0
    mutants_killed: int = 0


class RefusedFamily(ReportStruct, frozen=True):
    """A built-in family that the system of a run cannot run, where all were asked for."""

    family: str
    reason: str


class SystemResult(ReportStruct, frozen=True, kw_only=True):
    """One system of a comparison: what a family's scenarios, the same on each system, did and cost there."""

    name: str
    """The name of its row: the system, with the family before it if several are compared."""
    family: str
    system: str
    scenarios: int = 0
    failed: int = 0
    known: int = 0
    """Failed scenarios with a known signature."""
    kills: int = 0
    not_applicable: int = 0
    """Planned faults that the system cannot inject."""
    recoveries: int = 0
    """Number of kills for which the time to the first new rows was measured."""
    recovery_seconds: float | None = None
    """Median over these; null: not measured."""
    worst_recovery_seconds: float | None = None
    records_replayed: float | None = None
    """Median of the records read again, over the scenarios in which the job restarted; null: not measured."""
    scenario_milliseconds: float | None = None
    """Run time of a scenario, on average."""
    waiting_share: float | None = None
    """The share of it that was spent waiting for processes, clusters and servers; null: not measured."""


class OracleAgreement(ReportStruct, frozen=True, kw_only=True):
    """The comparison of two independently written oracles on the same scenarios."""

    scenarios: int
    disagreed: int = 0
    seconds: float | None = None
    first: str = "Python"
    second: str = "Spark SQL"
    witnesses: tuple[str, ...] = ()
