"""The automaton finds the matches that Flink's documentation lists."""

import pytest

from onceproof.engine.cep.automaton import Automaton
from onceproof.engine.cep.pattern import MalformedPatternException, Pattern
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy
from onceproof.engine.durations import Duration
from tests.engine.cep.pattern_cases import Events

LOOP = "a b1 d1 b2 d2 b3 c"


def of(letter):
    return lambda event: event.startswith(letter)


def begin(letter="a", skip=None):
    return Pattern.begin(letter, skip).where(of(letter))


def found(pattern, events, step_ms=1):
    """Return the matches as texts; the state is stored and loaded after each event."""
    automaton, data, matches, kept = Automaton(pattern), None, [], Events()
    for place, event in enumerate(events.split()):
        state = automaton.load(data, kept)
        matches += automaton.advance_time(state, place * step_ms)[0]
        matches += automaton.process(state, event, place * step_ms)
        data = state.store()
    state = automaton.load(data, kept)
    matches += automaton.advance_time(state, 1_000_000)[0]
    return sorted(" ".join(event for events in match.values() for event in events) for match in matches)


@pytest.mark.parametrize(
    ("contiguity", "expected"),
    [
        (Pattern.consecutive, ["a b1 c", "a b2 c", "a b3 c"]),
        (
            lambda pattern: pattern,
            ["a b1 b2 b3 c", "a b1 b2 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"],
        ),
        (
            Pattern.allow_combinations,
            ["a b1 b2 b3 c", "a b1 b2 c", "a b1 b3 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"],
        ),
    ],
)
def test_loop_finds_what_its_contiguity_allows(contiguity, expected):
    loop = contiguity(begin().followed_by_any("b").where(of("b")).one_or_more())
    assert found(loop.followed_by("c").where(of("c")), LOOP) == expected


@pytest.mark.parametrize(
    ("follow", "expected"),
    [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])],
)
def test_next_event_is_found_by_the_contiguity(follow, expected):
    assert found(getattr(begin(), follow)("b").where(of("b")), "a c b1 b2") == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (AfterMatchSkipStrategy.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_past_last_event(), ["b1 b2 b3 c"]),
        (AfterMatchSkipStrategy.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
    ],
)
def test_match_discards_others_by_the_strategy(skip, expected):
    pattern = begin("b", skip).one_or_more().consecutive().next("c").where(of("c"))
    assert found(pattern, "b1 b2 b3 c") == expected


def test_pattern_that_must_not_occur_discards_the_match():
    pattern = begin().not_followed_by("c").where(of("c")).followed_by("b").where(of("b"))
    assert found(pattern, "a1 c a2 b") == ["a2 b"]
    pattern = begin().not_next("c").where(of("c")).followed_by("b").where(of("b"))
    assert found(pattern, "a1 c a2 d b") == ["a2 b"]


def test_pattern_that_must_not_follow_at_the_end_waits_for_the_window():
    pattern = begin().not_followed_by("c").where(of("c")).within(Duration.of_millis(10))
    assert found(pattern, "a1 d c a2 d") == ["a2"]
    with pytest.raises(MalformedPatternException, match="without windowTime"):
        Automaton(begin().not_followed_by("c").where(of("c")))


def test_group_repeats_as_a_whole():
    group = Pattern.begin("b").where(of("b")).next("c").where(of("c"))
    pattern = begin().next(group).times(2).consecutive().next("d").where(of("d"))
    assert found(pattern, "a b1 c1 b2 c2 d") == ["a b1 b2 c1 c2 d"]
    assert found(pattern, "a b1 c1 d") == []


def test_until_ends_a_loop():
    loop = begin().followed_by("b").where(of("b")).one_or_more().greedy().until(of("x"))
    assert found(loop.followed_by("c").where(of("c")), "a b1 b2 x b3 c") == ["a b1 b2 c"]


def test_match_under_way_times_out_with_its_events():
    automaton = Automaton(begin().followed_by("b").where(of("b")).within(Duration.of_millis(10)))
    kept = Events()
    state = automaton.load(None, kept)
    automaton.process(state, "a1", 5)
    assert automaton.advance_time(state, 14) == ([], [])
    assert automaton.advance_time(state, 15) == ([], [({"a": ["a1"]}, 15)])
    assert state.store() is None
    assert not kept
