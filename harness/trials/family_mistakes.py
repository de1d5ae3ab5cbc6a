"""Mistakes of a family that a verdict would blame on the engine, found by runs in which nothing goes wrong.

The rules this module lives by:

- A sound family passes undisturbed: no fault, no request, aligned checkpoints, on a fair and on a random
  schedule, at several parallelisms. What fails there needs no fault, so the family is mended first.
- Rows that are right at the end and wrong at a cut are not determined by the input before the cut. That is
  claimed only if they are wrong as well where everything had arrived before the checkpoint began: there, no
  race inside the engine has part in them. Watermarks may have come or not: both are sound.
- Each mistake names the member to mend, in one sentence, with an example where a member is missing.
- A mistake explains a failure only if the undisturbed run breaks the same property, or already gives wrong
  rows. So a bug that only a fault shows is never excused by another mistake of the family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers import Signature, Violation, state_equivalence
from onceproof.harness.checkers.consistent_cut import WRONG_CUT, ConsistentCut
from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import REPLACED
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.oracle import PythonOracle, count_rows
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.explanation.sentences import row_text, sentence_of
from onceproof.harness.model.family import Family, FamilyError, Rows, options_of, source_file
from onceproof.harness.model.history import TIMER, Cut, rows_at_end
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.comparison_runs import undisturbed_rows
from onceproof.harness.trials.checkpoint_trials import state_differences
from onceproof.harness.trials.faultless_runs import Condition, conditions_of, silences_of, undisturbed
from onceproof.harness.trials.schemas import misfit_of
from onceproof.harness.trials.trial import (
    SIMULATED,
    Trial,
    check_family,
    check_values,
    raise_as_family_error,
    scenario_of,
    try_scenario,
)

PARALLELISMS: Final = (1, 2, 3)
NOT_DETERMINED: Final = "not determined by the input"
ROWS_REPLACED: Final = "rows are replaced, not added"
FEW_SCENARIOS: Final = 10
"""The scenarios of the short check with which a run of a family begins."""

DECLARES: Final = """\
from onceproof import FamilyOptions

options = FamilyOptions(declares=True)

def expected(records, declared):
    # At a cut, timers and windows may still hold rows back: only those that are there are expected.
    return declared.so_far(rows_at_the_end(records))"""
TABLE: Final = """\
def versions(records):
    # All rows that each key may show, one after another.

options = FamilyOptions(table_keys=1, versions=versions, jobs={"structured_streaming": query_of})

def query_of(records, io):
    return io.table(rows, 1, store)  # instead of io.for_each_batch(rows, store)"""
IS_WHOLE: Final = """\
    # At a cut, timers and windows may still hold rows back: only those that are there are expected.
    return declared.so_far(rows)"""


@dataclass(frozen=True, slots=True)
class FamilyMistake:
    """One mistake of a family, with its mend."""

    member: str
    """What to mend: a member of the family or of its options."""
    sentence: str
    example: str = ""
    """Lines of Python that show the mend; empty if the sentence says all."""
    explains: str = ""
    """The property that fails because of it; empty if it explains any failure."""
    title: str = ""
    """What stands in place of a signature that would accuse a job which may be correct."""
    condition: str = ""
    """The condition under which it shows; empty if it shows undisturbed."""


def distinct(mistakes: Iterable[FamilyMistake]) -> list[FamilyMistake]:
    """Return one mistake for each member: where one shows undisturbed, none that needs a condition."""
    found: dict[str, FamilyMistake] = {}
    for mistake in sorted(mistakes, key=lambda each: bool(each.condition)):
        if not (mistake.condition and any(not each.condition for each in found.values())):
            found.setdefault(mistake.member, mistake)
    return list(found.values())


def mistakes_of(
    family: Family, seed: int = 0, scenarios: int = FEW_SCENARIOS, parallelisms: Sequence[int] = ()
) -> list[FamilyMistake]:
    """Return the mistakes of a family, one for each member.

    Args:
        seed: the seed of a run; the scenarios are the first ones of that run, undisturbed.
        parallelisms: at which to run them besides the drawn one.

    Raises:
        FamilyError: the family's own code raised, or its members do not fit together.
    """
    check_family(family)
    drawn = (scenario_of(family, scenario_seed(seed, family.name, number)) for number in range(scenarios))
    return distinct(mistake for each in drawn for mistake in mistakes_in(family, each, parallelisms))


def mistake_behind(family: Family, scenario: Scenario, signature: Signature) -> FamilyMistake | None:
    """Return the mistake of the family that explains a failure; None if it needs a fault or a race.

    Args:
        scenario: the failing scenario.
        signature: how it failed.
    """
    broken = signature[0]
    try:
        if broken == state_equivalence.PROPERTY:
            return next(_state_mistakes(family, scenario), None)
        for mistake in _run_mistakes(family, scenario, PARALLELISMS):
            if mistake.explains in ("", broken):
                return mistake
        if signature == (ConsistentCut.property, WRONG_CUT):
            return _mistake_at_a_cut_of(family, scenario)
    except FamilyError:
        # The family does not accept such a small input, which is another failure.
        pass
    return None


