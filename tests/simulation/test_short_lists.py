"""Sources in the simulation that list one split less for a while."""

from __future__ import annotations

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog, SimulatedTopic
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

WORD_COUNT = load_family("word_count")
SHORT = Fault("short_list", "completed", checkpoint=1, delay=400)
KILL = Fault("kill_all", "element", occurrence=40)


def test_list_lacks_the_split_with_the_most_left_while_it_is_short() -> None:
    log = SimulatedLog({"a": ((1, "x"), (2, "y")), "b": ((3, "x"), (4, "y")), "c": ((5, "z"),)})
    log.open_split("a", None).read(1)
    short = [True]
    log.list_short(lambda: short[0])
    assert list(log.splits()) == list(SimulatedTopic(log).splits()) == ["a", "c"]
    assert log.open_split("b", 1).read(5) == [("y", 4)], "it can be read all the same"
    short[0] = False
    assert list(log.splits()) == ["a", "b", "c"]


def test_job_without_a_checkpoint_lists_all_splits() -> None:
    world = World(WORD_COUNT, scenario_with())
    log = world.job._log
    world.faults.list_short(Fault("short_list", "completed", delay=1_000_000))
    assert list(log.splits()) == ["x", "y"]
    world.run()
    assert len(log.splits()) == 1


def test_restored_job_reads_the_split_that_is_not_listed() -> None:
    trial = try_scenario(WORD_COUNT, scenario_with(SHORT, KILL), continued=False)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["short_list", "completed"] == 1
    restored = [event[3]["restored"] for event in trial.history.events if event[1] == ATTEMPT_STARTED]
    assert restored == [None, 1]


def test_restore_that_drops_what_is_not_listed_loses_rows() -> None:
    with find_mutant("splits-that-are-not-listed-lose-their-position").applied():
        trial = try_scenario(WORD_COUNT, scenario_with(SHORT, KILL), continued=False)
    assert ("exactly_once", "lost") in [(each.property, each.anomaly) for each in trial.verdict.violations]
