"""The failure cases of a run: for each family and signature a shrunk scenario, its explanation, and files.

The rules this module lives by:

- One case for each family and signature: the first that failed, shrunk. The others are counted.
- Cases of one family with the same identity are one bug with several symptoms: one finding. ``identity_of``
  alone decides. A cause that further runs have confirmed is the identity; else it is what the failure shrinks
  to: what is wrong, whether that shows after a restore, and the decisions it takes. A failure that was not
  shrunk is known by its signature.
- A finding is shown by its smallest scenario. Each other symptom keeps its scenario, its count and its
  commands, so nothing is hidden where two bugs are taken for one.
- A listed failure and one that is not listed are never one finding: the second must stand out.
- The scenario's JSON is the proof, so both are written, the small one and the one that was found. The name
  holds family and signature and nothing else: the same failure of the next night has the same name.
- Shrinking takes seconds a case, or minutes where runs are real, and there is no limit to the ways in which a
  broken engine can fail: the first ones are shrunk, the others are kept as they are. New ones come before
  those that are known.
- A failure that does not repeat on a system of real processes is described by the violations of its run.
- A scenario that ended its process, or exceeded its budget, would do so here: it is not run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from onceproof.harness.checkers import CONTINUATIONS, Signature
from onceproof.harness.checkers.known_failures import KnownSignature, find_known
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, what_is_wrong
from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.explanation.decisions import DecisionEffects
from onceproof.harness.explanation.descriptions import explain_command, replay_command
from onceproof.harness.explanation.explanation import Explanation, explain, explain_continuation
from onceproof.harness.explanation.visible_run import visible_trace
from onceproof.harness.model.family import Family, Rows
from onceproof.harness.model.history import ATTEMPT_STARTED, History, rows_at_end
from onceproof.harness.model.scenario import Scenario, to_json
from onceproof.harness.model.system import System, let_go
from onceproof.harness.shrinking.reductions import cost_of
from onceproof.harness.shrinking.shrinker import ShrinkResult
from onceproof.harness.trials.evidence import (
    evidence_folder,
    failure_paths,
    keep_evidence,
    sentence_of_outcome,
)
from onceproof.harness.trials.examination import (
    ENDS_ITS_PROCESS,
    INTERRUPTED,
    Examined,
    examine,
    repeats,
    runs_of,
    unexamined,
)
from onceproof.harness.trials.family_mistakes import FamilyMistake
from onceproof.harness.trials.output_files import OutputUnwritable, made_folder, replace_file
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.supervision import is_lost, is_lost_in_generate, without_records
from onceproof.harness.trials.tally import Group
from onceproof.harness.trials.trial import Trial, as_run, scenario_of

Identity: TypeAlias = tuple[str, ...]
"""What makes failures one finding."""

MOST_SHRUNK: Final = 10
MOST_SHRUNK_BY_REAL_RUNS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCase:
    """All scenarios of one family that failed with one signature, and the smallest that still does.

    As a finding it also has the ``others`` that are the same bug.
    """

    family: Family
    signature: Signature
    count: int
    """Number of scenarios of the run that failed so."""
    original: Scenario
    """The first failing scenario, as the system ran it."""
    shrunk: ShrinkResult
    """The small scenario; ``original`` if it was not shrunk."""
    history: History
    """Of the small scenario, with its trace if the system records one; of the job restored from one of its
    checkpoints, where only that one fails."""
    verdict: Verdict
    """Of the small scenario."""
    explanation: Explanation
    path: Path
    """File of the small scenario."""
    replay: str = ""
    """The command that replays the small scenario; empty where its file is not there, and in a test, whose
    command depends on its folder."""
    replay_seed: str = ""
    """The command that replays ``original``; empty if it has no seed."""
    shrink: str = ""
    """The command that shrinks and explains ``original``."""
    takes: DecisionEffects | None = None
    """The effects of its decisions; None if they were not measured."""
    mistake: FamilyMistake | None = None
    """The mistake of the family that explains it; None if it needs a fault or a race."""
    cause: ConfirmedCause | None = None
    """The cause in the user's job that a counterfactual run has confirmed."""
    notes: tuple[str, ...] = ()
    """How the failure was examined, and what remains uncertain."""
    repeated: bool = True
    """Whether the small scenario failed again; if not, ``history`` may be that of a run that passed."""
    known: KnownSignature | None = None
    """The entry of the settings that lists it; None: it is new."""
    others: tuple[FailureCase, ...] = ()
    """The same bug with other signatures; it is not shown by these."""

    @property
    def scenarios(self) -> int:
        """The number of scenarios that failed by this bug, with whatever signature."""
        return self.count + sum(each.count for each in self.others)

    @property
    def title(self) -> str:
        """What failed: the signature, unless it would accuse a job that may be correct."""
        own = "" if self.mistake is None else self.mistake.title
        return own or ", ".join(self.signature)

    @property
    def is_explained(self) -> bool:
        """Whether the cause may be shown: events do not explain a job that may be correct."""
        return self.cause is not None or self.mistake is None or not self.mistake.title

    @property
    def scenario(self) -> Scenario:
        """The small scenario."""
        return self.shrunk.scenario

    @property
    def expected_rows(self) -> Rows:
        """The rows that should have become visible, each as often as it should."""
        counts = PythonOracle(self.family, self.scenario).rows(self.actual_rows, self.history)
        return [row for row, count in counts.items() for _ in range(count)]

    @property
    def actual_rows(self) -> Rows:
        """The rows that became visible."""
        return rows_at_end(self.history)


