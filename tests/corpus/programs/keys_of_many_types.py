"""Payments are grouped by date, by amount and by a pair: keys that are no texts."""

import argparse
import datetime
from decimal import Decimal

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

MAY, JUNE = datetime.date(2024, 5, 31), datetime.date(2024, 6, 1)
PAYMENTS = [
    (MAY, Decimal("1.50"), "card"),
    (JUNE, Decimal("2"), "cash"),
    (MAY, Decimal("2"), "card"),
    (JUNE, Decimal("1.50"), "card"),
    (MAY, Decimal("1.50"), "cash"),
    (JUNE, Decimal("2"), "cash"),
]


def counted(stream, label, key, key_type):
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    return (
        stream.key_by(key, key_type)
        .map(lambda payment: (f"{label} {key(payment)}", 1), pair)
        .key_by(lambda each: each[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(lambda each: f"{each[0]}: {each[1]}", Types.STRING())
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    payments = env.from_collection(PAYMENTS, Types.TUPLE([Types.SQL_DATE(), Types.BIG_DEC(), Types.STRING()]))
    by_date = counted(payments, "date", lambda payment: payment[0], Types.SQL_DATE())
    by_amount = counted(payments, "amount", lambda payment: payment[1], Types.BIG_DEC())
    by_pair = counted(
        payments,
        "month",
        lambda payment: (payment[0].month, payment[2]),
        Types.TUPLE([Types.INT(), Types.STRING()]),
    )
    by_date.union(by_amount, by_pair).sink_to(
        FileSink.for_row_format(parser.parse_args().output, Encoder.simple_string_encoder()).build()
    )
    env.execute("payments")
