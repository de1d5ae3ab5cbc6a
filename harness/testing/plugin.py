"""The pytest plugin: a test that is passed by a family whose every scenario holds.

    from onceproof import exactly_once

    @exactly_once("sales.py", scenarios=400, shards=4)
    def test_every_sale_is_counted_once() -> None:
        pass

The rules this module lives by:

- Where it is loaded and not used it costs nothing: it imports pytest, the standard library and two small
  modules, and draws no seed. What a test needs is imported when it runs.
- What is run depends on the seed, the family and the number of scenarios, not on the worker that runs it or
  on how many there are (`onceproof.harness.testing.proof`).
- A test fails with a text that stands alone (`harness.testing.failure_text`), not with a traceback through
  the harness; a mistake in the family's own file comes with the part of the traceback that is the user's.
- Wrong arguments are usage errors, told where they stand, before anything runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from onceproof.harness.generation.profiles import (
    NIGHTLY,
    SEED_VARIABLE,
    ProfileError,
    chosen_profile,
    given_seed,
    new_seed,
    settled_seed,
)
from onceproof.harness.testing.test_request import SCENARIOS, SIMULATED, Part, Plan, PlanError, parts_of

if TYPE_CHECKING:
    from onceproof.harness.testing.families import FamilyLike
    from onceproof.harness.testing.family_test import Place, Systems
    from onceproof.harness.trials.tally import Tally

Test = TypeVar("Test", bound=Callable[..., Any])

__all__ = ["Onceproof", "exactly_once"]

FOLDER: Final = ".onceproof"
RANDOM: Final = "random"

_MARK: Final = "exactly_once"
_FIXTURE: Final = "onceproof"
_PART: Final = "onceproof_part"
_WORKER_SEED: Final = "onceproof_seed"

_ONCEPROOF: Final = pytest.StashKey["Onceproof"]()
_SYSTEMS: Final = pytest.StashKey["Systems"]()

PATH_AT_START: Final = tuple(sys.path)
"""Where Python looked for modules before pytest added to it."""


def exactly_once(
    family: FamilyLike = None,
    scenarios: int = SCENARIOS,
    *,
    shards: int = 1,
    system: str = SIMULATED,
    regressions: str | os.PathLike[str] | None = None,
) -> Callable[[Test], Test]:
    """Let a test pass only if every property holds in so many scenarios of a family; then its body runs.

    ``family`` is the name of a built-in one, a path (from the test's folder, else from pytest's rootdir;
    FILE.py:OBJECT names an object in it), a module, or an object or class with a family's members. If none is
    given it is the test's own module.

    ``scenarios`` are the first of `onceproof run FAMILY --seed S`, with the seed of --onceproof-seed;
    --onceproof-scenarios gives all tests another number. ``shards`` makes as many tests of it, which share
    the scenarios, so that pytest-xdist can spread them. ``system`` is what stands trial. ``regressions`` is a
    folder, found like a path, in which each FILE.json is a scenario of the family and a test of its own.

    Raises pytest.UsageError for arguments that cannot be meant.
    """
    plan = _plan(family, scenarios, shards, system, regressions)

    def decorate(test: Test) -> Test:
        marked: Test = pytest.mark.exactly_once.with_args(plan)(test)
        # Without the plugin there is no such fixture: the test cannot pass as if it had proved something.
        marked = pytest.mark.usefixtures(_FIXTURE)(marked)
        return marked

    return decorate


def _plan(
    family: FamilyLike = None,
    scenarios: int = SCENARIOS,
    shards: int = 1,
    system: str = SIMULATED,
    regressions: str | os.PathLike[str] | None = None,
) -> Plan:
    try:
        return Plan(family, scenarios, shards, system, regressions)
    except PlanError as error:
        raise pytest.UsageError(str(error)) from None


class Onceproof:
    """The fixture ``onceproof``: runs scenarios in the middle of a test, and knows what the test has run.

    ``onceproof(family, scenarios)`` takes what ``exactly_once`` takes, fails the test where a property does
    not hold, and returns the counts. ``onceproof.replay(file, family)`` runs one scenario.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        """The counts of the last run of this test: scenarios, kills, rescales, how often what fired."""
        if self._tally is None:
            raise pytest.UsageError("onceproof.tally: this test has run no scenarios yet")
        return self._tally

    def __call__(
        self, family: FamilyLike = None, scenarios: int = SCENARIOS, *, system: str = SIMULATED
    ) -> Tally:
        """Run scenarios of a family here and now; the test fails where a property does not hold."""
        plan = _plan(family, scenarios, system=system)
        asked = self._item.config.getoption("onceproof_scenarios")
        return self.run(Part(plan, asked or scenarios, file=_replayed(self._item)))

    def replay(
        self, file: str | os.PathLike[str], family: FamilyLike = None, *, system: str = SIMULATED
    ) -> Tally:
        """Run the scenario in a file, found like a family's; the test fails where a property does not."""
        return self.run(Part(_plan(family, system=system), 1, file=_found(self._item, file)))

    def run(self, part: Part) -> Tally:
        """Run a part of a plan."""
        from onceproof.harness.testing.family_test import Unusable, run_here

        try:
            ended = run_here(part.plan.family, part.plan.system, part.asked, _place_of(self._item))
        except Unusable as trouble:
            text = str(trouble)
        else:
            self._tally = ended.tally
            if not ended.failed and not ended.known:
                return ended.tally
            if not ended.failed:
                pytest.xfail(ended.known)
            text = "\n\n".join(filter(None, (ended.failed, ended.known)))
        pytest.fail(text, pytrace=False)


