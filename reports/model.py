"""The model of a report: plain values from which the page and JUnit XML are rendered.

The rules this module lives by:

- The model consists of texts, numbers and a Trace; it imports neither engine nor harness.
- Every section may be empty, which means "not part of this run", never "failed".
- The model has no verdict. `reports/headline.py` concludes it, so that a page cannot contradict itself.
- `encode` and `decode` convert it to report.json, so that a page can be rendered again. Unknown fields, wrong
  types and newer versions are refused with one line that names the file and the field.
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
    RefusedFamily,
    ReportStruct,
    Row,
    RowDifference,
    Sensitivity,
    SituationCount,
    Sizes,
    SystemResult,
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
    "RefusedFamily",
    "Report",
    "ReportUnreadable",
    "Row",
    "RowDifference",
    "Sensitivity",
    "Shrinking",
    "SituationCount",
    "Sizes",
    "Symptom",
    "SystemResult",
    "Trace",
    "decode",
    "encode",
]

FORMAT_VERSION = 2
EXPLANATION_TITLE = "Why a scenario fails"
"""The title of a report that explains one failure and reports no run."""


class ReportUnreadable(Exception):
    """A report.json is damaged, is no report, or has a newer format version."""


class Facts(ReportStruct, frozen=True, kw_only=True):
    """The facts of a run: scenarios, seed, versions, machine, system, duration, command."""

    scenarios: int = 0
    seed: int | None = None
    engine_version: str = ""
    """The commit of a checkout, with a `+` for local changes; the version of an installed copy."""
    families_version: str = ""
    """The commits of the repositories that hold the files of the families; empty for built-in ones."""
    started: str = ""
    seconds: float = 0.0
    night_seconds: float = 0.0
    """Duration of the whole night, of which ``seconds`` are the campaign; 0: this is no night."""
    machine: str = ""
    system: str = "simulated"
    workers: int = 0
    trace_hash: str = ""
    command: str = ""
    others: tuple[tuple[str, str], ...] = ()
    """Further facts: (name, text)."""

    @property
    def revision(self) -> str:
        """All code of the run, such as `shop 1a2b3c4, onceproof 0.2.0`."""
        onceproof = self.engine_version
        return f"{self.families_version}, onceproof {onceproof}" if self.families_version else onceproof


class PropertyResult(ReportStruct, frozen=True):
    """In how many scenarios of a family a property held and failed; both zero: it was not checked."""

    property: str
    passed: int = 0
    failed: int = 0
    known: int = 0
    """Failed scenarios with a known signature."""


class FamilyResult(ReportStruct, frozen=True):
    """The results of one family: a row of the table."""

    family: str
    scenarios: int = 0
    failed: int = 0
    properties: tuple[PropertyResult, ...] = ()
    known: int = 0
    """Failed scenarios with a known signature."""
    seconds: float = 0.0
    """Duration of its scenarios, summed over the workers."""
    timers_only_at_end: int = 0
    """The number of its event-time timers, if only the end of the input made any of them fire."""
    notes: dict[str, int] = msgspec.field(default_factory=dict)
    """By what runs have noticed that breaks no property, in how many scenarios."""
    never: dict[str, int] = msgspec.field(default_factory=dict)
    """By what never happened ("expiry/seen/60000"), the number of scenarios in which it might have."""
    system: str = ""
    """The system on which it ran, in a comparison of several; empty in a report of one system."""
    seeds: tuple[int, ...] = ()
    """The first of its scenarios, by seed."""
    replay: str = ""
    """The command that replays a scenario, with SEED in the place of the seed; empty: none does."""
    hit: int | None = None
    """Of a program: in how many scenarios a kill came between its first row and its last."""


class Shrinking(ReportStruct, frozen=True):
    """The sizes of a failing scenario before and after shrinking."""

    before: Sizes
    after: Sizes
    seconds: float = 0.0
    """In reports of earlier versions, which shrank for a time."""
    runs: int = 0
    needed: str = ""
    """Of a scenario that stays large: that it was run without each of its parts."""


class InputRecord(ReportStruct, frozen=True):
    """One record of the shrunk scenario."""

    split: str
    offset: int
    value: Row
    timestamp: int | None = None


class Symptom(ReportStruct, frozen=True):
    """Another signature with which a bug shows."""

    property: str
    anomaly: str
    scenarios: int = 1
    sentence: str = ""
    replay: str = ""


class Failure(ReportStruct, frozen=True, kw_only=True):
    """A finding: one bug, shown by its smallest scenario."""

    family: str
    property: str
    anomaly: str
    """`property` and `anomaly` are the signature: (property, anomaly), or (exception type, function)."""
    replay: str
    """The command that replays it."""
    shrink: str = ""
    """The command that shrinks and explains it again."""
    seed: int | None = None
    scenarios: int = 1
    """Number of scenarios that failed by it, with this signature or another of its symptoms."""
    symptoms: tuple[Symptom, ...] = ()
    """The other signatures with which it shows."""
    known: bool = False
    """The settings list it, so it does not fail the run."""
    known_since: str = ""
    known_why: str = ""
    """The reason in the settings."""
    first_seen: str = ""
    """Date of the first night with one of its signatures; empty if no stored night had any."""
    last_without: str = ""
    """Code of the last night before that, or before this one, whose scenarios of the family had it not."""
    first_with: str = ""
    """Code of the first night with one of its signatures: this one's if no stored night had any."""
    nights_seen: int = 0
    """Number of the ``nights_before`` with one of its signatures."""
    nights_before: int = 0
    sentence: str = ""
    mend: tuple[str, ...] = ()
    """Lines of Python that mend the family, where a mistake of it explains the failure."""
    title: str = ""
    """What stands in place of the signature, where that would accuse a job which may be correct."""
    cause: str = ""
    shrinking: Shrinking | None = None
    records: tuple[InputRecord, ...] = ()
    faults: tuple[str, ...] = ()
    """The faults of the small scenario, each a phrase: `kill count-1 while committing checkpoint 1`."""
    takes: str = ""
    """Which decisions the failure needs, as a sentence; empty: they were not tested."""
    decisions: tuple[Decision, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[RowDifference, ...] = ()
    first_divergence: str = ""
    story: tuple[str, ...] = ()
    recoveries: tuple[str, ...] = ()
    """The recovery from each kill, with its duration; only for systems in real time."""
    notes: tuple[str, ...] = ()
    """The method of the explanation and its limits."""
    also: tuple[str, ...] = ()
    """Other properties that the same scenario violates."""
    trace: Trace | None = None
    system: str = ""
    """The system on which it failed, in a comparison of several; empty in a report of one system."""


class Example(ReportStruct, frozen=True, kw_only=True):
    """A passing scenario with a kill and a rescale, on which the page explains its diagrams."""

    family: str
    trace: Trace
    replay: str = ""
    sentence: str = ""
    story: tuple[str, ...] = ()


class Report(ReportStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The report of a run, a campaign or a night."""

    format_version: int = FORMAT_VERSION
    title: str = "Exactly-once correctness report"
    facts: Facts = Facts()
    problems: tuple[str, ...] = ()
    """Further reasons why the run failed, one sentence each."""
    shortfalls: tuple[str, ...] = ()
    """What a night must have run at the least and has not, each a text without a stop."""
    interrupted: str = ""
    """Why the run ended early; empty if it did not."""
    families: tuple[FamilyResult, ...] = ()
    refused: tuple[RefusedFamily, ...] = ()
    """The families that were not run, because the system cannot run them."""
    failures: tuple[Failure, ...] = ()
    known: tuple[KnownFailure, ...] = ()
    """All signatures that the settings list, whether they occurred or not."""
    example: Example | None = None
    real_inputs: tuple[RealInput, ...] = ()
    coverage: Coverage | None = None
    situations: tuple[SituationCount, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    costs: tuple[Distribution, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    """Experiments, one for each family."""
    nights: tuple[Night, ...] = ()
    """The nights of the history, the oldest first, this one last; empty for other runs."""
    oracles: OracleAgreement | None = None
    comparison: tuple[SystemResult, ...] = ()
    """The rows of a comparison of systems; their verdicts are in ``families``, in the same order."""


def encode(report: Report) -> bytes:
    """Return the report as JSON; equal reports give equal bytes."""
    try:
        text = msgspec.json.encode(report)
    except UnicodeEncodeError:
        # A record contains half a surrogate pair, which UTF-8 cannot encode.
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
    """Return the report of a JSON document. Raises ReportUnreadable, whose message names `path`."""
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
    except RecursionError:
        raise ReportUnreadable(f"{path}: not a report: it is nested too deeply") from None
