"""The pace of campaigns on simulated machines: fast, slow, and slower than they were."""

from __future__ import annotations

import pytest

from onceproof.harness.campaign.pace import (
    JUDGED_AT_ONCE,
    LARGEST_WAVE,
    LONGEST_WAVE_SECONDS,
    MOST_TASKS,
    Pace,
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

    def wave(self, pace: Pace, first: int, count: int) -> None:
        until = pace.start_deadline(first, count, self.now)
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
        pace.record_judgement(seconds)

    def campaign(self, pace: Pace) -> int:
        first = 0
        while count := pace.next_count(first, self.now):
            self.wave(pace, first, count)
            first += count
            if pace.is_judging_due or not pace.next_count(first, self.now):
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
    done = machine.campaign(Pace(2, None, 60.0, 40, 4_000, 120.0))
    assert done >= 4_000
    assert machine.now < 125.0
    if speed == 600:
        # What fits takes no further time.
        assert machine.now < 63.0


def test_least_scenarios_end_at_their_own_limit_on_a_machine_that_is_too_slow() -> None:
    machine = Machine(5.0, 10.0, 9.0)
    assert 200 < machine.campaign(Pace(2, None, 60.0, 40, 4_000, 120.0)) < 1_200
    assert machine.now < 125.0


def test_scenarios_beyond_the_least_ones_are_not_run_behind_the_time_limit() -> None:
    machine = Machine(5.0, 50.0, 9.0)
    assert machine.campaign(Pace(2, None, 60.0, 40, 4_000, 120.0)) == 4_000


def test_a_campaign_is_judged_at_its_end_and_a_huge_one_in_between() -> None:
    small, huge = Machine(5.0, 600, 1.0), Machine(5.0, 600, 1.0)
    small.campaign(Pace(2, JUDGED_AT_ONCE - 1, None))
    huge.campaign(Pace(2, 20 * JUDGED_AT_ONCE, None))
    assert small.judged == [JUDGED_AT_ONCE - 1]
    assert max(huge.judged) < JUDGED_AT_ONCE + LARGEST_WAVE


def test_every_family_is_in_the_first_wave_even_if_it_starts_late() -> None:
    assert Pace(2, None, 5.0, 30).next_count(0, 4.0) == 30


def test_a_first_wave_runs_even_if_spark_took_all_the_time() -> None:
    machine = Machine(8.0, 200, 0.5)
    assert 0 < machine.campaign(Pace(2, None, 5.0)) <= 200
    assert machine.now < 12


@pytest.mark.parametrize(
    ("scenarios", "waves"), [(0, []), (1, [1]), (20_000, [20_000]), (50_000, [16_667, 16_667, 16_666])]
)
def test_a_campaign_with_a_number_of_scenarios_has_few_and_equal_waves(
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


def test_every_core_has_several_tasks_and_no_wave_has_too_many() -> None:
    pace = Pace(4, None, None)
    assert pace.tasks_of(30, 3) == 6
    assert pace.tasks_of(20_000, 4) == 25
    pace.record_wave(500, 1.0)
    assert pace.tasks_of(20_000, 4) == 50
    assert pace.tasks_of(10**7, 4) == MOST_TASKS


def test_a_resumed_campaign_measures_its_speed_in_a_small_wave_of_its_own() -> None:
    pace = Pace(2, None, 60.0)
    pace.record_found(JUDGED_AT_ONCE)
    assert pace.is_judging_due
    # Nothing is known of the speed, although the first scenarios are there.
    assert pace.next_count(JUDGED_AT_ONCE, 5.0) == pace.next_count(0, 5.0) > 0
