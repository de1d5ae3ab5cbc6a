"""`onceproof explain`: explain on the terminal and on a page why one scenario fails.

The rules this module lives by:

- The scenario is shrunk first, and the explained run is a failing run of the smallest scenario. Its file is
  beside the page.
- The page is a run's report with this one failure, with the same files beside it.
- The limits of the explanation are stated: the number of runs, and the questions that they leave open.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.commands.replay import scenario_and_family, scenario_limit
from onceproof.harness.explanation import descriptions as wording
from onceproof.harness.explanation.decisions import decision_lines
from onceproof.harness.explanation.explanation import explain
from onceproof.harness.explanation.visible_run import recovery_text
from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.model.family_places import default_system
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import System, find_system, let_go
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.report_builder import facts_of, failure_of, write_report
from onceproof.harness.reporting.run_summary import shrunk_text
from onceproof.harness.trials.examination import Examined, examine, repeats, runs_of
from onceproof.harness.trials.failures import FailureCase, store_failure
from onceproof.harness.trials.output_files import claimed_folder
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.trial import as_run
from onceproof.reports.model import EXPLANATION_TITLE, Report
from onceproof.reports.text import counted


def explain_command(
    subject: str,
    family: str | None,
    system: str | None,
    out: Path,
    shrink_runs: int | None,
    command: str,
    as_json: bool = False,
) -> int:
    """Explain why a scenario fails on a system, write a page about it, and return the exit code.

    ``shrink_runs`` bounds the shrinking; None stands for the default of the system. With
    ``as_json`` the failure as the page's report.json holds it is the one document on stdout.
    """
    lines_to = sys.stderr if as_json else sys.stdout
    scenario, loaded = scenario_and_family(subject, family)
    system = system or default_system(loaded)
    on_trial = find_system(system)
    scenario = as_run(on_trial, loaded, scenario)
    asked = family or scenario.family
    most_runs = runs_of(on_trial, shrink_runs, is_wanted=True)
    with let_go(on_trial), scenario_limit(), progress_bar(None, None) as bar:
        examined = examine(
            on_trial, loaded, scenario, None, most_runs, lambda run: bar.describe(f"shrinking, run {run}")
        )
    trial = examined.trial
    if trial is None:
        raise KeyboardInterrupt
    print(wording.scenario_text(scenario), file=lines_to)
    if trial.verdict.passed:
        if not repeats(on_trial):
            print(f"{_passes_text(scenario, examined, on_trial)}.", file=lines_to)
        story = explain(trial.scenario, trial.history, trial.history.trace, trial.verdict)
        _print_lines([story.sentence, *_section("what happened", story.story)], lines_to)
        if as_json:
            _print_json({"verdict": "passed", "sentence": story.sentence, "story": story.story})
        return PASSED
    result = RunResult((loaded,), (asked,), 0, 1, system=on_trial)
    result.tally.add(outcome_of(trial.scenario, trial.history, trial.verdict))
    [group] = result.tally.groups.values()
    case = store_failure(examined, on_trial, loaded, asked, scenario, out, group)
    facts = replace(facts_of(result, command), seed=None)
    failure = failure_of(case)
    with claimed_folder(out):
        page = write_report(Report(title=EXPLANATION_TITLE, facts=facts, failures=(failure,)), out)
    _print_lines(_lines_of(case, not repeats(on_trial)), lines_to)
    print(f"\npage: {page}", file=lines_to)
    if as_json:
        _print_json({"verdict": "failed", "page": str(page), "failure": failure})
    return FAILED


def _passes_text(scenario: Scenario, examined: Examined, system: System) -> str:
    """Return the text "... passes"; on a real system, whose runs differ, with the number of runs."""
    text = f"{wording.scenario_text(scenario)} passes"
    return text if repeats(system) else f"{text} on {system.name} in {counted(examined.shrunk.runs, 'run')}"


def _lines_of(case: FailureCase, real: bool) -> Iterator[str]:
    """Yield the lines that explain a failure; ``real``: its runs do not repeat step by step."""
    explanation, takes = case.explanation, case.takes
    sentence = explanation.sentence if case.mistake is None else case.mistake.sentence
    yield f"FAILED {case.title}: {sentence}"
    if case.mistake is not None:
        yield from (f"  {line}".rstrip() for line in case.mistake.example.splitlines())
    yield shrunk_text(case, real)
    if needed := wording.needed_text(case.scenario):
        yield needed
    for title, text in (("cause", explanation.cause), ("first divergence", explanation.first_divergence)):
        if text and case.is_explained:
            yield f"{title}: {text}"
    if takes is not None:
        yield from _section("what it takes", tuple(decision_lines(takes)))
    yield from _section("what happened", explanation.story)
    yield from _section(
        "how the job recovered", tuple(map(recovery_text, case.history.statistics.recoveries))
    )
    yield from _section("method and limits", case.notes)
    yield ""
    yield case.replay


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}"
        yield from (f"  {line}" for line in lines)


def _print_lines(lines: Sequence[str] | Iterator[str], to: TextIO) -> None:
    for line in lines:
        print(line, file=to)


def _print_json(document: dict[str, Any]) -> None:
    print(msgspec.json.encode(document).decode())
