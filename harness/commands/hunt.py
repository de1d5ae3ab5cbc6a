"""`onceproof hunt`: a search for hours, with a page that is written anew while it goes on.

The rules this module lives by:

- Whatever ends a session, Ctrl-C, a kill or an error, the same command goes on from the last stored moment.
- A failure of a new kind is shrunk, explained and stored when it comes; later ones of the kind are counted.
- The page is that of a run. It is one file of less than MOST_PAGE_BYTES, and loads itself anew while the hunt
  goes on.
- No line is stored for each scenario: of a night they would be gigabytes. Any drawn one runs again by its
  seed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.known_failures import KnownSignature, find_known
from onceproof.harness.commands.check import warn_of_mistakes
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family import Family
from onceproof.harness.model.system import reason_against
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.report_builder import (
    build_report,
    failure_of,
    merged,
    time_text,
    write_report,
)
from onceproof.harness.reporting.run_summary import exit_code, summary_document
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.examination import runs_of
from onceproof.harness.trials.failures import examine_failure, identity_of
from onceproof.harness.trials.hunt_state import (
    Finding,
    HuntError,
    HuntState,
    key_of,
    read_state,
    write_state,
)
from onceproof.harness.trials.hunting import Hunt, NewFailure
from onceproof.harness.trials.output_files import claimed_folder
from onceproof.harness.trials.pool import Batch, Done, Start
from onceproof.harness.trials.revisions import engine_version
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import (
    MISTAKES,
    RunResult,
    answers,
    interrupts_held,
    load_families,
    turns_in_a_round,
    usable_processors,
)
from onceproof.harness.trials.trial import SIMULATED, check_family
from onceproof.harness.trials.worker import LoadedRun
from onceproof.reports.headline import conclude, missing_situations, rare_texts
from onceproof.reports.model import Failure, Report, Sizes
from onceproof.reports.render import PAGE_NAME, render
from onceproof.reports.text import counted, duration

STORED_EACH_SECONDS: Final = 10.0
PAGE_EACH_SECONDS: Final = 20
MOST_SHRUNK: Final = 50
"""Kinds of failures; the others are kept as they were found."""
MOST_PAGE_BYTES: Final = 1_000_000
_SHOWN: Final = ((6, 40), (3, 40), (0, 40), (0, 10))
"""How many diagrams and how many failures a page has: as many of both as fit."""


def hunt_command(plan: RunPlan) -> int:
    """Hunt, or go on with the hunt of the folder; print the summary and return the exit code."""
    with claimed_folder(plan.out):
        state = read_state(plan.out)
        if state is not None:
            _check_same(plan, state)
        families = load_families(plan.families)
        for name, family in zip(plan.families, families, strict=True):
            if reason := reason_against(SIMULATED.name, family):
                raise UsageError(f"{name}: {reason}, and a hunt in the simulation: use `onceproof run`")
            check_family(family)
        warn_of_mistakes(plan.families, SIMULATED.name, plan.seed)
        before = state.seconds if state else 0.0
        left = None if plan.max_time is None else max(0.0, plan.max_time - before)
        with progress_bar(None, left) as bar:
            session = _Session(plan, families, state, bar)
            mistake = session.run(left)
            report = session.finish(mistake)
    _print(session.result(), report, plan)
    if mistake is not None:
        raise mistake
    return exit_code(report)


def _check_same(plan: RunPlan, state: HuntState) -> None:
    """Refuse to go on with another hunt."""
    for what, stored, asked in (
        ("seed", str(state.seed), str(plan.seed)),
        ("families", ", ".join(state.names), ", ".join(plan.families)),
    ):
        if stored != asked:
            raise HuntError(
                f"{plan.out}: the {what} of the hunt there: {stored}; now asked: {asked}: give the same ones,"
                " or --out another folder"
            )


class _Session:
    """A hunt from its start, or from where it was stopped, to where it is stopped again."""

    def __init__(self, plan: RunPlan, families: Sequence[Family], state: HuntState | None, bar: Bar) -> None:
        self._plan = plan
        self._families = tuple(families)
        self._bar = bar
        self._before = 0.0 if state is None else state.seconds
        self._sessions = 1 if state is None else state.sessions + 1
        self._started = datetime.now(UTC) if state is None else _moment(state.started)
        self._begun = perf_counter()
        self._workers = plan.workers or usable_processors()
        self._findings = {} if state is None else {key_of(each): each for each in state.findings}
        self._new: deque[NewFailure] = deque()
        self._interrupted = ""
        self._stored_at = self._page_at = self._begun
        assert plan.until_exhausted is not None, "a hunt has a patience"
        turns = turns_in_a_round(families, plan)
        self._hunt = Hunt(families, plan.until_exhausted, bar.warn, state, turns)
        if state is not None:
            bar.warn(
                f"the hunt resumes: {counted(self._hunt.tally.scenarios, 'scenario')} in"
                f" {duration(state.seconds)} so far"
            )
            if state.onceproof != engine_version():
                bar.warn(f"it was started with {state.onceproof} and resumes with {engine_version()}")

    def run(self, left: float | None) -> Exception | None:
        """Run batches for ``left`` seconds; return the error that ended it early, if one did."""
        self._show()
        self._store_page()
        # What the start took is no time of the hunt.
        self._begun = self._stored_at = self._page_at = perf_counter()
        deadline = None if left is None else self._begun + left
        batches = takewhile(lambda _: deadline is None or perf_counter() < deadline, self._hunt.batches())
        try:
            for done in self._answers(batches):
                self._take(done)
        except KeyboardInterrupt:
            self._interrupted = "interrupted from the keyboard"
        except MISTAKES as mistake:
            return mistake
        return None

    def finish(self, mistake: Exception | None) -> Report:
        """Store the hunt, write its page for the last time and return the report."""
        # After an interrupt failures are not shrunk, because the user wants the command to end.
        self._examine(0)
        if mistake is not None:
            self._interrupted = " ".join(str(mistake).split())
        self._bar.describe("writing the report")
        self._store()
        report = self._report(runs=False)
        write_report(report, self._plan.out)
        return report

    def result(self) -> RunResult:
        """Return what came of it, as of a run."""
        return RunResult(
            self._families,
            self._plan.families,
            self._plan.seed,
            self._workers,
            self._hunt.tally,
            seconds=self._seconds(),
            started=self._started,
            interrupted=bool(self._interrupted),
            exhausted=self._hunt.exhausted(),
        )

    def _answers(self, batches: Iterator[Batch]) -> Iterator[Done]:
        plan = self._plan
        start = Start(plan.seed, plan.families, SIMULATED.name, watches=True, budget=plan.budget)
        run = LoadedRun(start, self._families, SimulatedSystem())
        return answers(run, batches, None if plan.workers == 1 else self._workers, self._bar.warn)

    def _take(self, done: Done) -> None:
        # An interrupt in between would count a part of the batch.
        with interrupts_held():
            self._new.extend(self._hunt.take(done))
        self._examine(runs_of(SIMULATED, self._plan.shrink_runs))
        now = perf_counter()
        if now - self._stored_at >= STORED_EACH_SECONDS:
            self._store()
            self._stored_at = now
        if now - self._page_at >= PAGE_EACH_SECONDS:
            self._store_page()
            self._page_at = now
        self._show()

    def _examine(self, most_runs: int) -> None:
        """Shrink, explain and store the failures of new kinds."""
        while self._new:
            new = self._new[0]
            group = self._hunt.tally.groups[new.key]
            most = most_runs if len(self._findings) < MOST_SHRUNK else 0
            case = examine_failure(self.result(), group, new.scenario, self._plan, most, self._bar.describe)
            self._findings[new.key] = Finding(
                first=new.outcome,
                count=1,
                broken={},
                failure=failure_of(case),
                identity=identity_of(case),
            )
            self._new.popleft()
            shown = f"{new.key[0]}: {', '.join(new.key[1])}"
            self._bar.warn(f"{'known' if case.known else 'FAILED'} {shown}: {case.replay}")

    def _counted(self) -> list[Finding]:
        """Return the findings with how often each came."""
        groups = self._hunt.tally.groups
        return [
            replace(
                each,
                count=groups[key].count,
                broken=dict(groups[key].broken),
                failure=_as_known(replace(each.failure, scenarios=groups[key].count), key, self._plan.known),
            )
            for key, each in self._findings.items()
        ]

    def _bugs(self) -> Iterator[Failure]:
        """Yield the findings of one bug as one, which is shown by the smallest of them."""
        same: dict[tuple[str, ...], list[Failure]] = {}
        for each in self._counted():
            key = (*each.identity, str(each.failure.known)) if each.identity else key_of(each)[1]
            same.setdefault((each.failure.family, *key), []).append(each.failure)
        for failures in same.values():
            yield merged(sorted(failures, key=_size))

    def _store(self) -> None:
        """Replace the stored moment by this one."""
        plan, tally = self._plan, self._hunt.tally
        with interrupts_held():
            write_state(
                plan.out,
                HuntState(
                    onceproof=engine_version(),
                    names=list(plan.families),
                    seed=plan.seed,
                    started=self._started.isoformat(),
                    seconds=round(self._seconds(), 3),
                    sessions=self._sessions,
                    families=self._hunt.stored_families(),
                    fired=dict(tally.fired),
                    planned=dict(tally.planned),
                    points=dict(tally.points),
                    rescales=tally.rescales,
                    findings=self._counted(),
                ),
            )

    def _store_page(self) -> None:
        write_report(self._report(runs=True), self._plan.out, refresh_seconds=PAGE_EACH_SECONDS)

    def _report(self, *, runs: bool) -> Report:
        """Return the report of this moment; ``runs``: the hunt goes on."""
        plan = self._plan
        report = build_report(self.result(), (), plan.command, None, plan.known)
        seeds = {each.name: tuple(each.seeds) for each in self._hunt.stored_families()}
        of = "" if plan.max_time is None else f" of {duration(plan.max_time)}"
        state = "running" if runs else "ended" if not self._interrupted else "was stopped"
        others = (
            ("hunt", f"{state} at {time_text(datetime.now(UTC))}: {duration(self._seconds())}{of}"),
            ("sessions", f"{self._sessions}"),
            *report.facts.others,
        )
        return _fitting(
            replace(
                report,
                title=f"Hunt{', running' if runs else ''}",
                interrupted=self._interrupted,
                failures=tuple(self._bugs()),
                families=tuple([replace(each, seeds=seeds[each.family]) for each in report.families]),
                facts=replace(report.facts, trace_hash="", others=others),
                costs=(),
            )
        )

    def _show(self) -> None:
        tally = self._hunt.tally
        text = counted(tally.scenarios, "scenario")
        if tally.scenarios:
            text += f", {duration(tally.scenario_seconds)} each"
        if self._findings:
            text += f", {counted(len(list(self._bugs())), 'finding')}"
        if exhausted := len(self._hunt.exhausted()):
            text += f", {exhausted} of {len(self._families)} families exhausted"
        self._bar.advance(perf_counter() - self._begun, text)

    def _seconds(self) -> float:
        return self._before + perf_counter() - self._begun


def _size(failure: Failure) -> tuple[int, int, int]:
    """Return the size of a failure's small scenario; the one that is read with the least effort is first."""
    after = failure.shrinking.after if failure.shrinking else Sizes()
    return after.faults, after.records, after.schedule