def findings_of(cases: Sequence[FailureCase]) -> list[FailureCase]:
    """Return one case for each finding, in the order in which they come, with the other symptoms in it.

    A failure whose cause was not confirmed joins the one confirmed cause of those that shrink to the same.
    """
    formed = [(case, _in_family(case, _shrunk_form(case))) for case in cases]
    causes: dict[Identity, set[Identity]] = {}
    for case, form in formed:
        if _confirmed_cause(case):
            causes.setdefault(form, set()).add(identity_of(case))
    found: dict[Identity, list[FailureCase]] = {}
    for case, form in formed:
        alike = causes.get(form, set())
        is_joined = case.takes is not None and len(alike) == 1 and not _confirmed_cause(case)
        found.setdefault(next(iter(alike)) if is_joined else identity_of(case), []).append(case)
    return [_finding(symptoms) for symptoms in found.values()]


def identity_of(case: FailureCase) -> Identity:
    """Return what makes failures one finding."""
    return _in_family(case, _confirmed_cause(case) or _shrunk_form(case) or ("symptom", *case.signature))


def _in_family(case: FailureCase, identity: Identity) -> Identity:
    return (case.family.name, "new" if case.known is None else "known", *identity)


def _confirmed_cause(case: FailureCase) -> Identity:
    """Return the cause that further runs have confirmed; () if none has."""
    if case.cause is not None:
        return ("cause", case.cause.operator, case.cause.what, case.cause.place)
    if case.mistake is not None and case.mistake.title:
        return ("mistake", case.mistake.title)
    return ()


def _shrunk_form(case: FailureCase) -> Identity:
    """Return what the failure has shrunk to; () if that was not measured."""
    if case.takes is None:
        return ()
    restarts = sum(kind == ATTEMPT_STARTED for _, kind, _, _ in case.history.events) > 1
    is_restored = restarts or case.signature[0] in CONTINUATIONS
    where = "after a restore" if is_restored else "before a restore"
    return ("shrunk", *what_is_wrong(case.signature), where, *_needs(case.takes, is_restored))


def _needs(takes: DecisionEffects, is_restored: bool) -> Iterable[str]:
    """Return the kinds of decisions without which every property holds, each once.

    A restore is one, whatever made the job restart. An order of steps beside another decision is only the
    moment at which that strikes.
    """
    kinds = {each.decision.kind for each in takes.decisions if each.effect == "matters"}
    named: set[str] = {kind for kind in kinds if kind != "order"} or set(kinds)
    if is_restored and not kinds & {"restart"}:
        named -= {"fault"}
    return sorted(named - {"restart"})


def _finding(symptoms: list[FailureCase]) -> FailureCase:
    shown = min(symptoms, key=_effort)
    return dataclasses.replace(shown, others=tuple(each for each in symptoms if each is not shown))


def _effort(case: FailureCase) -> tuple[bool, int, bool, int]:
    """Return how hard a case is to read; of equal ones, one that shows its own signature comes first."""
    size = case.shrunk.after
    parts = size.records + size.faults + size.schedule
    return not case.repeated, parts, case.verdict.signature != case.signature, cost_of(case.scenario)


def examine_failures(
    result: RunResult,
    plan: RunPlan,
    progress: Callable[[str], None] = lambda text: None,
    original_of: Callable[[Group], Scenario] | None = None,
    unwritten: list[OutputUnwritable] | None = None,
) -> list[FailureCase]:
    """Shrink, explain and write the first failure of each signature; return the findings, new ones first.

    Args:
        result: that of the run.
        plan: its folder, the listed failures, and in how many runs to shrink each; scenarios go into the
            subfolder FOLDER.
        progress: called with one line before each shrink and each slow run.
        original_of: returns the failing scenario of a group; None if it follows from the seed.
        unwritten: gets the error of each file that cannot be written; None: the first one is raised.
    """
    system = result.system
    most = MOST_SHRUNK if repeats(system) else MOST_SHRUNK_BY_REAL_RUNS
    cases = []
    with let_go(system):
        for number, group in enumerate(sorted(result.tally.groups.values(), key=partial(_known_in, plan))):
            # After an interrupt failures are not shrunk, because the user wants the command to end.
            shrinks = number < most and not result.interrupted
            most_runs = runs_of(system, plan.shrink_runs) if shrinks else 0
            original = original_of(group) if original_of else _of_seed(result, group)
            cases.append(examine_failure(result, group, original, plan, most_runs, progress, unwritten))
    return findings_of(cases)


