"""Two-phase commit by coordinators and participants: money moves at both accounts of a transfer, or at none.

The actors are operators, their logs are keyed state, and what they tell each other are records::

    transfers -> begin -> vote -> decide -> book -> outcomes -> rows
                            |               ^
                            +---- log ------+

The rules this module lives by:

- The account that pays has the coordinator of its transfers. ``begin`` notes each transfer in its log, so one
  that is ordered twice is begun once, and asks the participants of both accounts to prepare.
- A participant votes no if the account is closed, or has promised too much already. If it votes yes it notes
  what it has promised and can no longer refuse.
- A coordinator decides in ``decide`` when both votes are in: two times yes is a commit. It notes the decision
  before it sends it. No participant decides alone, however long it waits.
- A participant books or releases in ``book`` what its own log says; the decision names only the transfer.
- A vote and a decision leave when the log that holds them is forced to disk, ``force_ms`` later in event
  time; those from and to payees, who are at another bank, take FURTHER times longer. So checkpoints lie
  between any two phases, and a restored actor goes on from what its log says.
- ``outcomes`` is the end of the protocol: a row says what both participants have done.

Channels run one way, so each phase of an actor is an operator of its own. A participant's log flows as a
stream from its first half, which votes, to its second half, which books. Nothing flows back: what is released
can be promised again on the next day, so a day's promises never exceed the balance with which it began. Such
promises depend only on the transfers of one payer in their order, so every outcome follows from the input.

In ``lesson`` the participants keep what they have promised in a dict, in ``lesson_of_coordinators`` the
coordinators keep the votes in one. Both are right until something fails, and are expected to fail::

    onceproof run scenarios/textbook/two_phase_commit.py:lesson --scenarios 50
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from onceproof.engine import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LabelledSource
from onceproof.scenarios.textbook import _transfers_on_trial as transfers_on_trial

if TYPE_CHECKING:
    from onceproof.engine import DataStream

Transfer: TypeAlias = tuple[int, str, str, int]
"""Number, payer, payee, cents."""
Outcome: TypeAlias = tuple[str, int, str, str, int, int]
"""Payer, number, payee, what both participants say, cents taken, cents given."""
Part: TypeAlias = tuple[str, int, str]
"""Coordinator, number, side: one side of a transfer."""
Message: TypeAlias = tuple[str, int, str, str, int, str]
"""What one actor tells another: coordinator (the account that pays), number, side, account, cents that move
there (below 0 they are taken), and a word: prepare; yes or no; commit or abort; at last what was done."""

TimedMessage: TypeAlias = tuple[int, Message]
"""A message and a time in milliseconds: when it was said, or when it is to leave."""

OPENING: Final = {"Alice": 500, "Bob": 250, "Mary": 100}
"""What an account holds when the day begins, by its name behind the last "/"; others are closed."""
PAYER: Final = "payer"
PAYEE: Final = "payee"
FORCE_MS: Final = 10
FURTHER: Final = 4
"""How many times longer messages from and to payees take: their accounts are at another bank."""


TRANSFER: Final = Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()])
_PART: Final = [Types.STRING(), Types.LONG(), Types.STRING()]
PART: Final = Types.TUPLE(_PART)
MESSAGE: Final = Types.TUPLE([*_PART, Types.STRING(), Types.LONG(), Types.STRING()])
TIMED_MESSAGE: Final = Types.TUPLE([Types.LONG(), MESSAGE])
OUTCOME: Final = Types.TUPLE([*_PART, Types.STRING(), Types.LONG(), Types.LONG()])
PREPARED: Final = OutputTag("prepared", MESSAGE)
"""The log of a participant, on the way from its first half to its second."""


def part_of(message: Message) -> Part:
    """Return which side of which transfer a message is about; logs find it by that."""
    return message[:3]


def other_part_of(message: Message) -> Part:
    """Return the other side of the transfer."""
    coordinator, number, side = part_of(message)
    return coordinator, number, PAYEE if side == PAYER else PAYER


def account_of(message: Message) -> str:
    """Return the account whose participant a message is for."""
    return message[3]


def coordinator_of(message: Message) -> str:
    """Return the account whose coordinator a message is for."""
    return message[0]


def payer_of(value: tuple[Any, ...]) -> str:
    """Return the payer of a transfer."""
    return str(value[1])


def time_of(ctx: KeyedProcessFunction.Context) -> int:
    """Return the event time of the message that is being processed."""
    timestamp = ctx.timestamp()
    assert timestamp is not None, "transfers need event time"
    return timestamp


def opening_of(account: str) -> int | None:
    """Return what an account holds when the day begins; None: it is closed."""
    return OPENING.get(account.rpartition("/")[2])


class Log:
    """The messages that an actor has noted and not yet sent; they leave when the log is forced to disk.

    Args:
        context: where the log's state is.
        force_ms: how long after a message is noted the log is forced, in event time.
    """

    def __init__(self, context: RuntimeContext, force_ms: int) -> None:
        self._entries = context.get_map_state(MapStateDescriptor("log", PART, TIMED_MESSAGE))
        self._force_ms = force_ms

    def note(self, message: Message, now: int, ctx: KeyedProcessFunction.Context) -> None:
        """Note a message at the time ``now``, and have it sent when the log is forced."""
        due = now + self._force_ms * (FURTHER if message[2] == PAYEE else 1)
        self._entries.put(part_of(message), (due, message))
        ctx.timer_service().register_event_time_timer(due)

    def forced(self, timestamp: int) -> list[Message]:
        """Return what can leave now, and forget it: from here on the channel keeps it."""
        leaving = [message for due, message in self._entries.values() if due <= timestamp]
        for message in leaving:
            self._entries.remove(part_of(message))
        return leaving


class Begin(KeyedProcessFunction):
    """The coordinator begins a transfer: it asks both participants to prepare."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("begun", Types.LONG(), Types.LONG())
        self._begun = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Transfer, ctx: KeyedProcessFunction.Context) -> Iterator[Message]:
        number, payer, payee, cents = value
        if not self._begun.contains(number):
            self._begun.put(number, cents)
            yield payer, number, PAYER, payer, -cents, "prepare"
            yield payer, number, PAYEE, payee, cents, "prepare"


