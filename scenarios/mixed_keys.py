"""The running sum of the values of a key, where keys of different types are equal in Python.

Keys are undeclared, and the same only by type and value: 1, 1.0 and True are three, 0.0 and -0.0 two, NaN is
one. A row has the key as the function sees it.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.family import FamilyOptions, JobIO, Role, Workload
from onceproof.scenarios import running_sum
from onceproof.scenarios._keyed_job import LabelledSource, draw_keyed, into_table, named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.chance import Chance

name = "mixed_keys"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums": "keyed", "table": "sink"}
record_schema = running_sum.record_schema
row_schema = running_sum.row_schema
oracle_sql = running_sum.oracle_sql

KEYS: Final[dict[str, Any]] = {
    repr(key): key
    for key in (
        1,
        1.0,
        True,
        0.0,
        -0.0,
        float("nan"),
        None,
        Decimal("1.0"),
        Decimal("1.00"),
        date(2026, 1, 1),
    )
}
"""The keys by their text, in which the records hold them."""


def generate(random: Random) -> Workload:
    """Draw numbers of keys, the first of which Python takes for one."""
    return draw_keyed(random, tuple(KEYS), _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-20, 1000)


def split_and_key(value: tuple[str, str, int]) -> tuple[str, Any]:
    """Return the key of a record, a tuple with an undeclared field."""
    return value[0], KEYS[value[1]]


class Sum(KeyedProcessFunction):
    """Emits the sum after each value, with the key that the context has."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int]]:
        total = (self._sum.value() or 0) + value[2]
        self._sum.update(total)
        split, key = ctx.get_current_key()
        yield split, repr(key), total


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums -> table."""
    values = env.from_source(LabelledSource(io.source("values")), None, "values").uid("values")
    keyed = values.set_parallelism(io.source_parallelism).key_by(split_and_key)
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    into_table(named(keyed.process(Sum(), row), "sums", io), io)


expected = running_sum.expected

options = FamilyOptions(any_backend=True)
