"""The runs and nights below a folder, as `onceproof serve` shows them: index, trend, and search of scenarios.

The rules this module lives by:

- What stands below the folder may come from a stranger. It is read, never executed or written; no link is
  followed, and what is larger than a run can leave is left out with its reason.
- A run is a folder with a report.json, found again by its path below the root: a request names a key of the
  index, never a path of its own.
- A folder of `onceproof explain` is no run: it is listed apart, and counts in no trend.
- A file is read again only when it has changed. A search reads the outcomes line by line, for a bounded time.
- Families are those built in, and those that the command line of the server names: the command line in a
  report is shown, not believed.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from onceproof.harness.checkers.outcome import Outcome, OutcomeError, from_line
from onceproof.harness.model.family_places import is_program, split_address
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.reports.headline import conclude
from onceproof.reports.model import EXPLANATION_TITLE, Night, Report, ReportUnreadable, decode
from onceproof.reports.render import MODEL_NAME
from onceproof.reports.served import Hit, RunEntry

FAMILY_OPTION: Final = "--family"
MOST_RUNS: Final = 2000
DEEPEST: Final = 8
LARGEST_REPORT: Final = 64 << 20
LONGEST_LINE: Final = 1 << 20
MOST_HITS: Final = 200
SEARCH_SECONDS: Final = 10.0


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a search asks of a scenario; an empty field asks nothing."""

    run: str = ""
    """The key of a run; scenarios of folders below it count as well."""
    family: str = ""
    property: str = ""
    signature: str = ""
    """A part of "property, anomaly"."""
    seed: str = ""
    fault: str = ""
    """A part of "kind/point" of a fault that struck."""
    situation: str = ""
    verdict: str = ""
    """ "passed" or "failed"."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found."""

    hits: tuple[Hit, ...]
    matches: int
    searched: int
    complete: bool
    """Whether all scenarios were searched in the time that a search has."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A report.json as it was when it was read last."""

    stamp: tuple[int, int]
    entry: RunEntry
    nights: tuple[Night, ...] = ()


@dataclass(slots=True)
class RunCatalogue:
    """The runs below a folder."""

    root: Path
    _read: dict[str, _Read] = field(default_factory=dict)
    _outcomes: dict[str, Path] = field(default_factory=dict)

    def refresh(self) -> tuple[RunEntry, ...]:
        """Look for runs, read those that are new or have changed, and return all, the newest first."""
        read: dict[str, _Read] = {}
        self._outcomes = {}
        for key, folder, names in _folders(self.root):
            if OUTCOMES in names and _is_regular(folder / OUTCOMES):
                self._outcomes[key] = folder / OUTCOMES
            path = folder / MODEL_NAME
            if MODEL_NAME not in names or not _is_regular(path) or len(read) == MOST_RUNS:
                continue
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size
            known = self._read.get(key)
            read[key] = known if known and known.stamp == stamp else _read_run(key, path, stamp)
        self._read = read
        entries = [each.entry for each in read.values()]
        return tuple(sorted(entries, key=lambda entry: entry.started, reverse=True))

    def folder(self, key: str) -> Path | None:
        """Return the folder of a run of the index; None if there is none of that key."""
        return self.root / key if key in self._read else None

    def report(self, key: str) -> Report:
        """Return the report of a run of the index. Raises ReportUnreadable."""
        path = self.root / key / MODEL_NAME
        try:
            return _decoded(path)
        except OSError as error:
            raise ReportUnreadable(f"{path}: cannot be read: {error.strerror or error}") from None

    def family_file(self, key: str, family: str) -> str:
        """Return the file of a family as a run of the index names it; "": it names none, or is not there."""
        if self.folder(key) is None:
            return ""
        try:
            found = [each.replay for each in self.report(key).families if each.family == family]
            words = shlex.split(found[0]) if found else []
        except (ReportUnreadable, ValueError):
            return ""
        named = [after for word, after in pairwise(words) if word == FAMILY_OPTION]
        is_file = bool(named) and (is_program(named[0]) or split_address(named[0])[0] is not None)
        return named[0] if is_file else ""

    def nights(self, first: str = "", last: str = "") -> tuple[Night, ...]:
        """Return the nights of all histories, and the runs besides, from one day to another, oldest first."""
        found: dict[tuple[str, int | None], Night] = {}
        for each in self._read.values():
            for night in each.nights:
                # A night stands in the report of each night after it.
                found.setdefault((night.started, night.seed), night)
        nights = sorted(found.values(), key=lambda night: night.started)
        return tuple(
            night
            for night in nights
            if (not first or night.started[: len(first)] >= first)
            and (not last or night.started[: len(last)] <= last)
        )

    def search(self, query: Query) -> Found:
        """Return the scenarios that match, with the failed ones first."""
        hits: list[Hit] = []
        matches = searched = 0
        deadline = monotonic() + SEARCH_SECONDS
        for key, path in sorted(self._outcomes.items()):
            if query.run and key != query.run and not key.startswith(f"{query.run}/") and query.run != ".":
                continue
            for outcome in _outcomes(path):
                searched += 1
                if matching(query, outcome):
                    matches += 1
                    if len(hits) < MOST_HITS or not outcome.passed:
                        hits.append(_hit(key, outcome))
                if monotonic() > deadline:
                    return Found(_first(hits), matches, searched, complete=False)
        return Found(_first(hits), matches, searched, complete=True)

    def outcome(self, key: str, family: str, seed: int) -> Outcome | None:
        """Return the outcome of a scenario in a folder of the index; None if it is not there."""
        path = self._outcomes.get(key)
        for outcome in () if path is None else _outcomes(path):
            if outcome.seed == seed and outcome.family == family:
                return outcome
        return None


