"""Patterns over the actions of users, drawn with the actions: Flink's Pattern API under faults.

A pattern has up to three parts: one action, then a run of another, which may be absent, repeat, or not come
after an unwanted action, then a third. Its words are the parameters of the scenario. A match may have to be
complete within a time; those that run out of it give rows as well. Users of different splits differ, so the
order of a user's actions follows from their times, then from their letters, which the comparator sorts, then
from their place in the split. No action comes behind the watermark.

The reference knows no states: it tries all ways to place a pattern in the sorted actions of a user, and asks
of each what comes between the placed actions. Skipping is a second pass over the matches. It is drawn only
for patterns of single actions, where no two matches have the same first and last action, and with a time, so
that no match that never ends holds others back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from onceproof.engine.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Match,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from onceproof.engine.cep.pattern_operator import EVENT_QUEUE_STATE, EVENTS_STATE, NFA_STATE
from onceproof.engine.durations import Duration
from onceproof.engine.operators.time_services import USER_TIMERS
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.timers import EVENT_TIMERS
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.harness.model.scenario import Parameter
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._keyed_job import LABELLED_KEY, LabelledSource, into_table, label_and_key, named

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Action: TypeAlias = tuple[str, str, str, int]
"""Split, user, letter, number."""

name = "drawn_patterns"
generator_version = 1
tasks: dict[str, Role] = {"actions": "source", "matches": "keyed", "table": "sink"}
record_schema = "user STRING, letter STRING, number BIGINT"
row_schema = "split STRING, user STRING, kind STRING, actions STRING, at BIGINT"
oracle_sql = ""

USERS: Final = ("ann", "bob", "cid")
LETTERS: Final = ("a", "b", "c")
FOLLOWS: Final = ("next", "followed_by", "followed_by_any")
NO_SKIP: Final = "no_skip"
SKIPS: Final = ("skip_to_next", "skip_past_last_event")
PARTS: Final = ("first", "second", "third")
MATCHED: Final = "matched"
TIMED_OUT: Final = "timed out"
UNBOUNDED: Final = -1
TICK_MS: Final = 500
"""Many actions are at whole ticks, and a match has some of them, so that it may end on the moment."""

ROW: Final = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])
ACTION: Final = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])
OUT_OF_TIME: Final = OutputTag("out of time", ROW)


class Words(NamedTuple):
    """A pattern, as the parameters of a scenario have it."""

    letters: str
    """Of the parts."""
    follows: str
    """How the second and the third part follow, by a space."""
    unwanted: str = ""
    """The letter that must not come between the first and the second part."""
    least: int = 1
    most: int = 1
    is_strict: bool = False
    """Whether nothing may come between the actions of the second part."""
    is_optional: bool = False
    within_ms: int = 0
    """0: a match may take as long as it will."""
    skip: str = NO_SKIP

    @property
    def is_plain(self) -> bool:
        """Whether each part is one action."""
        return (self.least, self.most) == (1, 1) and not self.is_optional

    def follow(self, part: int) -> str:
        """Return how a part follows the one before it."""
        return self.follows.split()[part - 1]


def words_of(parameters: Mapping[str, Parameter]) -> Words:
    """Return the pattern of a scenario."""
    return Words(**{each: parameters[each] for each in Words._fields})  # type: ignore[arg-type]


def generate(random: Random) -> Workload:
    """Draw a pattern, and up to three splits of actions out of order."""
    chance = Chance(random)
    words = _draw_words(chance)
    users = USERS[: chance.weighted([(1, 3), (2, 3), (3, 1)])]
    records = {}
    for split in range(chance.weighted([(1, 3), (2, 3), (3, 2)])):
        count = chance.weighted([(chance.integer(0, 4), 1), (chance.integer(5, 12), 4), (20, 1)])
        times = event_time.draw_timestamps(chance, count, chance.choice([100, 500]), 0.0, TICK_MS)
        for place in range(1, count):
            if chance.chance(0.25):
                times[place] = times[place - 1]
        records[f"actions-{split}"] = tuple(
            [
                (time, (chance.choice(users), chance.choice(LETTERS), number))
                for number, time in enumerate(times)
            ]
        )
    return Workload(records, words._asdict())


def _draw_words(chance: Chance) -> Words:
    parts = chance.weighted([(2, 2), (3, 3)])
    letters = "".join([chance.choice(LETTERS) for _ in range(parts)])
    follows = [chance.choice(FOLLOWS) for _ in range(parts - 1)]
    within_ms = chance.choice([0, TICK_MS, 3 * TICK_MS, 8 * TICK_MS])
    if chance.chance(0.5):
        others = [each for each in LETTERS if each != letters[1]]
        unwanted = chance.choice(others) if chance.chance(0.3) and follows[0] != "next" else ""
        skip = chance.choice((NO_SKIP, *SKIPS)) if within_ms else NO_SKIP
        if skip != NO_SKIP:
            # Matches that share an action are those that skipping is about.
            letters = letters[:-1] + chance.choice((letters[0], letters[-1]))
            follows = [each.removesuffix("_any") for each in follows]
        return Words(letters, " ".join(follows), unwanted, within_ms=within_ms, skip=skip)
    least, most = chance.choice([(1, 1), (1, UNBOUNDED), (2, UNBOUNDED), (2, 2), (1, 2), (1, 3)])
    is_optional = parts > 2 and chance.chance(0.4)
    is_strict = most != 1 and chance.chance(0.3)
    return Words(letters, " ".join(follows), "", least, most, is_strict, is_optional, within_ms)


def pattern_of(words: Words) -> Pattern:
    """Return the pattern in Flink's words."""
    skip = getattr(AfterMatchSkipStrategy, words.skip)()
    pattern = Pattern.begin(PARTS[0], skip).where(_is(words.letters[0]))
    if words.unwanted:
        pattern = pattern.not_followed_by("unwanted").where(_is(words.unwanted))
    for part, letter in enumerate(words.letters[1:], 1):
        pattern = getattr(pattern, words.follow(part))(PARTS[part]).where(_is(letter))
        if part == 1 and not words.is_plain:
            _repeat(pattern, words)
    if words.within_ms:
        pattern.within(Duration.of_millis(words.within_ms))
    return pattern