def _place_of(item: pytest.Item) -> Place:
    """Return what the rest of the harness has to know of a test."""
    from onceproof.harness.testing.failure_text import Desk
    from onceproof.harness.testing.families import typed
    from onceproof.harness.testing.family_test import Place

    config = item.config
    folder = config.invocation_params.dir
    out = config.getoption("onceproof_out")
    return Place(
        module=getattr(item, "module", None),
        folders=_folders(item),
        root=config.rootpath,
        kept=folder / out if out else config.rootpath / FOLDER,
        is_ours=not out,
        seed=given_seed(),
        shrink_time=config.getoption("onceproof_shrink_time"),
        systems=_systems_of(config),
        desk=Desk(folder, f"{typed(item.path, folder)}::{item.nodeid.partition('::')[2]}", PATH_AT_START),
    )


def _systems_of(config: pytest.Config) -> Systems:
    """Return what all tests put on trial, which ends when pytest does."""
    from onceproof.harness.testing.family_test import Systems

    if _SYSTEMS not in config.stash:
        config.stash[_SYSTEMS] = Systems()
        config.add_cleanup(config.stash[_SYSTEMS].close)
    return config.stash[_SYSTEMS]


def _folders(item: pytest.Item) -> tuple[Path, Path]:
    """Return where a relative path is looked for: beside the test, and at the root of all tests."""
    return item.path.parent, item.config.rootpath


def _found(item: pytest.Item, path: str | os.PathLike[str]) -> Path:
    """Return where a path is found; where it is not, the path beside the test."""
    candidates = [folder / path for folder in _folders(item)]
    return next((candidate for candidate in candidates if candidate.exists()), candidates[0])


@pytest.fixture
def onceproof(request: pytest.FixtureRequest) -> Onceproof:
    """Run the scenarios of a family: ``onceproof(family, scenarios)``; see ``exactly_once``."""
    return _onceproof_of(request.node)


def _onceproof_of(item: pytest.Item) -> Onceproof:
    return item.stash.setdefault(_ONCEPROOF, Onceproof(item))


