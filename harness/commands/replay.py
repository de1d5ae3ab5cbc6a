"""`onceproof replay`: run one scenario again, given by a seed or by its JSON file.

The rules this module lives by:

- A replay uses the same checkers as a run and prints the same trace hash.
- A scenario file replays without the generator. For a family that is not built in, the user names its file.
- The exit code is that of the verdict, so that `git bisect run onceproof replay ...` finds the commit that
  broke a seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.liveness import CIRCLE
from onceproof.harness.checkers.outcome import Outcome, outcome_of
from onceproof.harness.explanation import descriptions as wording
from onceproof.harness.explanation.narrative import align_columns
from onceproof.harness.explanation.shown_lines import UnknownTask, shown_lines
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.exit_codes import FAILED, PASSED, UsageError
from onceproof.harness.model.family import Family, FamilyError, options_of, tasks_with
from onceproof.harness.model.family_places import default_system, family_names, load_family
from onceproof.harness.model.scenario import Scenario, ScenarioError, read_scenario
from onceproof.harness.model.seeds import LARGEST_SEED
from onceproof.harness.model.system import find_system, let_go
from onceproof.harness.settings.planning import budget_of
from onceproof.harness.settings.project_settings import load_settings
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario


def scenario_and_family(subject: str, family: str | None) -> tuple[Scenario, Family]:
    """Return the scenario of a seed or of a JSON file, and its family.

    ``family`` is a name or a path; a seed needs one. Raises UsageError or FamilyError if they do not fit.
    """
    if subject.isdecimal() and not Path(subject).exists():
        if family is None:
            names = ", ".join(family_names())
            raise UsageError(f"a seed belongs to a family: add --family with one of {names}, or a file.py")
        if int(subject) > LARGEST_SEED:
            raise UsageError(f"{subject} is no seed: the largest is {LARGEST_SEED}")
        loaded = load_family(family)
        check_family(loaded)
        return scenario_of(loaded, int(subject)), loaded
    path = Path(subject)
    if path.suffix != ".json" and not path.is_file():
        raise UsageError(
            f"{subject!r} is neither a seed (a whole number of 0 or more) nor a scenario's JSON file"
        )
    scenario = read_scenario(path)
    if family is None:
        if scenario.family not in family_names():
            raise UsageError(
                f"{path}: its family {scenario.family!r} is not built in: add --family with its file.py"
            )
        family = scenario.family
    loaded = load_family(family)
    if loaded.name != scenario.family:
        raise FamilyError(f"{path}: a scenario of family {scenario.family!r}, not of {loaded.name!r}")
    try:
        tasks_with(loaded, scenario.parameters)
    except ValueError as error:
        raise ScenarioError(f"{path}: parameters: {error}") from None
    return scenario, loaded


def scenario_limit() -> AbstractContextManager[None]:
    """Return a context in which a scenario that takes longer than the settings allow is stopped."""
    return seconds_for_each(budget_of(load_settings()).seconds)


def replay_command(
    subject: str,
    family: str | None,
    trace: bool,
    system: str | None,
    as_json: bool,
    tasks: Sequence[str] = (),
    whole: bool = False,
    as_program: bool = False,
) -> int:
    """Run one scenario again, print its verdict, and return the exit code; or print its job as a program.

    Args:
        trace: whether the steps of the run are printed: those of ``tasks``, or of all tasks if there are
            none; without empty checkpoints and what comes behind the failure, unless ``whole``.
        as_program: whether the job is printed, and nothing is run.
    """
    trace = trace or whole or bool(tasks)
    scenario, loaded = scenario_and_family(subject, family)
    if as_program:
        print(_program_of(scenario, loaded), end="")
        return PASSED
    system = system or default_system(loaded)
    on_trial = find_system(system)
    if trace and Capability.TRACE not in on_trial.capabilities:
        raise UsageError(f"system {system!r} records no trace: omit --trace, or use --system simulated")
    with let_go(on_trial), scenario_limit():
        trial = try_scenario(loaded, scenario, trace=trace, system=on_trial)
    scenario = trial.scenario
    outcome = outcome_of(scenario, trial.history, trial.verdict)
    if as_json:
        document = verdict_document(outcome)
        if trace:
            document["trace"] = trial.shown.trace
        print(msgspec.json.encode(document, enc_hook=repr).decode())
        return _code(outcome)
    if trace:
        try:
            lines = shown_lines(trial.shown, trial.verdict.violations, tasks, whole)
        except UnknownTask as error:
            raise UsageError(str(error)) from None
        print(*align_columns(lines), sep="\n", end="\n\n")
    print(wording.scenario_text(scenario))
    for fault in scenario.faults:
        print(f"  {wording.fault_text(fault)}")
    for operation in scenario.asked:
        print(f"  {wording.operation_text(operation)}")
    if needed := wording.needed_text(scenario):
        print(f"  {needed}")
    for line in violation_lines(trial.verdict.violations):
        print(line)
    print(
        f"{'passed' if outcome.passed else 'failed'} after {outcome.steps:,} steps,"
        f" {outcome.attempts} attempts, {outcome.checkpoints} checkpoints"
        + (f"; trace hash {outcome.trace_hash}" if outcome.trace_hash else "")
    )
    return _code(outcome)


def _program_of(scenario: Scenario, family: Family) -> str:
    as_program = options_of(family).as_program
    if as_program is None:
        raise UsageError(
            f"--as-program prints a job that is drawn, and the job of {family.name} is in its file"
        )
    return as_program(scenario.records, scenario.parameters)


def violation_lines(violations: Sequence[Violation]) -> Iterator[str]:
    """Yield the first violation of each signature and the number of further ones."""
    counts = Counter(violation.signature() for violation in violations)
    for violation in violations:
        more = counts.pop(violation.signature(), 0) - 1
        if more < 0:
            continue
        yield f"FAILED {violation.property}, {violation.anomaly}: {violation.where}"
        for name, value in violation.witness.items():
            if name == CIRCLE:
                yield f"  {name}:"
                yield from [f"    {wait}" for wait in value]
            else:
                yield f"  {name}: {value}"
        if more:
            yield f"  and {more:,} more of this kind"


def verdict_document(outcome: Outcome) -> dict[str, Any]:
    """Return the document that `replay --json` prints."""
    return {
        "verdict": "passed" if outcome.passed else "failed",
        "signature": outcome.signature,
        "trace_hash": outcome.trace_hash,
        "violations": [
            {
                "property": broken,
                "anomaly": anomaly,
                "where": where,
                "witness": msgspec.json.decode(witness),
            }
            for broken, anomaly, where, witness in outcome.violations
        ],
    }


def _code(outcome: Outcome) -> int:
    return PASSED if outcome.passed else FAILED
