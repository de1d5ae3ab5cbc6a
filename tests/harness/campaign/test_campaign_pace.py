"""The pace of campaigns on simulated machines: fast, slow, and slower than they were."""

from __future__ import annotations

import pytest

from onceproof.harness.campaign.pace import (
    JUDGED_AFTER_SECONDS,
    LARGEST_WAVE,
    LONGEST_WAVE_SECONDS,
    Pace,
    by_turns,
)


class Machine:
    """Says how long waves take, and how many scenarios came to be."""

    def __init__(self, start: float, speed: float, judging: float, slower_from: float = 1e9) -> None:
        self.now = start
        """Seconds since the campaign began; Spark takes some of them to start."""
        self._speed = speed
        self._judging = judging
        self._slower_from = slower_from
        self._unjudged = 0
        self.waves: list[int] = []
        self.judged: list[int] = []

    def wave(self, pace: Pace, count: int, until: float | None) -> None:
        begun = self.now
        done = 0
        while done < count and (until is None or self.now < until):
            slowness = 5.0 if self.now > self._slower_from else 1.0
            done += 1
            self.now += slowness / self._speed
        pace.record_wave(done, self.now - begun)
        self.waves.append(done)
        self._unjudged += done

    def judge(self, pace: Pace) -> None:
        cold = 1.0 if self.judged else 2.0
        seconds = cold * self._judging + self._unjudged / 10_000
        self.now += seconds
        self.judged.append(self._unjudged)
        self._unjudged = 0
        pace.record_judgement(pace.begin_judgement(), seconds)

    def campaign(self, pace: Pace, least: int = 0) -> int:
        first = 0
        while size := pace.next_wave(first, self.now, max(least - sum(self.waves), 0)):
            self.wave(pace, *size)
            first += size.scenarios
            if pace.is_judging_due or not pace.next_wave(first, self.now, max(least - sum(self.waves), 0)):
                self.judge(pace)
        assert sum(self.judged) == sum(self.waves)
        return sum(self.waves)


@pytest.mark.parametrize("seconds", [30, 60, 300])
@pytest.mark.parametrize("speed", [100, 600, 2000])
@pytest.mark.parametrize("judging", [0.5, 1.2])
@pytest.mark.parametrize("slower_from", [1e9, 22.0])
def test_a_campaign_ends_within_a_tenth_of_its_time(
    seconds: float, speed: float, judging: float, slower_from: float
) -> None:
    machine = Machine(5.0, speed, judging, slower_from)
    done = machine.campaign(Pace(2, None, seconds))
    assert 0.9 * seconds < machine.now < 1.1 * seconds
    if slower_from > seconds:
        # Most of the time is spent on scenarios.
        assert done > 0.6 * speed * (seconds - 5.0)


@pytest.mark.parametrize("speed", [100, 600])
def test_thirty_families_leave_most_of_a_minute_to_simulation(speed: float) -> None:
    machine = Machine(5.0, speed, 9.0)
    done = machine.campaign(Pace(2, None, 60.0, 30))
    assert done > 30.0 * speed
    assert len(machine.judged) == 1
    assert machine.now < 63.0


@pytest.mark.parametrize("speed", [50, 100, 600])
def test_each_family_gets_its_least_scenarios_behind_the_time_limit(speed: float) -> None:
    machine = Machine(5.0, speed, 9.0)
    done = machine.campaign(Pace(2, None, 60.0, 40, 120.0), 4_000)
    assert done >= 4_000
    assert machine.now < 125.0
    if speed == 600:
        # What fits takes no further time.
        assert machine.now < 63.0


def test_least_scenarios_end_at_their_own_limit_on_a_machine_that_is_too_slow() -> None:
    machine = Machine(5.0, 10.0, 9.0)
    assert 200 < machine.campaign(Pace(2, None, 60.0, 40, 120.0), 4_000) < 1_200
    assert machine.now < 125.0


def test_scenarios_beyond_the_least_ones_are_not_run_behind_the_time_limit() -> None:
    machine = Machine(5.0, 50.0, 9.0)
    # All families have as many, so the last round is whole.
    assert 4_000 <= machine.campaign(Pace(2, None, 60.0, 40, 120.0), 4_000) < 4_000 + 40


@pytest.mark.parametrize(("speed", "reaches"), [(300.0, True), (10.0, True), (5.0, False), (0.3, False)])
def test_a_machine_under_load_gets_the_time_that_the_least_takes_up_to_the_limit(
    speed: float, reaches: bool
) -> None:
    machine = Machine(40.0, speed, 40.0)
    done = machine.campaign(Pace(2, None, 60.0, 88, 1_800.0), 8_800)
    assert (done >= 8_800) is reaches
    assert machine.now < (200.0 if speed == 300.0 else 1_900.0)


def test_families_have_as_many_scenarios_wherever_a_wave_is_cut_off() -> None:
    unfinished = [list(range(100)) for _ in range(88)]
    turns = list(by_turns(unfinished, [25] * 88))
    for cut in range(len(turns)):
        had = [0] * 88
        for place, part in turns[:cut]:
            had[place] += len(part)
        assert max(had) - min(had) <= 25
    assert [number for place, part in turns for number in part if place == 3] == list(range(100))
    # Of a resumed campaign a part is there.
    assert list(by_turns([[4, 5, 6], [], [7]], [2, 2, 2])) == [(0, [4, 5]), (2, [7]), (0, [6])]