def _as_known(failure: Failure, key: tuple[str, Signature], known: Sequence[KnownSignature]) -> Failure:
    """Return a failure as the settings of this session list it."""
    entry = find_known(known, *key)
    since, why = (entry.since, entry.why) if entry else ("", "")
    return replace(failure, known=entry is not None, known_since=since, known_why=why)


def _fitting(report: Report) -> Report:
    """Return a report whose page is small enough, with the failures that are not known first."""
    failures = sorted(report.failures, key=lambda each: each.known)
    fitted = report
    for diagrams, most in _SHOWN:
        shown = [
            each if place < diagrams else replace(each, trace=None)
            for place, each in enumerate(failures[:most])
        ]
        fitted = replace(report, failures=tuple(shown))
        if left := len(failures) - len(shown):
            more = ("more failures", f"{left} more kinds of failures in the folder failures")
            fitted = replace(fitted, facts=replace(report.facts, others=(*report.facts.others, more)))
        if len(render(fitted).encode()) < MOST_PAGE_BYTES:
            break
    return fitted


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


def _print(result: RunResult, report: Report, plan: RunPlan) -> None:
    if plan.as_json:
        print(msgspec.json.encode(_document(result, report, plan)).decode())
    for line in _lines(result, report, plan.out / PAGE_NAME):
        print(line, file=sys.stderr if plan.as_json else sys.stdout)