def matching(query: Query, outcome: Outcome) -> bool:
    """Return whether a scenario is what a search asks for."""
    signature = ", ".join(outcome.signature or ())
    return (
        (not query.verdict or (query.verdict == "passed") is outcome.passed)
        and (not query.family or query.family == outcome.family)
        and (not query.seed or query.seed == str(outcome.seed))
        and (not query.signature or query.signature.lower() in signature.lower())
        and (not query.property or any(broken[0] == query.property for broken in outcome.violations))
        and (
            not query.fault or any(query.fault in pair and count for pair, count in outcome.coverage.items())
        )
        and (not query.situation or query.situation in outcome.situations)
    )


def _hit(key: str, outcome: Outcome) -> Hit:
    return Hit(
        run=key,
        family=outcome.family,
        seed=outcome.seed,
        passed=outcome.passed,
        signature=", ".join(outcome.signature or ()),
        records=outcome.records,
        attempts=outcome.attempts,
        checkpoints=outcome.checkpoints,
        steps=outcome.steps,
        faults=tuple(pair for pair, count in outcome.coverage.items() if count),
        situations=outcome.situations,
    )


def _first(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    return tuple(sorted(hits, key=lambda hit: hit.passed)[:MOST_HITS])


def _folders(root: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield key, folder and file names of each folder, without hidden ones and without links."""
    for place, folders, names in os.walk(root, followlinks=False):
        folder = Path(place)
        below = folder.relative_to(root)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(below.parts) >= DEEPEST:
            folders.clear()
        yield below.as_posix(), folder, names


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read_run(key: str, path: Path, stamp: tuple[int, int]) -> _Read:
    try:
        report = _decoded(path)
    except (ReportUnreadable, OSError) as error:
        reason = f"{error.strerror}" if isinstance(error, OSError) else str(error)
        return _Read(stamp, RunEntry(key=key, unreadable=reason))
    headline, facts = conclude(report), report.facts
    if report.title == EXPLANATION_TITLE:
        explained = "; ".join(f"{each.family}: {each.sentence}" for each in report.failures) or "passed"
        return _Read(stamp, RunEntry(key=key, started=facts.started, explained=explained))
    entry = RunEntry(
        key=key,
        title=report.title,
        started=facts.started,
        status=headline.status,
        word=headline.word,
        scenarios=facts.scenarios,
        failed=sum(family.failed for family in report.families),
        families=len(report.families),
        seed=facts.seed,
        engine_version=facts.revision,
        system=facts.system,
        seconds=facts.seconds,
        signatures=tuple(
            f"{failure.family}: {failure.title or f'{failure.property}, {failure.anomaly}'}"
            for failure in report.failures
        ),
    )
    return _Read(stamp, entry, report.nights or ((_as_night(entry, report),) if facts.scenarios else ()))


def _as_night(entry: RunEntry, report: Report) -> Night:
    """Return a run that is no night as a point of the trend."""
    return Night(
        started=entry.started,
        status=entry.status,
        scenarios=entry.scenarios,
        failed=entry.failed,
        known=sum(family.known for family in report.families),
        new_signatures=sum(not failure.known for failure in report.failures),
        broke=entry.signatures[:3],
        seconds=entry.seconds,
        engine_version=entry.engine_version,
        seed=entry.seed,
    )


def _decoded(path: Path) -> Report:
    with path.open("rb") as file:
        text = file.read(LARGEST_REPORT + 1)
    if len(text) > LARGEST_REPORT:
        raise ReportUnreadable(f"{path}: not a report: it is larger than {LARGEST_REPORT:,} bytes")
    return decode(text, path.name)


def _outcomes(path: Path) -> Iterator[Outcome]:
    """Yield the outcomes in a file; a line that is none is left out."""
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                try:
                    yield from_line(line)
                except OutcomeError:
                    continue
    except OSError:
        return


def query_of(asked: Mapping[str, str]) -> Query:
    """Return the search that a request asks for; ValueError names a field that there is not."""
    try:
        return msgspec.convert({name: value.strip() for name, value in asked.items()}, Query)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
