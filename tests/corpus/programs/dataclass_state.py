"""Orders as dataclasses: they travel undeclared, and are kept as they are in state."""

from dataclasses import dataclass, replace
from decimal import Decimal

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FlatMapFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


@dataclass
class Account:
    owner: str
    balance: Decimal
    bookings: int


class Book(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Types.PICKLED_BYTE_ARRAY()))

    def flat_map(self, value):
        account = self.account.value() or Account(value[0], Decimal(0), 0)
        account = replace(account, balance=account.balance + value[1], bookings=account.bookings + 1)
        self.account.update(account)
        yield account


def text(account):
    return f"{account.owner} {account.balance} after {account.bookings}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    bookings = [
        ("ann", "10.50"),
        ("bob", "1"),
        ("ann", "-3.25"),
        ("bob", "2.5"),
        ("ann", "0.75"),
        ("bob", "-1"),
    ]
    env.from_collection([(owner, Decimal(amount)) for owner, amount in bookings]).key_by(
        lambda booking: booking[0]
    ).flat_map(Book()).map(text, Types.STRING()).print()
    env.execute("accounts")
