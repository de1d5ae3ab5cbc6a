"""The pytest plugin: a test that passes if every property holds in every scenario of a family.

    from onceproof import exactly_once

    @exactly_once("sales.py", scenarios=400, shards=4)
    def test_every_sale_is_counted_once() -> None:
        pass

The rules this module lives by:

- A project that does not use the plugin pays nothing: this module imports only pytest, the standard library
  and two small modules, and draws no seed. Everything else is imported when a test runs.
- The scenarios follow from the seed, the family and the number of scenarios, not from the number of workers
  or shards (`onceproof.harness.testing.proof`).
- A failure is a text (`harness.testing.failure_text`) without a traceback through the harness. An error in
  the family's file comes with the frames of that file.
- Wrong arguments are usage errors at collection, before any scenario runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
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
from onceproof.harness.testing.scenario_plan import (
    SCENARIOS,
    SIMULATED,
    PlanError,
    PlanPart,
    ScenarioPlan,
    split_plans,
)

if TYPE_CHECKING:
    from onceproof.harness.testing.family_lookup import FamilyLike
    from onceproof.harness.testing.family_test import ItemContext, SystemPool
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
SYSTEMS: Final = pytest.StashKey["SystemPool"]()

PATH_AT_START: Final = tuple(sys.path)
"""``sys.path`` before pytest extended it."""


def exactly_once(
    family: FamilyLike = None,
    scenarios: int = SCENARIOS,
    *,
    shards: int = 1,
    system: str = SIMULATED,
    regressions: str | os.PathLike[str] | None = None,
) -> Callable[[Test], Test]:
    """Decorate a test: it passes only if every property holds in all scenarios; then its body runs.

    Parameters:
        family: the name of a built-in family, a path (relative to the test's folder, else to pytest's
            rootdir; FILE.py:OBJECT names an object in the file), a module, or an object or class with a
            family's members. None stands for the test's own module.
        scenarios: number of scenarios, the first ones of `onceproof run FAMILY --seed S` with the seed of
            --onceproof-seed. The option --onceproof-scenarios overrides it.
        shards: number of tests among which the scenarios are divided, so that pytest-xdist can run them in
            parallel.
        system: name of the system under test.
        regressions: a folder, found like a path; each FILE.json in it is a scenario and a test of its own.

    Raises pytest.UsageError for invalid arguments.
    """
    plan = _make_plan(family, scenarios, shards, system, regressions)

    def decorate(test: Test) -> Test:
        marked: Test = pytest.mark.exactly_once.with_args(plan)(test)
        # If the plugin is disabled, the missing fixture makes the test fail instead of pass.
        marked = pytest.mark.usefixtures(_FIXTURE)(marked)
        return marked

    return decorate


def _make_plan(
    family: FamilyLike = None,
    scenarios: int = SCENARIOS,
    shards: int = 1,
    system: str = SIMULATED,
    regressions: str | os.PathLike[str] | None = None,
) -> ScenarioPlan:
    try:
        return ScenarioPlan(family, scenarios, shards, system, regressions)
    except PlanError as error:
        raise pytest.UsageError(str(error)) from None


class Onceproof:
    """The fixture ``onceproof``: runs scenarios within a test and holds the counts of the last run.

    ``onceproof(family, scenarios)`` runs scenarios, fails the test if a property is broken, and returns the
    counts. ``onceproof.replay(file, family)`` runs one scenario.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        """Counts of this test's last run: scenarios, kills, rescales, fired faults.

        Raises pytest.UsageError if the test has run no scenarios.
        """
        if self._tally is None:
            raise pytest.UsageError("onceproof.tally: this test has run no scenarios yet")
        return self._tally

    def __call__(
        self, family: FamilyLike = None, scenarios: int = SCENARIOS, *, system: str = SIMULATED
    ) -> Tally:
        """Run scenarios of a family, fail the test if a property is broken, and return the counts.

        The parameters are those of ``exactly_once``.
        """
        plan = _make_plan(family, scenarios, system=system)
        asked = self._item.config.getoption("onceproof_scenarios")
        return self.run(PlanPart(plan, asked or scenarios, file=_replay_file(self._item)))

    def replay(
        self, file: str | os.PathLike[str], family: FamilyLike = None, *, system: str = SIMULATED
    ) -> Tally:
        """Run the scenario in a JSON file, fail the test if a property is broken, and return the counts.

        A relative ``file`` is found like the path of a family.
        """
        return self.run(PlanPart(_make_plan(family, system=system), 1, file=_resolve_path(self._item, file)))

    def run(self, part: PlanPart) -> Tally:
        """Run a part of a plan, fail the test if a property is broken, and return the counts.

        Known failures make the test an expected failure (xfail).
        """
        from onceproof.harness.testing.family_test import UnusableRequest, run_in_process

        try:
            ended = run_in_process(part.plan.family, part.plan.system, part.asked, _context_of(self._item))
        except UnusableRequest as error:
            text = str(error)
        else:
            self._tally = ended.tally
            if not ended.failed and not ended.known:
                return ended.tally
            if not ended.failed:
                pytest.xfail(ended.known)
            text = "\n\n".join(filter(None, (ended.failed, ended.known)))
        pytest.fail(text, pytrace=False)


def _context_of(item: pytest.Item) -> ItemContext:
    """Return what the harness needs to know about a test."""
    from onceproof.harness.testing.failure_text import PytestContext
    from onceproof.harness.testing.family_lookup import path_as_typed
    from onceproof.harness.testing.family_test import ItemContext

    config = item.config
    folder = config.invocation_params.dir
    out = config.getoption("onceproof_out")
    address = f"{path_as_typed(item.path, folder)}::{item.nodeid.partition('::')[2]}"
    return ItemContext(
        module=getattr(item, "module", None),
        folders=_search_folders(item),
        root=config.rootpath,
        kept=folder / out if out else config.rootpath / FOLDER,
        is_default_folder=not out,
        seed=given_seed(),
        shrink_runs=config.getoption("onceproof_shrink_runs"),
        systems=_systems_of(config),
        context=PytestContext(folder, address, PATH_AT_START),
    )