def _is(letter: str) -> Any:
    return lambda action: action[2] == letter


def _repeat(pattern: Pattern, words: Words) -> None:
    if words.most == UNBOUNDED:
        pattern.times_or_more(words.least)
    elif words.most > 1:
        pattern.times(words.least, None if words.least == words.most else words.most)
    if words.is_strict:
        pattern.consecutive()
    if words.is_optional:
        pattern.optional()


class Matches(PatternProcessFunction):
    """Emits a row for each match."""

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield _row(match, MATCHED, ctx.timestamp())


class MatchesInOrder(PatternProcessFunction):
    """The same without the time: with skipping, a match may wait for others until their time is over."""

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield _row(match, MATCHED, 0)


class MatchesAndOthers(Matches, TimedOutPartialMatchHandler):
    """Emits a row for each match that runs out of time, too."""

    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield OUT_OF_TIME, _row(match, TIMED_OUT, ctx.timestamp())


def _row(match: Match, kind: str, at: int) -> tuple[Any, ...]:
    actions = [match.get(part, []) for part in PARTS]
    split, user, _, _ = actions[0][0]
    return split, user, kind, _text([[action[3] for action in part] for part in actions]), at


def _text(numbers: Iterable[Iterable[int]]) -> str:
    return "; ".join(" ".join(map(str, part)) for part in numbers)


def by_letter(first: Action, second: Action) -> int:
    """Compare two actions of the same time."""
    return (first[2] > second[2]) - (first[2] < second[2])


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build actions -> matches -> table."""
    words = words_of(io.parameters)
    actions = env.from_source(
        LabelledSource(io.source("actions")), event_time.WATERMARKS, "actions", ACTION
    ).uid("actions")
    by_user = actions.set_parallelism(io.source_parallelism).key_by(label_and_key, LABELLED_KEY)
    function: PatternProcessFunction = MatchesInOrder()
    if words.skip == NO_SKIP:
        function = MatchesAndOthers() if words.is_plain else Matches()
    matches = named(CEP.pattern(by_user, pattern_of(words), by_letter).process(function, ROW), "matches", io)
    into_table(matches.union(matches.get_side_output(OUT_OF_TIME)), io)


class Placed(NamedTuple):
    """A letter at its place among a user's actions."""

    time: int
    letter: str
    number: int


def expected(records: Records, declared: Declared) -> Rows:
    """Place the pattern in the actions of each user in every way."""
    words = words_of(declared.parameters)
    rows = []
    for split, own in records.items():
        users: dict[str, list[Placed]] = defaultdict(list)
        for time, value in own:
            assert isinstance(value, tuple)
            users[str(value[0])].append(Placed(time, str(value[1]), int(value[2] or 0)))
        for user, actions in users.items():
            actions.sort(key=lambda action: action[:2])
            rows += [(split, user, *row) for row in _rows_of(words, actions)]
    return declared.so_far(rows)


