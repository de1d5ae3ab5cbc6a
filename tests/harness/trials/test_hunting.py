"""Hunts: stored, read back, going on, and sharing their scenarios out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.generation.generator import GENERATION, UNAIMED, USUAL, generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.hunt_state import (
    STATE_FILE,
    HuntError,
    HuntState,
    read_state,
    write_state,
)
from onceproof.harness.trials.hunting import EXHAUSTED_TURNS, SIZE, Hunt
from onceproof.harness.trials.pool import Batch, Done, Start
from onceproof.harness.trials.trial import SIMULATED
from onceproof.harness.trials.worker import LoadedRun
from tests.harness.trials.test_tally import outcome

WORD_COUNT, TICKETS = load_family("word_count"), load_family("tickets")


def silent(text: str) -> None:
    """Say nothing."""


def run(hunt: Hunt, families: list[Family], batches: int) -> None:
    """Run batches of a hunt in this process."""
    loaded = LoadedRun(Start(0, (), SIMULATED.name, watches=True), families, SIMULATED)
    for batch in islice(hunt.batches(), batches):
        hunt.take(loaded.run_batch(batch))


def state_of(hunt: Hunt) -> HuntState:
    """Return the stored moment of a hunt without findings."""
    return HuntState(
        onceproof="1",
        names=["word_count"],
        seed=0,
        started="2026-11-26T02:00:00+00:00",
        seconds=1.5,
        sessions=1,
        families=hunt.stored_families(),
        fired=dict(hunt.tally.fired),
        planned=dict(hunt.tally.planned),
        points=dict(hunt.tally.points),
        rescales=hunt.tally.rescales,
        findings=[],
    )


@pytest.fixture(scope="module")
def hunted() -> Hunt:
    """Return a hunt of two batches of usual scenarios and one without patterns."""
    hunt = Hunt([WORD_COUNT], 1000, silent)
    run(hunt, [WORD_COUNT], 3)
    return hunt


def test_stored_hunt_is_read_back_as_it_was(hunted: Hunt, tmp_path: Path) -> None:
    write_state(tmp_path, state_of(hunted))
    read = read_state(tmp_path)
    assert read == state_of(hunted)
    assert state_of(Hunt([WORD_COUNT], 1000, silent, read)) == read


def test_hunt_goes_on_behind_its_last_scenarios(hunted: Hunt) -> None:
    again = Hunt([WORD_COUNT], 1000, silent, state_of(hunted))
    usual, unaimed = islice(again.batches(), 2)
    assert (usual.first, usual.unaimed) == (2 * SIZE, False)
    assert (unaimed.first, unaimed.unaimed) == (SIZE, True)
    assert again.tally.scenarios == hunted.tally.scenarios == 3 * SIZE


def test_stopped_hunt_ends_as_one_that_was_not(hunted: Hunt) -> None:
    stopped = Hunt([WORD_COUNT], 1000, silent)
    run(stopped, [WORD_COUNT], 2)
    again = Hunt([WORD_COUNT], 1000, silent, state_of(stopped))
    run(again, [WORD_COUNT], 1)
    (one,), (other,) = again.stored_families(), hunted.stored_families()
    # All but the time that it took.
    assert replace(one, milliseconds=0.0) == replace(other, milliseconds=0.0)


def test_usual_scenarios_are_those_of_a_run(hunted: Hunt) -> None:
    (state,) = hunted.stored_families()
    assert state.seeds == [scenario_seed(0, "word_count", number) for number in range(5)]
    assert (state.usual, state.unaimed, state.scenarios) == (2 * SIZE, SIZE, 3 * SIZE)


@pytest.mark.parametrize(("unaimed", "seed"), [(False, 5), (True, None)])
def test_failure_has_its_seed_where_a_replay_by_seed_gives_it(unaimed: bool, seed: int | None) -> None:
    hunt = Hunt([WORD_COUNT], 1000, silent)
    violation = ("exactly_once", "lost", "somewhere", "{}")
    line = to_line(outcome(seed=5, passed=False, signature=violation[:2], violations=(violation,)))
    batch = next(each for each in hunt.batches() if each.unaimed == unaimed)
    (new,) = hunt.take(answered(batch, [line, line], 1))
    assert new.key == ("word_count", ("exactly_once", "lost"))
    assert new.scenario.seed == seed
    drawn = generate(WORD_COUNT, 5, UNAIMED if unaimed else USUAL)
    assert replace(new.scenario, seed=5) == drawn
    assert hunt.tally.groups[new.key].count == 2


def answered(batch: Batch, lines: Iterable[bytes], state: int) -> Done:
    """Return an answer whose scenarios were all in one state."""
    kept = tuple(lines)
    states = ((state,),) * len(kept)
    return Done(batch.first, kept, 0.1, place=batch.place, states=states, unaimed=batch.unaimed)


def test_exhausted_family_gives_its_share_away_until_it_meets_something_new() -> None:
    said: list[str] = []
    hunt = Hunt([WORD_COUNT, TICKETS], 4 * SIZE, said.append)
    lines = [outcome_lines("word_count"), outcome_lines("tickets")]
    turns = [0, 0]
    for number, batch in enumerate(islice(hunt.batches(), 300), 1):
        assert batch.place is not None
        turns[batch.place] += 1
        # The first family is always in the same state, the second always in a new one.
        hunt.take(answered(batch, lines[batch.place], batch.place and number))
    assert list(hunt.exhausted()) == ["word_count"]
    assert len(said) == 1
    assert said[0].startswith("word_count is exhausted: nothing new in its last 32 scenarios beside")
    assert turns[0] < turns[1] / (EXHAUSTED_TURNS / 2)
    batch = next(each for each in hunt.batches() if each.place == 0)
    hunt.take(answered(batch, lines[0], 12345))
    assert said[1].startswith("word_count has met something new again")


def outcome_lines(family: str) -> list[bytes]:
    """Return lines of scenarios of a family in which nothing happened."""
    seeds = [scenario_seed(0, family, number) for number in range(SIZE)]
    return [to_line(outcome(family=family, seed=seed)) for seed in seeds]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format_version": 99}, "format version 99 is newer than 1"),
        ({"generation": GENERATION - 1}, f"generation {GENERATION - 1}"),
        ({"seconds": "long"}, "no state of a hunt"),
        ({"unknown": 1}, "no state of a hunt"),
    ],
)
def test_state_of_another_version_or_a_damaged_one_is_refused(
    hunted: Hunt, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    stored = msgspec.to_builtins(state_of(hunted)) | change
    (tmp_path / STATE_FILE).write_text(json.dumps(stored))
    with pytest.raises(HuntError) as refused:
        read_state(tmp_path)
    assert says in str(refused.value)
    assert str(tmp_path / STATE_FILE) in str(refused.value)


def test_folder_without_a_hunt_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
