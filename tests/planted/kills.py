"""Records which scenario kills each planted bug: ``python -m tests.planted.kills`` writes ``kills.json``.

The tests try the recorded scenario first, which takes milliseconds, and search only where it kills no longer.
So a bug must die in the scenarios of one fixed seed, whether the record is new or old. Run the command when
the summary of the tests asks for it: a change of generation draws other scenarios.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import family_names, load_family, turns_of
from onceproof.harness.model.mutants import Mutant
from onceproof.harness.model.seeds import turn_order
from onceproof.harness.trials.mutant_trials import SCENARIOS, Result, families_of, measure, measure_all
from tests.planted.catalogue import built_in_mutants, sql_mutants

SEED: Final = 2
RECORD: Final = Path(__file__).with_name("kills.json")


class Kill(TypedDict):
    """A scenario of the run with the seed; ``index`` counts those of the family."""

    family: str
    index: int


def recorded_kills() -> Mapping[str, Kill]:
    """Return the scenario that kills each planted bug, by the bug's id."""
    kills: Mapping[str, Kill] = json.loads(RECORD.read_text())
    return kills


def tried_where_recorded(mutant: Mutant, kill: Kill | None, shrink_runs: int) -> Result | None:
    """Return what the recorded scenario shows of a planted bug, None if it does not kill it."""
    if kill is None:
        return None
    families = {each.name: each for each in families_of(mutant, ())}
    if kill["family"] not in (*family_names(), *families):
        return None
    family = families.get(kill["family"]) or load_family(kill["family"])
    result = measure(mutant, [family], SEED, 1, shrink_runs, first=kill["index"])
    return result if result.killed else None


def kill_of(result: Result, mutant: Mutant, families: Sequence[Family]) -> Kill:
    """Return which scenario killed a planted bug, from the number of scenarios that were run."""
    tried = families_of(mutant, families)
    names = [each.name for each in tried]
    turns = turns_of(tried)
    order = turn_order(turns)
    rounds, turn = divmod(result.scenarios - 1, len(order))
    place, nth = order[turn]
    return {"family": names[place], "index": rounds * turns[place] + nth}


def main() -> None:
    """Write the record anew: what kills no longer where it is recorded is searched."""
    families = [load_family(name) for name in family_names()]
    known = recorded_kills() if RECORD.exists() else {}
    mutants = {each.id: each for each in (*built_in_mutants(), *sql_mutants())}
    kills = {
        name: known[name]
        for name, each in mutants.items()
        if tried_where_recorded(each, known.get(name), 0) is not None
    }
    sought = [each for name, each in mutants.items() if name not in kills and not each.unseen]
    for result in measure_all(sought, family_names(), SEED, SCENARIOS, workers=2, shrink_runs=0):
        if result.killed:
            kills[result.id] = kill_of(result, mutants[result.id], families)
    RECORD.write_text(json.dumps(dict(sorted(kills.items())), indent=2) + "\n")
    print(f"{RECORD}: {len(kills)} of {len(mutants)} planted bugs, {len(sought)} of them searched")


if __name__ == "__main__":
    main()