def _seed(text: str) -> str:
    try:
        return text if text == RANDOM else str(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor {RANDOM!r}") from None


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return count


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("onceproof", "onceproof: is every record counted exactly once?")
    group.addoption(
        "--onceproof-seed",
        type=_seed,
        metavar=f"N|{RANDOM}",
        help=f"decides every scenario; {RANDOM}: a new one, which is told; by default {SEED_VARIABLE}, the"
        " seed in [tool.onceproof], or 0",
    )
    group.addoption(
        "--onceproof-scenarios", type=_count, metavar="N", help="scenarios of each test, whatever it asks for"
    )
    group.addoption(
        "--onceproof-shrink-time",
        type=_seconds,
        metavar="SECONDS",
        help="for how long each failure is shrunk; by default shrink_time in [tool.onceproof], or 5",
    )
    group.addoption(
        "--onceproof-replay",
        metavar="FILE.json",
        help="run this scenario instead of those that tests ask for",
    )
    group.addoption(
        "--onceproof-out", metavar="DIR", help=f"where failures are kept; {FOLDER} in the rootdir by default"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Settle the seed before anything is imported that may ask for it."""
    options = early_config.known_args_namespace
    try:
        _settle_seed(early_config, options.onceproof_seed, getattr(options, "hypothesis_profile", None))
    except ProfileError as error:
        raise pytest.UsageError(str(error)) from None


def _settle_seed(config: pytest.Config, asked: str | None, hypothesis_profile: str | None) -> None:
    """Put the seed that is asked for, or that a night needs, into the environment until pytest ends."""
    profile = hypothesis_profile or chosen_profile()
    before = os.environ.get(SEED_VARIABLE)
    if asked is not None:
        os.environ[SEED_VARIABLE] = str(new_seed()) if asked == RANDOM else asked
    elif profile == NIGHTLY:
        settled_seed(profile)
    given_seed()
    if os.environ.get(SEED_VARIABLE) != before:
        config.add_cleanup(lambda: _put(SEED_VARIABLE, before))


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def pytest_configure(config: pytest.Config) -> None:
    """Take the seed over from the process that has started this one, if it is a worker."""
    config.addinivalue_line("markers", f"{_MARK}(plan): what onceproof.exactly_once asks for")
    told = getattr(config, "workerinput", {})
    if _WORKER_SEED in told:
        _put(SEED_VARIABLE, told[_WORKER_SEED])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the seed: were it to draw one, each would do another night's work."""
    node.workerinput[_WORKER_SEED] = os.environ.get(SEED_VARIABLE)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Tell the seed where it is another one than each time."""
    seed = given_seed()
    if seed is None:
        return None
    profile = config.getoption("hypothesis_profile", None) or chosen_profile()
    return f"onceproof: profile {profile}, seed {seed}; --onceproof-seed {seed} does the same again"


def _parts_of(item: pytest.Item) -> dict[str, Part]:
    """Return what the decorators of a test ask for, the topmost first, by what is to be in its name."""
    plans = [plan for mark in item.iter_markers(_MARK) for plan in mark.args][::-1]
    if not plans or not all(isinstance(plan, Plan) for plan in plans):
        raise pytest.UsageError(f"{item.nodeid}: use onceproof.exactly_once, which makes this mark")
    try:
        return parts_of(
            plans,
            item.config.getoption("onceproof_scenarios"),
            _replayed(item),
            lambda path: _found(item, path),
        )
    except PlanError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def _replayed(item: pytest.Item) -> Path | None:
    """Return the scenario that is to be run instead of those that a test asks for."""
    file = item.config.getoption("onceproof_replay")
    return None if file is None else item.config.invocation_params.dir / file


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each part of what a decorator asks for."""
    if metafunc.definition.get_closest_marker(_MARK) is None:
        return
    parts = _parts_of(metafunc.definition)
    if len(parts) > 1:
        metafunc.fixturenames.append(_PART)
        metafunc.parametrize(_PART, list(parts.values()), ids=list(parts))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run what a decorator asks for before the body of its test."""
    if item.get_closest_marker(_MARK) is None:
        return
    parameters = getattr(item, "callspec", None)
    own = None if parameters is None else parameters.params.get(_PART)
    for part in (own,) if own is not None else _parts_of(item).values():
        _onceproof_of(item).run(part)