class Vote(KeyedProcessFunction):
    """The first half of a participant: it votes, and holds what it has promised.

    Args:
        force_ms: how long after a vote its log is forced.
    """

    def __init__(self, force_ms: int) -> None:
        self._force_ms = force_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self._log = Log(runtime_context, self._force_ms)
        self._promised = runtime_context.get_state(ValueStateDescriptor("promised", Types.LONG()))

    def promised(self, account: str) -> int:
        """Return the cents that the account has promised so far."""
        return self._promised.value() or 0

    def promise(self, account: str, cents: int) -> None:
        """Hold cents of the account."""
        self._promised.update(self.promised(account) + cents)

    def process_element(
        self, value: Message, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, Message]]:
        """Vote on a transfer; the note of it goes to the second half."""
        coordinator, number, side, account, cents, _ = value
        opening = opening_of(account)
        votes_yes = opening is not None
        if opening is not None and side == PAYER:
            votes_yes = self.promised(account) - cents <= opening
            if votes_yes:
                self.promise(account, -cents)
        vote = (coordinator, number, side, account, cents, "yes" if votes_yes else "no")
        self._log.note(vote, time_of(ctx), ctx)
        yield PREPARED, vote

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Message]:
        """Send the votes."""
        return self._log.forced(timestamp)


