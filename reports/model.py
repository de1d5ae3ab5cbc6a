"""All that a report needs, as plain values: what a campaign fills in and the page is rendered from.

Rules. The model knows nothing of engine or harness: texts, numbers, and a Trace. Every section may be empty,
and an empty section means "not part of this run", never "failed". Nothing in it says "passed": that is
concluded from the contents (`reports/headline.py`), so that a page cannot contradict itself. `encode` and
`decode` are its JSON, kept as report.json beside index.html, so that a page can be rendered again without the
run; unknown fields, wrong types and newer versions are refused with one line that names the file and the
place.
"""

from __future__ import annotations

import msgspec

from onceproof.reports.sections import (
    Bin,
    Cell,
    Coverage,
    CoverageCell,
    Decision,
    DifferenceMark,
    Distribution,
    Drivers,
    Influence,
    KnownFailure,
    Mutant,
    Night,
    OracleAgreement,
    RealInput,
    RealKill,
    Row,
    RowDifference,
    Sensitivity,
    Sizes,
    Value,
)
from onceproof.reports.text import visible
from onceproof.reports.trace import Arrow, Attempt, Kill, Mark, Trace

__all__ = [
    "Arrow",
    "Attempt",
    "Bin",
    "Cell",
    "Coverage",
    "CoverageCell",
    "Decision",
    "DifferenceMark",
    "Distribution",
    "Drivers",
    "Example",
    "Facts",
    "Failure",
    "FamilyResult",
    "Influence",
    "InputRecord",
    "Kill",
    "KnownFailure",
    "Mark",
    "Mutant",
    "Night",
    "OracleAgreement",
    "PropertyResult",
    "RealInput",
    "RealKill",
    "Report",
    "ReportUnreadable",
    "Row",
    "RowDifference",
    "Sensitivity",
    "Shrinking",
    "Sizes",
    "Trace",
    "decode",
    "encode",
]

FORMAT_VERSION = 2


class ReportUnreadable(Exception):
    """A report.json that is damaged, foreign, or of a newer version."""


class Facts(Value, frozen=True, kw_only=True):
    """What was run, on what, and for how long."""

    scenarios: int = 0
    seed: int | None = None
    engine_version: str = ""
    started: str = ""
    seconds: float = 0.0
    machine: str = ""
    system: str = "simulated"
    workers: int = 0
    trace_hash: str = ""
    command: str = ""
    others: tuple[tuple[str, str], ...] = ()
    """Further facts worth a line: (name, text)."""


class PropertyResult(Value, frozen=True):
    """How often one property held and failed in one family; both zero: it was not checked."""

    property: str
    passed: int = 0
    failed: int = 0
    known: int = 0
    """In how many of those that failed it did so with a signature that is known."""


class FamilyResult(Value, frozen=True):
    """One row of the table of results."""

    family: str
    scenarios: int = 0
    failed: int = 0
    properties: tuple[PropertyResult, ...] = ()
    known: int = 0
    """How many of those that failed did so with a signature that is known."""
    seconds: float = 0.0
    """What its scenarios took, summed over the workers."""


class Shrinking(Value, frozen=True):
    """What shrinking made of a failing scenario."""

    before: Sizes
    after: Sizes
    seconds: float = 0.0
    runs: int = 0


class InputRecord(Value, frozen=True):
    """One record of the shrunk scenario."""

    split: str
    offset: int
    value: Row
    timestamp: int | None = None


class Failure(Value, frozen=True, kw_only=True):
    """One way in which a guarantee broke: a signature, with its smallest scenario."""

    family: str
    property: str
    anomaly: str
    """`property` and `anomaly` are the signature: (property, anomaly), or (exception type, function)."""
    replay: str
    """The command that replays it."""
    shrink: str = ""
    """The command that shrinks it again."""
    seed: int | None = None
    scenarios: int = 1
    """How many scenarios failed with this signature."""
    known: bool = False
    """Listed in the settings: it does not fail the run."""
    known_since: str = ""
    known_why: str = ""
    """What the settings say of it."""
    first_seen: str = ""
    """The date of the first night that had it; empty: no night before had it, or none is kept."""
    nights_seen: int = 0
    """In how many of ``nights_before`` it was seen."""
    nights_before: int = 0
    sentence: str = ""
    cause: str = ""
    shrinking: Shrinking | None = None
    records: tuple[InputRecord, ...] = ()
    faults: tuple[str, ...] = ()
    """The faults that are left, one in a phrase: `kill count-1 while committing checkpoint 1`."""
    takes: str = ""
    """What the decisions come to, in a sentence; empty: they were not weighed."""
    decisions: tuple[Decision, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[RowDifference, ...] = ()
    first_divergence: str = ""
    story: tuple[str, ...] = ()
    recoveries: tuple[str, ...] = ()
    """How the job came back from each death, in seconds; only where time is real."""
    notes: tuple[str, ...] = ()
    """What is to be known of how this was found out, and what it cannot tell."""
    also: tuple[str, ...] = ()
    """Further properties that the same scenario violates."""
    trace: Trace | None = None


class Example(Value, frozen=True, kw_only=True):
    """A passing scenario with a kill and a rescale: it teaches reading the diagram."""

    family: str
    trace: Trace
    replay: str = ""
    sentence: str = ""
    story: tuple[str, ...] = ()


class Report(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One night's report."""

    format_version: int = FORMAT_VERSION
    title: str = "Exactly-once correctness report"
    facts: Facts = Facts()
    problems: tuple[str, ...] = ()
    """What else went wrong and fails the night, one sentence each."""
    interrupted: str = ""
    """Why the run ended early; empty: it did not."""
    families: tuple[FamilyResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    known: tuple[KnownFailure, ...] = ()
    """All signatures that the settings list, whether they occurred or not."""
    example: Example | None = None
    real_inputs: tuple[RealInput, ...] = ()
    coverage: Coverage | None = None
    mutants: tuple[Mutant, ...] = ()
    costs: tuple[Distribution, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    """Experiments, one for each family that was studied."""
    nights: tuple[Night, ...] = ()
    """The nights that are kept, the oldest first, this one the last; empty: this was no night."""
    oracles: OracleAgreement | None = None


def encode(report: Report) -> bytes:
    """The report as JSON, the same bytes for the same report."""
    try:
        text = msgspec.json.encode(report)
    except UnicodeEncodeError:
        # Half a surrogate pair, from a record of somebody's: JSON in UTF-8 cannot carry it.
        text = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(report)))
    return msgspec.json.format(text, indent=1) + b"\n"


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return visible(value) if any("\ud800" <= character <= "\udfff" for character in value) else value
    if isinstance(value, dict):
        return {key: _without_surrogates(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(member) for member in value]
    return value


class _Version(msgspec.Struct):
    format_version: int


def decode(text: bytes | str, path: str) -> Report:
    """Read a report's JSON; `path` is only for the message when that cannot be done."""
    try:
        version = msgspec.json.decode(text, type=_Version).format_version
        if version > FORMAT_VERSION:
            raise ReportUnreadable(
                f"{path}: report of format version {version}, but this onceproof reads up to"
                f" {FORMAT_VERSION}: render it with the version that wrote it"
            )
        return msgspec.json.decode(text, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportUnreadable(f"{path}: not a report: {error}") from None
