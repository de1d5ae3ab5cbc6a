"""Transfers between two banks: each is booked at both, or at none. Without a first phase money vanishes.

The coordinator of the two-phase commit is that of the job, its participants are the subtasks of the sink,
which book for the accounts that are theirs. A participant prepares with its part of a checkpoint (it votes
yes and can no longer fail to book), and books when the checkpoint is complete.

In the lesson the second bank does not prepare: ``LedgerWithoutPrepare`` keeps its bookings in a plain list
and books them when the checkpoint is complete. If it dies in between, the first bank has paid and the second
has nothing, and no checkpoint holds what was to be booked.

The lesson is a family that is expected to fail::

    onceproof run scenarios/textbook/transfer.py:lesson --scenarios 50
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from onceproof.engine import CheckpointListener, SinkFunction, StreamExecutionEnvironment, Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._sink_around import SinkAround
from onceproof.scenarios.textbook.temporary_files import TemporaryFileSink, lines_in

if TYPE_CHECKING:
    from onceproof.engine import DataStream, KeyedStream

Transfer: TypeAlias = tuple[int, str, str, int]
"""Number, payer at the first bank, payee at the second, cents."""
Booking: TypeAlias = tuple[str, int, str, int]
"""Bank, number of the transfer, account, cents: less than 0 is taken from the account."""

TRANSFER = Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()])
BOOKING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()])
TRANSFERS: tuple[Transfer, ...] = (
    (1, "Alice", "Bob", 500),
    (2, "Alice", "Cary", 250),
    (3, "Mary", "Bob", 75),
)
BANKS = ("first bank", "second bank")


def bookings_of(transfer: Transfer) -> list[Booking]:
    """Return what each of the two banks books."""
    number, payer, payee, cents = transfer
    return [(BANKS[0], number, payer, -cents), (BANKS[1], number, payee, cents)]


def account_of(booking: Booking) -> str:
    """Return the account of a booking."""
    return booking[2]


class LedgerWithoutPrepare(SinkFunction, CheckpointListener):
    """Books when a checkpoint is complete what has come until then: a participant without a first phase.

    Args:
        write: books; it takes each booking.
    """

    def __init__(self, write: Callable[[Booking], Any]) -> None:
        self._write = write
        self._bookings: list[Booking] = []

    def invoke(self, value: Booking, context: Any) -> None:
        self._bookings.append(value)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.finish()

    def finish(self) -> None:
        for booking in self._bookings:
            self._write(booking)
        self._bookings.clear()


def build(transfers: DataStream) -> KeyedStream:
    """Take transfers apart into bookings, keyed by account."""
    bookings = transfers.flat_map(bookings_of, BOOKING).name("bookings").uid("bookings")
    return bookings.key_by(account_of, Types.STRING())


def main() -> None:
    """Book three transfers, and print the ledgers."""
    with TemporaryDirectory() as folder:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        build(env.from_collection(TRANSFERS, TRANSFER)).add_sink(TemporaryFileSink(folder))
        env.execute("transfers")
        for line in sorted(lines_in(folder)):
            print(line)


# On trial.


class SecondBankWithoutPrepare(SinkAround):
    """Books for the first bank at once, for the second by ``LedgerWithoutPrepare``, in the harness's sink."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._ledger = LedgerWithoutPrepare(self._book)

    def _book(self, booking: Booking) -> None:
        self._sink.invoke(booking, None)

    def invoke(self, value: Booking, context: Any) -> None:
        if value[0] == BANKS[0]:
            self._book(value)
        else:
            self._ledger.invoke(value, context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._ledger.notify_checkpoint_complete(checkpoint_id)

    def finish(self) -> None:
        self._ledger.finish()
        super().finish()


@dataclass(frozen=True)
class Transfers:
    """The family of the transfers.

    Args:
        name: the name of the family.
        prepares: whether the second bank prepares. If not, it books later than the checkpoint, so before the
            end its rows need not be there.
    """

    name: str
    prepares: bool
    generator_version: ClassVar[int] = 1
    tasks: ClassVar[Mapping[str, Role]] = {
        "transfers": "source",
        "bookings": "keyed",
        "ledgers": "sink",
    }
    record_schema: ClassVar[str] = "number BIGINT, payer STRING, payee STRING, cents BIGINT"
    row_schema: ClassVar[str] = "bank STRING, number BIGINT, account STRING, cents BIGINT"
    oracle_sql: ClassVar[str] = """
SELECT scenario_id, 'first bank' AS bank, number, payer AS account, -cents AS cents FROM records
UNION ALL
SELECT scenario_id, 'second bank', number, payee, cents FROM records
"""

    @property
    def options(self) -> FamilyOptions:
        """Only the lesson has to declare which rows are there before the end."""
        return FamilyOptions(declares=not self.prepares)

    def generate(self, random: Random) -> Workload:
        """Draw transfers in up to three splits; each has a number of its own."""
        chance = Chance(random)
        splits = chance.integer(1, 3)
        longest = chance.weighted([(3, 1), (10, 3), (25, 3)])
        number = 0
        records = {}
        for split in range(splits):
            transfers = []
            for time in range(chance.integer(0, longest)):
                number += 1
                payer, payee = chance.choice(("Alice", "Mary")), chance.choice(("Bob", "Cary"))
                transfers.append((time, (number, payer, payee, chance.integer(1, 999))))
            records[f"transfers-{split}"] = tuple(transfers)
        return Workload(records, {"splits": splits})

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build transfers -> bookings -> ledgers."""
        transfers = env.from_source(io.source("transfers"), None, "transfers", TRANSFER).uid("transfers")
        bookings = build(transfers.set_parallelism(io.source_parallelism).rebalance())
        sink = io.sink("ledgers")
        ledgers = bookings.add_sink(sink if self.prepares else SecondBankWithoutPrepare(sink))
        ledgers.name("ledgers").uid("ledgers").set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Book each transfer at both banks."""
        rows: list[Booking] = []
        for transfers in records.values():
            for _, transfer in transfers:
                assert isinstance(transfer, tuple)
                number, cents = int(transfer[0] or 0), int(transfer[3] or 0)
                payer, payee = str(transfer[1]), str(transfer[2])
                rows += [(BANKS[0], number, payer, -cents), (BANKS[1], number, payee, cents)]
        return rows if self.prepares else declared.so_far(rows)


textbook_transfer = Transfers("textbook_transfer", prepares=True)
lesson = Transfers("lesson_transfer_without_prepare", prepares=False)

if __name__ == "__main__":
    main()