class Decide(KeyedProcessFunction):
    """The coordinator collects the votes, and decides when both are in.

    Args:
        force_ms: how long after a decision its log is forced.
    """

    def __init__(self, force_ms: int) -> None:
        self._force_ms = force_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self._log = Log(runtime_context, self._force_ms)
        self._votes = runtime_context.get_map_state(MapStateDescriptor("votes", PART, TIMED_MESSAGE))

    def exchange(self, now: int, vote: Message) -> TimedMessage | None:
        """Return the vote of the other side and forget it; if there is none yet, keep this one."""
        other: TimedMessage | None = self._votes.get(other_part_of(vote))
        if other is None:
            self._votes.put(part_of(vote), (now, vote))
        else:
            self._votes.remove(other_part_of(vote))
        return other

    def process_element(self, value: Message, ctx: KeyedProcessFunction.Context) -> None:
        """Take a vote; the second one of a transfer decides it."""
        now = time_of(ctx)
        found = self.exchange(now, value)
        if found is not None:
            before, other = found
            word = "commit" if value[-1] == other[-1] == "yes" else "abort"
            for vote in (value, other):
                # Participants know from their own logs how many cents are to move. A vote may overtake the
                # other one, so the decision is of the later of both times.
                decision = (*part_of(vote), account_of(vote), 0, word)
                self._log.note(decision, max(now, before), ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Message]:
        """Send the decisions."""
        return self._log.forced(timestamp)


class Book(KeyedCoProcessFunction):
    """The second half of a participant: books what its log says if the decision is a commit.

    Its inputs are the log of the first half and the decisions; either may come first.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._prepared = runtime_context.get_map_state(MapStateDescriptor("prepared", PART, MESSAGE))
        self._decided = runtime_context.get_map_state(MapStateDescriptor("decided", PART, MESSAGE))
        self._balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element1(self, value: Message, ctx: KeyedCoProcessFunction.Context) -> list[Message]:
        """Take a note of the log."""
        part = part_of(value)
        decision = self._decided.get(part)
        if decision is None:
            self._prepared.put(part, value)
            return []
        self._decided.remove(part)
        return [self._finished(value, decision)]

    def process_element2(self, value: Message, ctx: KeyedCoProcessFunction.Context) -> list[Message]:
        """Take a decision."""
        part = part_of(value)
        note = self._prepared.get(part)
        if note is None:
            self._decided.put(part, value)
            return []
        self._prepared.remove(part)
        return [self._finished(note, value)]

    def _finished(self, note: Message, decision: Message) -> Message:
        """Book or release, and return what has been done."""
        coordinator, number, side, account, cents, vote = note
        if decision[-1] != "commit" or vote != "yes":
            return coordinator, number, side, account, 0, "aborted"
        balance = self._balance.value()
        balance = (opening_of(account) or 0 if balance is None else balance) + cents
        self._balance.update(balance)
        return coordinator, number, side, account, cents, "committed" if balance >= 0 else "overdrawn"


class Outcomes(KeyedProcessFunction):
    """The coordinator hears what both participants have done, and ends the transfer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._heard = runtime_context.get_map_state(MapStateDescriptor("heard", PART, MESSAGE))

    def process_element(self, value: Message, ctx: KeyedProcessFunction.Context) -> Iterator[Outcome]:
        other = self._heard.get(other_part_of(value))
        if other is None:
            self._heard.put(part_of(value), value)
            return
        self._heard.remove(part_of(other))
        payer, payee = sorted((value, other), key=lambda message: message[2] == PAYEE)
        *_, taken, done_by_payer = payer
        *_, account, given, done_by_payee = payee
        done = done_by_payer if done_by_payer == done_by_payee else f"{done_by_payer} and {done_by_payee}"
        yield coordinator_of(payer), payer[1], account, done, -taken, given


def build(transfers: DataStream, vote: Vote, decide: Decide) -> DataStream:
    """Put the phases behind a stream of transfers that has event time; returns the outcomes."""
    begun = _named(transfers.key_by(payer_of, Types.STRING()).process(Begin(), MESSAGE), "begin")
    votes = _named(begun.key_by(account_of, Types.STRING()).process(vote, MESSAGE), "vote")
    decisions = _named(votes.key_by(coordinator_of, Types.STRING()).process(decide, MESSAGE), "decide")
    logs = votes.get_side_output(PREPARED).key_by(account_of, Types.STRING())
    booked = logs.connect(decisions.key_by(account_of, Types.STRING())).process(Book(), MESSAGE)
    outcomes = _named(booked, "book").key_by(coordinator_of, Types.STRING()).process(Outcomes(), OUTCOME)
    return _named(outcomes, "outcomes")


