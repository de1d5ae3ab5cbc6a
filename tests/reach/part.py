"""Runs a part of the scenarios under coverage.py: ``... tests.reach.part SEED FIRST OF SCENARIOS DATA``.

Rules:

- It imports nothing of the package before coverage.py has started, so modules count from their first line.
- Coverage.py keeps two contexts. What ran since the last strike of a fault, or since the start, becomes
  FOLLOWED when another fault strikes, and LAST when the scenario ends.
- It traces by coverage.py's tracer in C. The stored data names files, lines and arcs only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import coverage

ENGINE: Final = Path(__file__).resolve().parents[2] / "engine"
PACKAGES: Final = (
    "task",
    "checkpoint",
    "state",
    "operators",
    "windows",
    "watermarks",
    "job",
    "connectors",
    "api",
)
FOLLOWED: Final = "followed by a fault"
LAST: Final = "after the last fault"


def settings() -> dict[str, Any]:
    """Return how coverage.py is set up, here and where its data is read."""
    include = [str(ENGINE / package / "**") for package in PACKAGES]
    return {"config_file": False, "branch": True, "include": include}


def main(arguments: Sequence[str]) -> None:
    """Run the scenarios of one share of a run, and write what they executed to a file."""
    seed, first, of, scenarios = (int(each) for each in arguments[:4])
    tracing = coverage.Coverage(data_file=arguments[4], **settings())
    tracing.start()
    from onceproof.harness.model.family_places import family_names, load_family, turns_of
    from onceproof.harness.model.mutants import replaced
    from onceproof.harness.model.seeds import Share, numbered
    from onceproof.harness.systems.simulation.run_recorder import RunRecorder
    from onceproof.harness.systems.simulation.stopping import seconds_for_each
    from onceproof.harness.trials.trial import scenario_of, try_scenario

    data = tracing.get_data()

    def passed_to(context: str) -> None:
        data.set_context(context)
        # Hands over what was collected since the last call.
        tracing.get_data()

    fired = RunRecorder.fault_fired

    def fault_fired(recorder: RunRecorder, *details: Any) -> None:
        passed_to(FOLLOWED)
        fired(recorder, *details)

    families = [load_family(name) for name in family_names()]
    passed_to(FOLLOWED)
    turns = turns_of(families)
    share = Share(of=of, first=first)
    count = share.scenarios_in(scenarios, sum(turns))
    # A run that is traced takes several times as long.
    with replaced(RunRecorder, "fault_fired", fault_fired), seconds_for_each(None):
        for place, scenario_seed in numbered(seed, [each.name for each in families], 0, count, share, turns):
            family = families[place]
            trial = try_scenario(family, scenario_of(family, scenario_seed))
            passed_to(LAST)
            if not trial.verdict.passed:
                sys.exit(f"reach: {family.name} fails with seed {scenario_seed}: run `onceproof run` first")
    tracing.stop()
    tracing.save()


if __name__ == "__main__":
    main(sys.argv[1:])