def examine_failure(
    result: RunResult,
    group: Group,
    original: Scenario,
    plan: RunPlan,
    most_runs: int,
    progress: Callable[[str], None] = lambda text: None,
    unwritten: list[OutputUnwritable] | None = None,
) -> FailureCase:
    """Shrink, explain and write the first failure of a group, in ``most_runs``; see ``examine_failures``."""
    family = result.family(group.first.family)
    text = f"shrinking {family.name}: {', '.join(group.signature)}"
    progress(text)
    if is_lost(group.first):
        examined = unexamined(original, ENDS_ITS_PROCESS)
    elif result.interrupted and not repeats(result.system):
        # A run takes seconds, and the user wants the command to end.
        examined = unexamined(original, INTERRUPTED)
    else:
        examined = examine(
            result.system,
            family,
            original,
            group.signature,
            most_runs,
            lambda run: progress(f"{text}, run {run}"),
        )
        result.interrupted |= examined.was_interrupted
    known = find_known(plan.known, family.name, group.signature)
    asked = result.asked_for(family.name)
    return store_failure(examined, result.system, family, asked, original, plan.out, group, known, unwritten)


def _known_in(plan: RunPlan, group: Group) -> bool:
    return find_known(plan.known, group.first.family, group.signature) is not None


def _of_seed(result: RunResult, group: Group) -> Scenario:
    """Return the first failing scenario of a group, as the system ran it."""
    seed = group.first.seed
    assert seed is not None
    family = result.family(group.first.family)
    if is_lost_in_generate(group.first):
        return without_records(family, seed)
    return as_run(result.system, family, scenario_of(family, seed))


def store_failure(
    examined: Examined,
    system: System,
    family: Family,
    asked: str,
    original: Scenario,
    folder: Path,
    group: Group,
    known: KnownSignature | None = None,
    unwritten: list[OutputUnwritable] | None = None,
) -> FailureCase:
    """Write the scenarios of an examined failure; ``asked`` is the family's name or path as given.

    An error of writing is added to ``unwritten``, and the case has no commands for its files then. Without
    that list it is raised.
    """
    shrunk, trial = examined.shrunk, examined.trial
    seed = original.seed
    paths = failure_paths(folder, family.name, group.signature)
    is_written = True
    try:
        write_scenario(original, paths[1])
        write_scenario(shrunk.scenario, paths[0])
    except OutputUnwritable as error:
        if unwritten is None:
            raise
        unwritten.append(error)
        is_written = False
    history, verdict = (History(), Verdict(())) if trial is None else (trial.shown, trial.verdict)
    is_run = trial is not None and (repeats(system) or examined.repeated)
    if not is_run:
        explanation = Explanation(sentence_of_outcome(group.first), "")
    else:
        assert trial is not None, "a failure that repeats has a trial"
        explanation = explanation_of(trial, examined.cause)
        if history.record is not None and is_written:
            kept = evidence_folder(folder, family.name, group.signature)
            sentence = explanation.sentence
            keep_evidence(kept, system, family, shrunk.scenario, history, group.signature, sentence)
    if history.trace is None and examined.repeated:
        history.trace = visible_trace(history)
    return FailureCase(
        family=family,
        signature=group.signature,
        count=group.count,
        original=original,
        shrunk=shrunk,
        history=history,
        verdict=verdict,
        explanation=explanation,
        path=paths[0],
        replay=replay_command(paths[0], asked, system.name) if is_written else "",
        replay_seed="" if seed is None else replay_command(seed, asked, system.name),
        shrink=explain_command(paths[1], asked, system.name) if is_written else "",
        takes=examined.takes,
        mistake=examined.mistake,
        cause=examined.cause,
        notes=examined.notes,
        repeated=is_run,
        known=known,
    )


def explanation_of(trial: Trial, cause: ConfirmedCause | None = None) -> Explanation:
    """Return the explanation of a trial: of its run, or of the job restored from one of its checkpoints.

    Args:
        cause: the confirmed cause, which stands in place of what the events show.
    """
    explained = _explanation_by_events(trial)
    return explained if cause is None else dataclasses.replace(explained, cause=cause.sentence)


def _explanation_by_events(trial: Trial) -> Explanation:
    history, verdict, continuation = trial.shown, trial.verdict, trial.continuation
    if continuation is None:
        return explain(trial.scenario, history, history.trace, verdict)
    return explain_continuation(
        history, history.trace, verdict, continuation.checkpoint, continuation.parallelism
    )


def write_scenario(scenario: Scenario, path: Path) -> None:
    """Write a scenario into a file of a folder of results, whole; raises OutputUnwritable."""
    made_folder(path.parent)
    replace_file(path, scenario_file(scenario))


def scenario_file(scenario: Scenario) -> bytes:
    """Return the content of a scenario's file."""
    return (to_json(scenario, indent=2) + "\n").encode()
