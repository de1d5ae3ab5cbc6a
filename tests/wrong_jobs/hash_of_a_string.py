"""A row has a bucket that follows from hash(), which differs from process to process."""

from __future__ import annotations

import zlib
from typing import Any

from onceproof.engine import Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "gives another value in every run"


def with_bucket(order: Any) -> Any:
    _, customer, cents = order
    return customer, hash(customer) % 1000, cents  # wrong


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).map(with_bucket, ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [
        (customer, zlib.crc32(repr(customer).encode()) % 1000, cents) for _, (_, customer, cents) in orders
    ]


family = WrongJob("hash_of_a_string", build, rows)
