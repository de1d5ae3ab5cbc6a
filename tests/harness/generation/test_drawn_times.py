"""Dates at which scenarios start, and the time that passes in them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.explanation.decisions import decisions_of
from onceproof.harness.generation import drawn_times
from onceproof.harness.generation.drawn_times import (
    DATES_MS,
    HOUR_MS,
    LONG_AGO_MS,
    YEAR_MS,
    draw_start,
)
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario, from_json, to_json
from onceproof.harness.shrinking.reductions import simpler_settings

LATELY = Path(__file__).parents[1] / "lately.py"
NOON_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(str(LATELY))


def jumps(scenario: Scenario) -> list[int]:
    return [fault.delay for fault in scenario.faults if fault.kind == "clock_ahead"]


def test_time_passes_in_a_share_and_all_else_is_as_it_was(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_time = [generate(family, seed) for seed in range(600)]
    monkeypatch.setattr(drawn_times, "PASSING_TIME", 0.0)
    without = [generate(family, seed) for seed in range(600)]
    passing = [one for one, other in zip(with_time, without, strict=True) if one != other]
    assert 0.25 < len(passing) / 600 < 0.35
    for one, other in zip(with_time, without, strict=True):
        assert replace(one, faults=other.faults) == other
        assert one.faults[: len(other.faults)] == other.faults
        assert {fault.kind for fault in one.faults[len(other.faults) :]} <= {"clock_ahead"}


def test_a_fair_share_of_the_times_is_longer_than_a_minute_an_hour_and_a_day(family: Family) -> None:
    longest = [max(jumps(generate(family, seed)), default=0) for seed in range(1000)]
    assert sum(each > 60_000 for each in longest) > 150
    assert sum(each > HOUR_MS for each in longest) > 15
    assert max(longest) > 24 * HOUR_MS


def test_scenarios_of_a_user_start_at_dates_and_come_back_from_json(family: Family) -> None:
    scenarios = [generate(family, seed) for seed in range(100)]
    assert all(each.started_ms is not UNSET for each in scenarios)
    assert len({each.starts_at_ms for each in scenarios}) > 50
    assert all(from_json(to_json(each)) == each for each in scenarios)


def test_built_in_families_mean_what_they_meant() -> None:
    for seed in range(50):
        scenario = generate(load_family("word_count"), seed)
        assert (scenario.started_ms, scenario.starts_at_ms) == (UNSET, 0)
        assert "started_ms" not in to_json(scenario)


def test_event_times_that_are_dates_are_equal_or_an_hour_or_a_year_behind() -> None:
    records = {"a": [], "b": [(NOON_MS, "x"), (NOON_MS + 5, "y")]}
    starts = [draw_start(Chance(Random(seed)), records) for seed in range(600)]
    found = Counter(start - NOON_MS for start in starts)
    for behind in (0, HOUR_MS, YEAR_MS):
        assert found[behind] > 120
    assert all(DATES_MS[0] <= start <= DATES_MS[1] + YEAR_MS for start in starts)


@pytest.mark.parametrize("first", [0, LONG_AGO_MS - 1, -5, 2**62])
def test_most_starts_are_dates_where_event_times_are_none(first: int) -> None:
    starts = [draw_start(Chance(Random(seed)), {"a": [(first, "x")]}) for seed in range(300)]
    dates = sum(DATES_MS[0] <= start <= DATES_MS[1] for start in starts)
    assert dates > 180
    assert min(starts) >= 0


def test_start_that_does_not_matter_is_left_out_of_a_failure(family: Family) -> None:
    scenario = generate(family, 3)
    assert any(each == replace(scenario, started_ms=UNSET) for each in simpler_settings(scenario))
    without = {each.text: each.without for each in decisions_of(scenario)}
    [text] = [each for each in without if each.startswith("a clock that starts at ")]
    assert without[text] == replace(scenario, started_ms=UNSET)
