"""Replays of scenarios on request, for `onceproof serve`: any scenario of any run, passing ones too.

The rules this module lives by:

- A scenario is made again from its family and seed, in the simulation. What a run has stored is compared
  with it, never executed.
- Only families that are built in, or that the server was started with, are run: a name in a file of results
  loads nothing.
- One replay runs at a time, and the last ones are kept: a page that is asked for again costs nothing.
"""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.explanation import descriptions as wording
from onceproof.harness.explanation.shown_lines import shown_lines
from onceproof.harness.model.columns import shown_columns_of
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.program_family import SYSTEM as PROGRAM_SYSTEM
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.seeds import LARGEST_SEED
from onceproof.harness.reporting.teaching_scenario import trace_of
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario
from onceproof.reports.model import InputRecord
from onceproof.reports.served import ServedScenario
from onceproof.reports.summaries import row_differences

MOST_KEPT: Final = 64


class NotServed(Exception):
    """A scenario that cannot be replayed here; the message is one sentence."""


class ScenarioReplays:
    """Makes scenarios again, one at a time."""

    def __init__(self, files: Sequence[str] = ()) -> None:
        """Load the families in ``files``, FILE.py or FILE.py:OBJECT; raises FamilyError."""
        self._own: Mapping[str, tuple[str, Family]] = {
            family.name: (file, family) for file in files for family in [load_family(file)]
        }
        for _, family in self._own.values():
            check_family(family)
        self._kept: OrderedDict[tuple[str, int], tuple[ServedScenario, str]] = OrderedDict()
        self._running = Lock()

    def replay(
        self, name: str, seed: int, outcome: Outcome | None = None, named_file: str = ""
    ) -> ServedScenario:
        """Return the scenario of a family and a seed, run again. Raises NotServed.

        ``outcome`` is what the run has stored of it, if it has. ``named_file`` is the family's file as the
        run names it; it is shown to the user, and never loaded.
        """
        if not 0 <= seed <= LARGEST_SEED:
            raise NotServed(f"{seed} is no seed of a scenario: it is between 0 and {LARGEST_SEED}.")
        with self._running:
            found = self._kept.get((name, seed))
            if found is None:
                found = self._kept[name, seed] = self._run(name, seed, named_file)
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end((name, seed))
        scenario, trace_hash = found
        note = "" if outcome is None else _comparison(outcome, trace_hash)
        return replace(scenario, note=note)

    def _run(self, name: str, seed: int, named_file: str) -> tuple[ServedScenario, str]:
        asked, family = self._family(name, named_file)
        if isinstance(family, ProgramFamily):
            command = wording.replay_command(seed, asked, PROGRAM_SYSTEM)
            raise NotServed(
                f"{name!r} is a program, which the simulation does not run: {command} runs it again."
            )
        scenario = scenario_of(family, seed)
        trial = try_scenario(family, scenario, trace=True)
        scenario, shown = trial.scenario, trial.shown
        explanation = explanation_of(trial)
        actual = rows_at_end(shown)
        expected = [
            row
            for row, count in PythonOracle(family, scenario).rows(actual, shown).items()
            for _ in range(count)
        ]
        served = ServedScenario(
            family=family.name,
            seed=seed,
            passed=trial.verdict.passed,
            text=wording.scenario_text(scenario),
            sentence=explanation.sentence,
            cause="" if trial.verdict.passed else explanation.cause,
            decisions=(
                *(wording.fault_text(fault) for fault in scenario.faults),
                *(wording.operation_text(operation) for operation in scenario.asked),
            ),
            replay=wording.replay_command(seed, asked),
            note="",
            trace=trace_of(shown),
            records=tuple(
                InputRecord(split, offset, value if isinstance(value, tuple) else (value,), timestamp)
                for split, records in scenario.records.items()
                for offset, (timestamp, value) in enumerate(records)
            ),
            columns=shown_columns_of(family),
            rows=row_differences(expected, actual, equal_limit=len(actual)),
            story=tuple(explanation.story),
            lines=tuple(shown_lines(shown, trial.verdict.violations, whole=True)),
        )
        return served, trial.history.trace_hash

    def _family(self, name: str, named_file: str) -> tuple[str, Family]:
        if name in self._own:
            return self._own[name]
        if name in family_names():
            return name, load_family(name)
        if named_file:
            raise NotServed(
                f"The family {name!r} comes from {named_file}, and a name in a file of results loads nothing:"
                f" start the server with --family {shlex.quote(named_file)} to see its scenarios."
            )
        raise NotServed(
            f"The family {name!r} is not built in: start the server with --family and its FILE.py to see its"
            " scenarios."
        )


def _comparison(outcome: Outcome, trace_hash: str) -> str:
    if outcome.trace_hash == trace_hash:
        return "the same, step by step, as in the run"
    return (
        "not the run itself: the generator, the engine or the system was another one then; replay it with the"
        " version that made the run, or from a scenario file"
    )
