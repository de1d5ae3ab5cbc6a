"""Runs the scenarios of `onceproof run` in a copy of the tree: ``python -P one_edit.py COPY SEED SCENARIOS``.

Rules:

- The package is that of COPY. The installed one, the checkout, is taken off the path.
- The scenarios are those of `onceproof run` over all families by turns, and judged as there. The first that
  fails ends the run. It must fail a second time.
- A limit of processor time and of memory ends an edit that never returns. The load of the machine does not
  count.
- It prints one JSON document. Any other end is a failure of the edited engine.
"""

from __future__ import annotations

import json
import resource
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final

CPU_SECONDS: Final = 150
"""Scenarios of an engine without a mistake take a tenth of it."""
SCENARIO_SECONDS: Final = 5.0
MEMORY_BYTES: Final = 4 << 30


def run(seed: int, scenarios: int) -> dict[str, Any]:
    """Return whether a scenario fails, the property that it breaks, and how many were run."""
    from onceproof.harness.model.family_places import family_names, load_family, turns_of
    from onceproof.harness.model.seeds import numbered
    from onceproof.harness.systems.simulation.stopping import seconds_for_each
    from onceproof.harness.trials.trial import scenario_of, try_scenario

    def failed(place: int, scenario_seed: int) -> str:
        try:
            verdict = try_scenario(families[place], scenario_of(families[place], scenario_seed)).verdict
        except Exception as error:
            return f"{type(error).__name__} outside of the job"
        return "" if verdict.passed else verdict.violations[0].property

    families = [load_family(name) for name in family_names()]
    names = [family.name for family in families]
    with seconds_for_each(SCENARIO_SECONDS):
        for number, (place, scenario_seed) in enumerate(
            numbered(seed, names, 0, scenarios, turns=turns_of(families)), start=1
        ):
            if (broken := failed(place, scenario_seed)) and failed(place, scenario_seed):
                return {"killed": True, "by": broken, "scenarios": number, "family": names[place]}
    return {"killed": False, "by": "", "scenarios": scenarios, "family": ""}


def main(arguments: Sequence[str]) -> None:
    """Take the package from the copy, run, and print the outcome."""
    copy, seed, scenarios = arguments
    sys.meta_path = [each for each in sys.meta_path if getattr(each, "__name__", "") != "_EditableFinder"]
    sys.path.insert(0, copy)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        import onceproof.harness.trials.trial as trial

        assert str(trial.__file__).startswith(copy), trial.__file__
        outcome = run(int(seed), int(scenarios))
    except Exception as error:
        traceback.print_exc()
        outcome = {"killed": True, "by": f"{type(error).__name__} at the start", "scenarios": 0, "family": ""}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