def _systems_of(config: pytest.Config) -> SystemPool:
    """Return the systems that all tests share; pytest closes them at its end."""
    from onceproof.harness.testing.family_test import SystemPool

    if SYSTEMS not in config.stash:
        config.stash[SYSTEMS] = SystemPool()
        config.add_cleanup(config.stash[SYSTEMS].close)
    return config.stash[SYSTEMS]


def _search_folders(item: pytest.Item) -> tuple[Path, Path]:
    """Return the folders to which paths are relative: the test's folder and pytest's rootdir."""
    return item.path.parent, item.config.rootpath


def _resolve_path(item: pytest.Item, path: str | os.PathLike[str]) -> Path:
    """Return the existing file or folder for a path; if there is none, the path in the test's folder."""
    candidates = [folder / path for folder in _search_folders(item)]
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


def _count(text: str, least: int = 1) -> int:
    try:
        count = int(text)
    except ValueError:
        count = least - 1
    if count < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return count


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    group = parser.getgroup("onceproof", "onceproof: is every record counted exactly once?")
    group.addoption(
        "--onceproof-seed",
        type=_seed,
        metavar=f"N|{RANDOM}",
        help=f"seed from which all scenarios are drawn; {RANDOM}: a new seed, printed in the header;"
        f" default: {SEED_VARIABLE}, the seed in [tool.onceproof], or 0",
    )
    group.addoption(
        "--onceproof-scenarios",
        type=_count,
        metavar="N",
        help="number of scenarios of each test; overrides the decorators",
    )
    group.addoption(
        "--onceproof-shrink-runs",
        type=partial(_count, least=0),
        metavar="N",
        help="runs to shrink each failure; default: shrink_runs in [tool.onceproof], or 1000",
    )
    group.addoption(
        "--onceproof-replay",
        metavar="FILE.json",
        help="run this scenario instead of the scenarios of the tests",
    )
    group.addoption(
        "--onceproof-out", metavar="DIR", help=f"folder for failures; default: {FOLDER} in the rootdir"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Export the seed before pytest imports a conftest file that may read it."""
    options = early_config.known_args_namespace
    try:
        _export_seed(early_config, options.onceproof_seed, getattr(options, "hypothesis_profile", None))
    except ProfileError as error:
        raise pytest.UsageError(str(error)) from None


def _export_seed(config: pytest.Config, asked: str | None, hypothesis_profile: str | None) -> None:
    """Set ONCEPROOF_SEED until pytest ends: to the option, or to a new seed of the nightly profile."""
    profile = hypothesis_profile or chosen_profile()
    before = os.environ.get(SEED_VARIABLE)
    if asked is not None:
        os.environ[SEED_VARIABLE] = str(new_seed()) if asked == RANDOM else asked
    elif profile == NIGHTLY:
        settled_seed(profile)
    given_seed()
    if os.environ.get(SEED_VARIABLE) != before:
        config.add_cleanup(lambda: _set_variable(SEED_VARIABLE, before))


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; in a worker of pytest-xdist, take the seed of the controller."""
    config.addinivalue_line("markers", f"{_MARK}(plan): set by the decorator onceproof.exactly_once")
    worker_input = getattr(config, "workerinput", {})
    if _WORKER_SEED in worker_input:
        _set_variable(SEED_VARIABLE, worker_input[_WORKER_SEED])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the seed to a worker of pytest-xdist, so that all workers use the same one."""
    node.workerinput[_WORKER_SEED] = os.environ.get(SEED_VARIABLE)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Print the seed if it is not the default."""
    seed = given_seed()
    if seed is None:
        return None
    profile = config.getoption("hypothesis_profile", None) or chosen_profile()
    return f"onceproof: profile {profile}, seed {seed}; repeat with --onceproof-seed {seed}"


def _plan_parts(item: pytest.Item) -> dict[str, PlanPart]:
    """Return the parts of all decorators of a test, the topmost first, by their test ids."""
    plans = [plan for mark in item.iter_markers(_MARK) for plan in mark.args][::-1]
    if not plans or not all(isinstance(plan, ScenarioPlan) for plan in plans):
        raise pytest.UsageError(f"{item.nodeid}: use the decorator onceproof.exactly_once, not its marker")
    try:
        return split_plans(
            plans,
            item.config.getoption("onceproof_scenarios"),
            _replay_file(item),
            lambda path: _resolve_path(item, path),
        )
    except PlanError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def _replay_file(item: pytest.Item) -> Path | None:
    """Return the file of --onceproof-replay, relative to the folder in which pytest was started."""
    file = item.config.getoption("onceproof_replay")
    return None if file is None else item.config.invocation_params.dir / file


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a decorated test: one test per shard and per regression file."""
    if metafunc.definition.get_closest_marker(_MARK) is None:
        return
    parts = _plan_parts(metafunc.definition)
    if len(parts) > 1:
        metafunc.fixturenames.append(_PART)
        metafunc.parametrize(_PART, list(parts.values()), ids=list(parts))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the scenarios of a decorated test before its body."""
    if item.get_closest_marker(_MARK) is None:
        return
    parameters = getattr(item, "callspec", None)
    own = None if parameters is None else parameters.params.get(_PART)
    for part in (own,) if own is not None else _plan_parts(item).values():
        _onceproof_of(item).run(part)