def _document(result: RunResult, report: Report, plan: RunPlan) -> dict[str, object]:
    """Return what --json prints: the document of a run, and the findings; its trace hash is null."""
    return summary_document(result, report, plan.out) | {
        "trace_hash": None,
        "findings": [
            {
                "family": each.family,
                "signature": [each.property, each.anomaly],
                "scenarios": each.scenarios,
                "known": each.known,
                "replay": each.replay,
            }
            for each in report.failures
        ],
    }


def _lines(result: RunResult, report: Report, page: Path) -> Iterator[str]:
    for each in report.failures:
        yield (
            f"{'known' if each.known else 'FAILED'} {each.family}: {each.property}, {each.anomaly}, in"
            f" {counted(each.scenarios, 'scenario')}"
        )
        if each.sentence:
            yield f"  {each.sentence}"
        yield f"  {each.replay}"
    yield from report.problems
    yield from (f"never in it: {name}" for name in missing_situations(report))
    yield from rare_texts(report)
    for name, met in sorted(result.exhausted.items()):
        yield f"{name} is exhausted: its last {met.since_new:,} scenarios met nothing new beside {met}"
    headline = conclude(report)
    yield f"{headline.word}. {headline.sentence}"
    tally = result.tally
    cost = f" ({duration(tally.scenario_seconds)} each)" if tally.scenarios else ""
    yield (
        f"{counted(tally.scenarios, 'scenario')} of {counted(len(tally.families), 'family', 'families')} in"
        f" {duration(result.seconds)} on {counted(result.workers, 'worker')}{cost},"
        f" {counted(tally.kills, 'kill')}, {counted(tally.rescales, 'rescale')}"
    )
    if report.interrupted:
        yield "ended early: the same command resumes from here"
    yield f"report: {page}"