def _named(stream: DataStream, name: str) -> DataStream:
    return stream.name(name).uid(name)


TRANSFERS: Final[tuple[Transfer, ...]] = (
    (1, "Alice", "Bob", 300),
    (2, "Alice", "Mary", 250),
    (3, "Alice", "Zoe", 100),
    (4, "Alice", "Mary", 100),
    (4, "Alice", "Mary", 100),
    (5, "Bob", "Alice", 250),
)
"""Alice cannot promise 550 cents, Zoe's account is closed, and the fourth transfer is ordered twice."""


class NumberAsTime(TimestampAssigner):
    """Takes the number of a transfer for its time."""

    def extract_timestamp(self, value: Transfer, record_timestamp: int) -> int:
        return value[0]


def main() -> None:
    """Print the outcomes of five transfers."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
    transfers = env.from_collection(TRANSFERS, TRANSFER).assign_timestamps_and_watermarks(times)
    build(transfers, Vote(FORCE_MS), Decide(FORCE_MS)).print()
    env.execute("two-phase commit")


# The lessons.


class VoteFromMemory(Vote):
    """Keeps what it has promised in a dict: a participant that restarts promises its money again."""

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._promises: dict[str, int] = {}

    def promised(self, account: str) -> int:
        return self._promises.get(account, 0)

    def promise(self, account: str, cents: int) -> None:
        self._promises[account] = self.promised(account) + cents


class DecideFromMemory(Decide):
    """Keeps the votes in a dict: a coordinator that restarts between two votes never decides."""

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._heard: dict[Part, TimedMessage] = {}

    def exchange(self, now: int, vote: Message) -> TimedMessage | None:
        other = self._heard.pop(other_part_of(vote), None)
        if other is None:
            self._heard[part_of(vote)] = (now, vote)
        return other


# On trial.


@dataclass(frozen=True)
class Protocol:
    """The family of the protocol.

    Args:
        name: the name of the family.
        vote: the class of the participants that vote.
        decide: the class of the coordinators that decide.
    """

    name: str
    vote: type[Vote] = Vote
    decide: type[Decide] = Decide
    generator_version: ClassVar[int] = 1
    options: ClassVar[FamilyOptions] = FamilyOptions(declares=True, any_backend=True)
    tasks: ClassVar[Mapping[str, Role]] = {
        "transfers": "source",
        "begin": "keyed",
        "vote": "keyed",
        "decide": "keyed",
        "book": "keyed",
        "outcomes": "keyed",
        "table": "sink",
    }
    record_schema: ClassVar[str] = transfers_on_trial.RECORD_SCHEMA
    row_schema: ClassVar[str] = transfers_on_trial.ROW_SCHEMA
    oracle_sql: ClassVar[str] = transfers_on_trial.outcomes_sql(OPENING)

    def generate(self, random: Random) -> Workload:
        """Draw transfers, and how long a log takes to reach the disk."""
        return transfers_on_trial.draw(random, tuple(OPENING))

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build transfers -> begin -> vote -> decide -> book -> outcomes -> table."""
        source = LabelledSource(io.source("transfers"), transfers_on_trial.of_split)
        in_order = WatermarkStrategy.for_monotonous_timestamps()
        transfers = env.from_source(source, in_order, "transfers", TRANSFER).uid("transfers")
        force_ms = int(io.parameters["force_ms"])
        outcomes = build(
            transfers.set_parallelism(io.source_parallelism), self.vote(force_ms), self.decide(force_ms)
        )
        table = outcomes.key_by(lambda row: row[0], Types.STRING()).add_sink(io.sink("table"))
        table.name("table").uid("table").set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Let each payer promise what it has, in the order of its transfers."""
        return transfers_on_trial.expected_outcomes(records, declared, OPENING)


textbook_two_phase_commit = Protocol("textbook_two_phase_commit")
lesson = Protocol("lesson_promises_in_a_dict", vote=VoteFromMemory)
lesson_of_coordinators = Protocol("lesson_votes_in_a_dict", decide=DecideFromMemory)

if __name__ == "__main__":
    main()