def mistakes_in(family: Family, scenario: Scenario, parallelisms: Sequence[int]) -> Iterator[FamilyMistake]:
    """Yield the mistakes of a family that one scenario of a run shows, undisturbed."""
    assert scenario.seed is not None, "scenarios of a run have seeds"
    where = f"seed {scenario.seed}"
    if scenario_of(family, scenario.seed) != scenario:
        yield FamilyMistake(
            "generate",
            f"{where}: generate() gives other records when it is called again: draw from its argument"
            " only, through Chance, and not from the clock, the module random or the order of a set",
        )
        return
    check_values(family, scenario)
    try:
        misfit = misfit_of(family, scenario)
    except Exception as error:
        raise_as_family_error(family, error, where)
        raise
    if misfit is not None:
        yield FamilyMistake(misfit[0], f"{where}: {misfit[1]}")
    calm = undisturbed(scenario)
    try:
        differing = check_determinism(SIMULATED.run(family, calm), SIMULATED.run(family, calm))
    except Exception as error:
        raise_as_family_error(family, error, where)
        raise
    if differing:
        yield FamilyMistake(
            "job",
            f"{where}: two runs of job() on the same input differ with nothing going wrong: use no clock,"
            " random number, global variable or order of a set in it",
        )
        return
    mistakes = list(_run_mistakes(family, scenario, parallelisms))
    if not mistakes:
        # A failure after a request is shown and explained by the run that the short check begins.
        conditions = conditions_of(family, scenario) if parallelisms else silences_of(scenario)
        mistakes += _faultless_mistakes(family, conditions)
    yield from mistakes
    if not mistakes:
        yield from _state_mistakes(family, scenario)


def _undisturbed_runs(family: Family, scenario: Scenario, parallelisms: Sequence[int]) -> Iterator[Trial]:
    others = [each for each in parallelisms if each <= scenario.max_parallelism]
    variants = [
        undisturbed(scenario, scenario.schedule),
        undisturbed(scenario),
        undisturbed(scenario, Schedule(kind="uniform", seed=1)),
        *(undisturbed(scenario, parallelism=each) for each in others if each != scenario.parallelism),
    ]
    for variant in variants:
        yield try_scenario(family, variant, twice=False, continued=False)


def _run_mistakes(
    family: Family, scenario: Scenario, parallelisms: Sequence[int] = ()
) -> Iterator[FamilyMistake]:
    """Yield the mistake that undisturbed runs of a scenario show, if they show one."""
    trials = list(_undisturbed_runs(family, scenario, parallelisms))
    failed = [trial for trial in trials if not trial.verdict.passed]
    if not failed:
        return
    for trial in failed:
        for violation in trial.verdict.violations:
            if violation.property == ExactlyOnce.property:
                yield _wrong_rows(family, scenario, trials, violation)
                return
    found = [violation for trial in failed for violation in trial.verdict.violations]
    wrong_cut = (ConsistentCut.property, WRONG_CUT)
    others = [violation for violation in found if violation.signature() != wrong_cut]
    for trial in failed if not others else ():
        mistake = _mistake_at_cuts(family, trial)
        if mistake is not None:
            yield mistake
            return
    violation = [*others, *found][0]
    explains = "" if violation.property == NoError.property else violation.property
    yield FamilyMistake("job", f"{_calmly(scenario)} {sentence_of(violation)} Check job().", "", explains)


def _faultless_mistakes(family: Family, conditions: Iterator[Condition]) -> Iterator[FamilyMistake]:
    """Yield the mistake that a run without a fault shows under the first condition in which one fails."""
    has_timers = False
    for condition in conditions:
        if condition.for_times_to_live and has_timers:
            continue
        trial = try_scenario(family, condition.scenario, twice=False, continued=False)
        if not trial.verdict.passed:
            yield _mistake_under(condition, trial.verdict)
            return
        watched = trial.history.statistics.watched
        has_timers = has_timers or any(name.startswith(f"{TIMER}/") for name in watched)


def _mistake_under(condition: Condition, verdict: Verdict) -> FamilyMistake:
    found = verdict.violations
    rows = [each for each in found if each.property == ExactlyOnce.property]
    sentence = sentence_of((*rows, *found)[0])
    where = f"Seed {condition.scenario.seed} fails without a fault, {condition.name}:"
    return FamilyMistake(condition.member, f"{where} {sentence} {condition.remedy}", condition=condition.name)


def _wrong_rows(
    family: Family, scenario: Scenario, trials: Sequence[Trial], violation: Violation
) -> FamilyMistake:
    """Return the mistake of rows that are wrong at the end: they depend on arrival, or are plainly wrong."""
    ends = [count_rows(rows_at_end(trial.history)) for trial in trials]
    other = next((index for index, rows in enumerate(ends) if rows != ends[0]), None)
    if other is None or options_of(family).declares:
        return FamilyMistake(
            "expected", f"{_calmly(scenario)} {sentence_of(violation)} Check job() and expected()."
        )
    rows, others = (
        next((row_text(row) for row in ends[one] if ends[one][row] > ends[two].get(row, 0)), "no other row")
        for one, two in ((0, other), (other, 0))
    )
    return FamilyMistake(
        "declares",
        f"Seed {scenario.seed}: the rows depend on the order in which records arrive: with nothing going"
        f" wrong one run ends with {rows}, another with {others}. Leave out of the rows what arrival decides;"
        " or let the rows say what the run chose, set declares=True, and let expected() check declared.rows.",
        "options = FamilyOptions(declares=True)\n\ndef expected(records, declared):\n"
        "    # For each row of declared.rows: return it if the input allows its choice.",
        title=NOT_DETERMINED,
    )


