"""`onceproof check`: run families with nothing going wrong, and name what is to be mended in them.

The rules this module lives by:

- Each mistake is one line: the file, the member, what is wrong and how to mend it. An example follows it.
- Scenarios are checked in a process of their own, so one that never answers is a mistake as well.
- Of a program nothing is simulated: its control run is made.
- `run` begins with a short form of it, without Spark, for families in files that have not passed it yet. Its
  findings are warnings: the run goes on, and its failures name them again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from onceproof.engine.extras import SPARK, ExtraMissing, require
from onceproof.harness.commands.script_options import print_notes, print_notes_on
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import split_address
from onceproof.harness.model.program_family import SYSTEM as PROGRAMS
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_measures import Measured
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.model.system import capabilities_of, find_system, let_go
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.trials.control_runs import learned
from onceproof.harness.trials.family_mistakes import PARALLELISMS, FamilyMistake
from onceproof.harness.trials.runner import load_families
from onceproof.harness.trials.sound_families import is_known_sound, note_sound
from onceproof.harness.trials.supervised_checks import mistake_in_another_process, supervised_mistakes
from onceproof.harness.trials.trial import check_family, scenario_of
from onceproof.reports.text import counted


def check_command(
    names: Sequence[str],
    scenarios: int,
    seed: int,
    sql: bool | None,
    as_json: bool,
    budget: Budget = Budget(),  # noqa: B008
) -> int:
    """Check families, print their mistakes, and return the exit code.

    Args:
        budget: what each scenario may use.
        sql: whether to compare ``oracle_sql`` as well, on Spark; None: if Spark is installed.

    Raises:
        ExtraMissing: ``sql`` is True and Spark is not installed.
    """
    families = load_families(names)
    has_sql = any(family.oracle_sql and not isinstance(family, ProgramFamily) for family in families)
    with_sql = has_sql and sql is not False and _has_spark(asked=sql is True)
    found: list[list[FamilyMistake]] = []
    scripts: set[str] = set()
    measured: dict[str, Measured] = {}
    with progress_bar(None, None) as bar, seconds_for_each(budget.seconds):
        for asked, family in zip(names, families, strict=True):
            bar.describe(f"checking {asked}")
            check_family(family)
            if isinstance(family, ProgramFamily):
                measured[asked] = _control_run(family)
                found.append([])
                continue
            if print_notes(asked, family, sys.stdout if not as_json else sys.stderr):
                # Its oracle is its own run without faults, so that nothing is left to compare.
                found.append([])
                scripts.add(asked)
                continue
            mistakes = supervised_mistakes(asked, seed, scenarios, PARALLELISMS, budget)
            if not mistakes and (elsewhere := mistake_in_another_process(family, asked, seed, scenarios)):
                mistakes.append(elsewhere)
            if not mistakes:
                note_sound(family)
            found.append(mistakes)
        if with_sql:
            bar.describe("checking oracle_sql on Spark")
            _check_sql(families, found, seed, scenarios)
    if as_json:
        documents = [
            {"family": family.name, "scenarios": scenarios, "sql": with_sql, "mistakes": mistakes}
            | ({"control": measured[asked]} if asked in measured else {})
            for asked, family, mistakes in zip(names, families, found, strict=True)
        ]
        print(msgspec.json.encode(documents).decode())
    else:
        for asked, family, mistakes in zip(names, families, found, strict=True):
            if asked in scripts:
                print(f"{asked}: ends without a fault; `onceproof run` puts it under faults")
            elif asked in measured:
                print(f"{asked}: {_measures_text(measured[asked])}")
            else:
                _print_result(asked, mistakes, scenarios, with_sql and bool(family.oracle_sql))
    return FAILED if any(found) else PASSED


def _control_run(family: ProgramFamily) -> Measured:
    """Return what a run of a program without faults measures. Raises SetUpProblem."""
    system = find_system(PROGRAMS)
    with let_go(system):
        measured = learned(system, family, partial(scenario_of, family))
    assert measured is not None, "the system of programs has control runs"
    return measured


def _measures_text(measured: Measured) -> str:
    return (
        f"{counted(measured.records, 'record')} gave the {counted(measured.rows, 'row')} that the oracle"
        f" expects; {measured.first_row_seconds:.1f} s to the first row, then up to"
        f" {max(measured.pause_seconds, measured.latency_seconds):.2f} s to the next;"
        " `onceproof run` puts it under faults"
    )


def _has_spark(asked: bool) -> bool:
    """Return whether Spark is installed; if not, say so, or raise ExtraMissing if it was asked for."""
    try:
        require("oracle_sql is not compared: it", SPARK)
    except ExtraMissing as missing:
        if asked:
            raise
        print(f"onceproof: {missing}", file=sys.stderr)
        return False
    return True


def _check_sql(
    families: Sequence[Family], found: Sequence[list[FamilyMistake]], seed: int, scenarios: int
) -> None:
    from onceproof.engine.runtime.spark_session import spark_session
    from onceproof.harness.campaign.judge import sql_mistake_of

    with spark_session(name="onceproof check") as session:
        for family, mistakes in zip(families, found, strict=True):
            # Rows that are wrong already would be reported once more, and not every family has SQL.
            if mistakes or not family.oracle_sql or isinstance(family, ProgramFamily):
                continue
            if mistake := sql_mistake_of(session, family, seed, scenarios):
                mistakes.append(mistake)


def _print_result(asked: str, mistakes: Sequence[FamilyMistake], scenarios: int, with_sql: bool) -> None:
    for mistake in mistakes:
        print(f"{asked}: {mistake.member}: {mistake.sentence}")
        for line in mistake.example.splitlines():
            print(f"    {line}".rstrip())
    if not mistakes:
        sql = "; Spark SQL agrees" if with_sql else ""
        print(f"{asked}: sound in {counted(scenarios, 'scenario')} with nothing going wrong{sql}")


def warn_of_mistakes(
    names: Sequence[str],
    system: str,
    seed: int,
    budget: Budget = Budget(),  # noqa: B008
) -> None:
    """Check the families in files that have not passed before, and print their mistakes on stderr.

    Args:
        names: names or paths; built-in families are tested where they are made.
        system: on another engine than this one nothing is checked, and a script says what is different there.
    """
    if Capability.ENGINE not in capabilities_of(system):
        for asked, family in zip(names, load_families(names), strict=True):
            print_notes_on(system, asked, family)
        return
    for asked, family in zip(names, load_families(names), strict=True):
        if split_address(asked)[0] is None or is_known_sound(family):
            continue
        if print_notes(asked, family, sys.stderr):
            continue
        try:
            check_family(family)
            mistakes = supervised_mistakes(asked, seed, budget=budget)
        except FamilyError:
            # The run ends with it as well, after the scenarios before it.
            continue
        for mistake in mistakes:
            line = f"onceproof: {asked}: {mistake.member}: {mistake.sentence}"
            more = f" `onceproof check {asked}` shows how." if mistake.example else ""
            print(f"{line}{more}", file=sys.stderr)
        if not mistakes:
            note_sound(family)
