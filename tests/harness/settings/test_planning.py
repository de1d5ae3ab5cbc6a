"""Plans of runs: the command line overrides pyproject.toml, and that overrides the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.system import find_system
from onceproof.harness.settings.planning import CAMPAIGN, RUN, RunOptions, plan_run
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.trials.runner import load_families, refuse_upgrades

SETTINGS = Settings(
    families=("page_views",),
    scenarios=50,
    max_time=3.0,
    seed=7,
    system="local",
    workers=3,
    shrink_runs=15,
    out=Path("build"),
    known=(KnownSignature("page_views", "exactly_once", "lost"),),
)


def test_a_real_system_runs_for_a_time_where_nothing_is_said() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(families=["word_count"], system="local"))
    assert (wanted.scenarios, wanted.max_time) == (None, 300.0)
    asked = plan_run(Settings(scenarios=7), RUN, RunOptions(families=["word_count"], system="local"))
    assert (asked.scenarios, asked.max_time) == (7, None)


def test_default_plan_runs_all_families_for_1000_scenarios() -> None:
    wanted = plan_run(Settings(), RUN)
    assert wanted.families == tuple(family_names())
    assert (wanted.scenarios, wanted.max_time, wanted.seed) == (1000, None, 0)
    assert (wanted.system, wanted.workers, wanted.out) == ("simulated", None, Path("reports/out/run"))
    assert wanted.known == ()


def test_simulation_runs_all_built_in_families() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system="simulated"))
    assert wanted.families == tuple(family_names())
    assert (wanted.refused, wanted.takes_all) == ((), True)


def test_local_runs_all_built_in_families_but_those_that_are_upgraded() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system="local"))
    upgraded = [name for name in family_names() if options_of(load_family(name)).upgraded is not None]
    assert wanted.refused == tuple((name, "it does not upgrade jobs") for name in upgraded) != ()
    assert sorted((*wanted.families, *upgraded)) == family_names()
    refuse_upgrades(load_families(wanted.families), find_system("local"))


@pytest.mark.parametrize("system", ["spark", "relay"])
def test_systems_without_servers_leave_out_the_families_that_need_one(system: str) -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system=system))
    needing = {name for name in family_names() if options_of(load_family(name)).servers}
    refused = {name for name, reason in wanted.refused if "the family needs" in reason}
    assert refused == needing != set()
    assert sorted((*wanted.families, *dict(wanted.refused))) == family_names()


def test_structured_streaming_runs_only_families_with_a_query() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system="structured_streaming"))
    assert {"word_count", "page_views", "running_sum", "flights", "word_table"} == set(wanted.families)
    assert sorted((*wanted.families, *dict(wanted.refused))) == family_names()
    assert set(dict(wanted.refused).values()) == {
        "the family has no job for structured_streaming",
        *(reason for reason in dict(wanted.refused).values() if "it starts no server" in reason),
    }
    named = plan_run(Settings(), RUN, RunOptions(system="structured_streaming", families=["word_commits"]))
    assert (named.families, named.refused, named.takes_all) == (("word_commits",), (), False)


def test_bytewax_runs_only_families_with_a_flow() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system="bytewax"))
    assert {"word_count", "page_windows", "running_sum"} == set(wanted.families)


def test_quix_runs_only_families_with_an_application() -> None:
    wanted = plan_run(Settings(), RUN, RunOptions(system="quix"))
    assert {"word_count", "early_totals", "running_sum"} == set(wanted.families)


def test_settings_are_used() -> None:
    wanted = plan_run(SETTINGS, CAMPAIGN)
    assert wanted.families == ("page_views",)
    assert (wanted.scenarios, wanted.max_time, wanted.seed) == (50, 3.0, 7)
    assert (wanted.system, wanted.workers, wanted.out) == ("local", 3, Path("build/campaign"))
    assert (wanted.shrink_runs, wanted.known) == (15, SETTINGS.known)


def test_options_override_the_settings() -> None:
    wanted = plan_run(
        SETTINGS,
        RUN,
        RunOptions(
            families=["word_count"],
            scenarios=0,
            seed=0,
            system="simulated",
            workers=1,
            shrink_runs=0,
            out=Path("here"),
        ),
    )
    assert wanted.families == ("word_count",)
    assert (wanted.scenarios, wanted.seed) == (0, 0)
    assert (wanted.system, wanted.workers, wanted.out) == ("simulated", 1, Path("here"))
    assert wanted.shrink_runs == 0
    # The setting of the other limit is ignored.
    assert wanted.max_time is None
    assert plan_run(SETTINGS, RUN, RunOptions(max_time=1.0)).scenarios is None