def _mistake_at_a_cut_of(family: Family, scenario: Scenario) -> FamilyMistake | None:
    """Return the mistake that shows at a cut of a disturbed run, if undisturbed runs have no such cut."""
    trial = try_scenario(family, scenario, twice=False, continued=False)
    if any(violation.property == ExactlyOnce.property for violation in trial.verdict.violations):
        return None
    return _mistake_at_cuts(family, trial)


def _mistake_at_cuts(family: Family, trial: Trial) -> FamilyMistake | None:
    """Return the mistake that the first wrong cut of a run shows whose rows are right at the end."""
    scenario = trial.scenario
    for violation in trial.verdict.violations:
        if violation.signature() != (ConsistentCut.property, WRONG_CUT):
            continue
        cut = violation.witness["cut"]
        for has_watermarks in (True, False):
            rows = undisturbed_rows(family, scenario, cut, has_watermarks)
            held_back = None if rows is None else _held_back(family, scenario, cut, rows)
            if held_back is not None:
                return _undetermined(family, cut, f"has no row {held_back} yet, and expected() asks for it")
        if all(cut.get(split) == len(records) for split, records in scenario.records.items()):
            # The input is read, and what the end of the input gives may be there before the job has finished.
            early = [tuple(row) for row in violation.witness["not of the cut"]]
            oracle = PythonOracle(family, scenario)
            expected = oracle.rows(rows_at_end(trial.history), trial.history)
            if early and all(row in expected for row in early):
                found = f"has row {row_text(early[0])} already, and expected() does not allow it yet"
                return _undetermined(family, cut, found)
    return None


def _held_back(family: Family, scenario: Scenario, cut: Cut, rows: Rows) -> str | None:
    """Return a row that is expected at a cut and not yet there where everything before it has arrived."""
    expected, actual = PythonOracle(family, scenario).rows_at(cut, rows), count_rows(rows)
    return next((row_text(row) for row, count in expected.items() if actual.get(row, 0) < count), None)


def _undetermined(family: Family, cut: Cut, found: str) -> FamilyMistake:
    covered = ", ".join(f"{split} {offset}" for split, offset in cut.items())
    sentence = (
        "Not determined: which rows are there at a cut depends on when timers and windows fire, not on the"
        f" input before it alone. With nothing going wrong, a checkpoint that covers {covered} {found}."
    )
    if options_of(family).declares:
        mend = " Let expected() allow both while declared.is_whole is False."
        return FamilyMistake("is_whole", sentence + mend, IS_WHOLE, ConsistentCut.property, NOT_DETERMINED)
    mend = " Set declares=True, and let expected() allow both while declared.is_whole is"
    return FamilyMistake(
        "declares", f"{sentence}{mend} False.", DECLARES, ConsistentCut.property, NOT_DETERMINED
    )


def _state_mistakes(family: Family, scenario: Scenario) -> Iterator[FamilyMistake]:
    """Yield a mistake if the state at a cut differs between undisturbed runs of a scenario."""
    for schedule in (scenario.schedule, Schedule(kind="uniform", seed=1)):
        for violation in state_differences(family, undisturbed(scenario, schedule)):
            state = violation.witness["places"][0]["state"]
            yield FamilyMistake(
                "arrival_states",
                f"Not determined: what the state {state!r} holds at a cut depends on when watermarks and"
                " records arrive: two runs with nothing going wrong hold different entries. Name it in"
                " arrival_states if its content may depend on that.",
                f"options = FamilyOptions(arrival_states=({state!r},))",
                state_equivalence.PROPERTY,
                NOT_DETERMINED,
            )
            return


def replaced_rows_mistake(verdict: Verdict) -> FamilyMistake | None:
    """Return the mistake of a family that expects rows to be added, and whose sink replaces them by design.

    Args:
        verdict: of a run on another engine, whose output is read from outside.
    """
    found = next((each for each in verdict.violations if each.anomaly == REPLACED), None)
    if found is None:
        return None
    return FamilyMistake(
        "table_keys",
        f"The sink replaces rows: when {found.witness['transaction']} became visible, rows of earlier batches"
        " were gone, and expected() is compared with rows that are only added. If that is how the sink works,"
        " set table_keys and versions, and return io.table(rows, keys, store) from the query.",
        TABLE,
        title=ROWS_REPLACED,
    )


def _calmly(scenario: Scenario) -> str:
    seed = "The scenario" if scenario.seed is None else f"Seed {scenario.seed}"
    return f"{seed} fails with nothing going wrong:"


def place_of(family: Family) -> str:
    """Return what the lines about a family begin with: its file, or its name."""
    return source_file(family) or family.name