def _rows_of(words: Words, actions: Sequence[Placed]) -> Iterator[tuple[str, str, int]]:
    letters = "".join([action.letter for action in actions])
    matches = [
        match
        for match in _placements(words, letters)
        if not words.within_ms or _length_ms(match, actions) < words.within_ms
    ]
    if words.skip != NO_SKIP:
        matches = _kept(words.skip, matches)
    for match in matches:
        at = actions[_last(match)].time if words.skip == NO_SKIP else 0
        yield MATCHED, _numbers(match, actions), at
    if words.within_ms and words.is_plain and words.skip == NO_SKIP:
        for begun in _begun(words, letters, actions):
            at = actions[begun[0][0]].time + words.within_ms
            yield TIMED_OUT, _numbers(begun, actions), at


Placement: TypeAlias = tuple[tuple[int, ...], ...]
"""By part, the places of its actions."""


def _numbers(match: Placement, actions: Sequence[Placed]) -> str:
    parts = [*match, *[()] * (len(PARTS) - len(match))]
    return _text([[actions[place].number for place in part] for part in parts])


def _last(match: Placement) -> int:
    return max(place for part in match for place in part)


def _length_ms(match: Placement, actions: Sequence[Placed]) -> int:
    return actions[_last(match)].time - actions[match[0][0]].time


def _fits(follow: str, letter: str, between: str) -> bool:
    """Return whether a part may follow over what lies between."""
    return follow == "followed_by_any" or (not between if follow == "next" else letter not in between)


def _placements(words: Words, letters: str) -> Iterator[Placement]:
    for first, letter in enumerate(letters):
        if letter != words.letters[0]:
            continue
        for run in _runs(words, letters, first):
            if len(words.letters) == 2:
                yield (first,), run
                continue
            last = run[-1] if run else first
            for third in range(last + 1, len(letters)):
                between = letters[last + 1 : third]
                if letters[third] == words.letters[2] and _fits(words.follow(2), letters[third], between):
                    yield (first,), run, (third,)


def _runs(words: Words, letters: str, first: int) -> Iterator[tuple[int, ...]]:
    """Yield the places of the second part behind an action."""
    if words.is_optional:
        yield ()
    wanted = words.letters[1]
    for begin in range(first + 1, len(letters)):
        between = letters[first + 1 : begin]
        if letters[begin] != wanted or not _fits(words.follow(1), wanted, between):
            continue
        if words.unwanted and words.unwanted in between:
            continue
        run: list[int] = []
        for place in range(begin, len(letters)):
            if letters[place] == wanted:
                run.append(place)
                if len(run) >= words.least:
                    yield tuple(run)
                if len(run) == words.most:
                    break
            elif words.is_strict:
                break


def _kept(skip: str, matches: Sequence[Placement]) -> list[Placement]:
    """Leave out the matches that earlier ones skip."""
    kept: list[Placement] = []
    begin = -1
    for match in sorted(matches, key=lambda match: (match[0][0], _last(match))):
        if match[0][0] >= begin:
            kept.append(match)
            begin = (_last(match) if skip == "skip_past_last_event" else match[0][0]) + 1
    return kept


def _begun(words: Words, letters: str, actions: Sequence[Placed]) -> Iterator[Placement]:
    """Yield the beginnings of matches that are waiting for their next part when their time is over."""
    for first, letter in enumerate(letters):
        if letter != words.letters[0]:
            continue
        end = actions[first].time + words.within_ms
        rest = "".join([action.letter for action in actions if action.time < end])
        since = rest[first + 1 :]
        if _waits(words, 1, since) and not (words.unwanted and words.unwanted in since):
            yield ((first,),)
        if len(words.letters) == 3:
            for run in _runs(words, rest, first):
                if _waits(words, 2, rest[run[-1] + 1 :]):
                    yield (first,), run


def _waits(words: Words, part: int, since: str) -> bool:
    return _fits(words.follow(part), words.letters[part], since)


options = FamilyOptions(
    declares=True,
    any_backend=True,
    # A watermark matches all that it reaches at once.
    arrival_states=(EVENT_QUEUE_STATE, NFA_STATE, EVENTS_STATE, EVENT_TIMERS + USER_TIMERS),
)