def test_a_small_wave_of_many_families_has_few_tasks_that_take_alike() -> None:
    pace = Pace(2, None, None)
    pace.record_wave(1_000, 10.0)
    costs = [0.008, 0.02, 0.079, 0.0] * 15
    unfinished = [list(range(30)) for _ in costs]
    parts = list(by_turns(unfinished, pace.turns_of(30 * 60, costs)))
    tasks = list(pace.tasks_of(iter(parts), costs))
    # Each part has about a second of work, each task a quarter of what its core has to do.
    assert 8 <= len(tasks) <= 10
    seconds = [sum(len(turns) * (costs[place] or 0.02) for place, turns in task.items()) for task in tasks]
    assert max(seconds) <= sum(seconds) / 8 + 1e-9
    every = [(place, turn) for task in tasks for place, turns in task.items() for turn in turns]
    assert sorted(every) == [(place, turn) for place in range(60) for turn in range(30)]


def test_parts_of_a_family_in_one_task_are_one() -> None:
    pace = Pace(2, None, 60.0)
    assert (
        list(pace.tasks_of([(0, [0, 1]), (1, [0]), (0, [2, 3]), (1, [1])] * 2, [0.1, 0.1]))
        == [
            {0: [0, 1]},
            {1: [0]},
            {0: [2, 3]},
            {1: [1]},
        ]
        * 2
    )
    whole = [(place, [turn]) for turn in range(16) for place in range(2)]
    assert next(pace.tasks_of(whole, [0.1, 0.1])) == {0: [0, 1], 1: [0, 1]}
    assert list(pace.tasks_of([], [])) == []


def test_a_campaign_is_judged_at_its_end_and_a_long_one_in_between() -> None:
    short, long = Machine(5.0, 600, 1.0), Machine(5.0, 600, 1.0)
    short.campaign(Pace(2, 300_000, None))
    long.campaign(Pace(2, 6_000_000, None))
    assert short.judged == [300_000]
    assert max(long.judged) < 600 * (JUDGED_AFTER_SECONDS + 2 * LONGEST_WAVE_SECONDS)


def test_every_family_is_in_the_first_wave_even_if_it_starts_late() -> None:
    assert Pace(2, None, 5.0, 30).next_wave(0, 4.0) == (30, 5.0)


def test_a_first_wave_runs_even_if_spark_took_all_the_time() -> None:
    machine = Machine(8.0, 200, 0.5)
    assert 0 < machine.campaign(Pace(2, None, 5.0)) <= 200
    assert machine.now < 12


@pytest.mark.parametrize(
    ("scenarios", "waves"),
    [(0, []), (1, [1]), (200, [200]), (10_000, [200, 9_800]), (30_200, [200, 15_000, 15_000])],
)
def test_a_campaign_measures_its_speed_and_then_has_few_and_equal_waves(
    scenarios: int, waves: list[int]
) -> None:
    machine = Machine(5.0, 600, 1.0)
    assert machine.campaign(Pace(2, scenarios, None)) == scenarios
    assert machine.waves == waves


def test_the_first_of_two_limits_ends_a_campaign() -> None:
    assert Machine(5.0, 600, 1.0).campaign(Pace(2, 1000, 60.0)) == 1000
    assert Machine(5.0, 600, 1.0).campaign(Pace(2, 1_000_000, 20.0)) < 10_000


def test_no_wave_exceeds_its_time_limit() -> None:
    machine = Machine(5.0, 600, 1.0)
    machine.campaign(Pace(2, None, 3600.0))
    assert max(machine.waves) <= min(LONGEST_WAVE_SECONDS * 600, LARGEST_WAVE)


def test_every_core_has_several_tasks_which_are_longer_in_long_waves() -> None:
    pace = Pace(4, None, None)
    # Two scenarios of each family follow each other, in five tasks.
    assert pace.turns_of(30, [0.0] * 3) == [2] * 3
    assert pace.turns_of(20_000, [0.0] * 4) == [200] * 4
    pace.record_wave(500, 1.0)
    # A wave of 30 seconds has tasks of 7.5 seconds.
    assert pace.turns_of(15_000, [0.008] * 4) == [938] * 4


def test_a_dear_family_has_more_tasks_so_that_none_of_them_takes_long() -> None:
    pace = Pace(2, None, None)
    pace.record_wave(56, 1.0)
    costs = [0.008, 0.02, 0.079] * 4
    turns = pace.turns_of(56 * 30, costs)
    assert turns == [140, 140, 70] * 4
    assert max(turn * cost for turn, cost in zip(turns, costs, strict=True)) < 30.0 / 4


@pytest.mark.parametrize("speed", [1.0, 30.0, 600.0, 5_000.0])
def test_a_wave_that_may_be_cut_off_gives_each_family_several_turns(speed: float) -> None:
    pace = Pace(2, None, 60.0, 88)
    pace.record_wave(1_000, 1_000 / speed)
    for each in (1, 3, 40, 200):
        [turns] = set(pace.turns_of(each * 88, [0.0] * 88))
        assert turns <= max(1 if speed < 5 else 4, each / 3)


def test_a_resumed_campaign_measures_its_speed_in_a_small_wave_of_its_own() -> None:
    pace = Pace(2, None, 60.0)
    pace.record_found(50_000)
    # Nothing is known of the speed, although the first scenarios are there.
    waves = [pace.next_wave(first, 5.0) for first in (50_000, 0)]
    assert [wave and wave.scenarios for wave in waves] == [200, 200]
