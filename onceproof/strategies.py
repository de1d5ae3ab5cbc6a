"""Hypothesis strategies for the scenarios of a family, and the assertion that judges one.

    from hypothesis import given, settings
    from onceproof import strategies

    @settings(max_examples=200, deadline=None)
    @given(strategies.scenarios("sales.py"))
    def test_each_sale_is_counted_once(scenario):
        strategies.assert_exactly_once("sales.py", scenario)

A scenario is immutable; ``msgspec.structs.replace`` returns a changed one. This module needs the extra
``onceproof[hypothesis]``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceproof.engine.extras import HYPOTHESIS, require

require("onceproof.strategies", HYPOTHESIS)

from hypothesis import strategies as st  # noqa: E402 (the line above names what to install)

from onceproof.harness.explanation.sentences import sentence_of  # noqa: E402
from onceproof.harness.generation import strategies as own  # noqa: E402
from onceproof.harness.generation.generator import unfit_kinds  # noqa: E402
from onceproof.harness.model.scenario import Fault, Scenario, Schedule  # noqa: E402
from onceproof.harness.testing.family_lookup import find_family, replay_command_line  # noqa: E402
from onceproof.harness.trials.evidence import failure_paths  # noqa: E402
from onceproof.harness.trials.failures import write_scenario  # noqa: E402
from onceproof.harness.trials.trial import SIMULATED, check_family, try_scenario  # noqa: E402

if TYPE_CHECKING:
    from onceproof.harness.model.family import Family
    from onceproof.harness.testing.family_lookup import FamilyLike

__all__ = ["assert_exactly_once", "faults", "scenarios", "schedules", "structured_scenarios"]

_FOLDER = ".onceproof"
_PATH_AT_START = tuple(sys.path)


def scenarios(family: FamilyLike) -> st.SearchStrategy[Scenario]:
    """Return the scenarios that `onceproof run` draws: of each only the seed is drawn by Hypothesis.

    This is by far the fastest strategy, and it has the fault patterns of the generator. Hypothesis cannot
    shrink such a scenario; `onceproof explain` can.

    Args:
        family: the name of a built-in family, a path, a module, or an object with the members of a family.
    """
    return own.generated(_found(family))


def structured_scenarios(
    family: FamilyLike,
    *,
    records: st.SearchStrategy[dict[str, Any]] | None = None,
    faults: st.SearchStrategy[tuple[Fault, ...]] | None = None,
) -> st.SearchStrategy[Scenario]:
    """Return scenarios whose records, faults, schedule and settings Hypothesis draws and shrinks one by one.

    Args:
        family: as of :func:`scenarios`.
        records: draws the input, the list of (timestamp, value) of each split; None draws records that the
            family generates.
        faults: draws the tuple of faults; None draws up to four.
    """
    return own.structured(_found(family), records, faults)


def faults(family: FamilyLike) -> st.SearchStrategy[Fault]:
    """Return faults of every kind that a job of the family can suffer, wherever they make sense."""
    return own.faults(unfit_kinds(_found(family)))


def schedules() -> st.SearchStrategy[Schedule]:
    """Return the orders in which the simulation carries out the steps of a run."""
    return own.schedules()


def assert_exactly_once(family: FamilyLike, scenario: Scenario, folder: str | Path = _FOLDER) -> None:
    """Run a scenario in the simulation, and check every property.

    A failing scenario is written into ``folder``, under a name that stays the same while Hypothesis shrinks
    it.

    Args:
        family: as of :func:`scenarios`.
        scenario: the scenario to run.
        folder: where the file of a failing scenario goes.

    Raises:
        AssertionError: a property is broken; the message names the file and the command that replays it.
    """
    __tracebackhide__ = True
    found = _found(family)
    trial = try_scenario(found, scenario, system=SIMULATED)
    signature = trial.verdict.signature
    if signature is None:
        return
    path = Path(folder) / failure_paths(Path(folder), found.name, signature)[0].name
    write_scenario(trial.scenario, path)
    replay = replay_command_line(found, path.absolute(), SIMULATED.name, Path.cwd(), _PATH_AT_START)
    raise AssertionError(
        f"{found.name}: {', '.join(signature)}: {sentence_of(trial.verdict.violations[0])}\n"
        f"scenario: {path}\nreplay:   {replay or 'its family has no file'}"
    )


def _found(family: FamilyLike) -> Family:
    found = find_family(family, None, (Path.cwd(),))
    check_family(found)
    return found
