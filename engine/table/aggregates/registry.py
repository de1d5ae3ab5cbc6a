"""The aggregate functions by their names in plans, and the calls of them in a node.

An ``Aggregate`` has no state of its own: its accumulator is plain data that the engine's state can hold
(None, numbers, texts, decimals, tuples, lists, dicts). ``add`` and ``retract`` return the accumulator to
keep, which may be the same object, changed; who stores it writes it back. ``merge`` changes at most its first
accumulator, and keeps nothing of the second.

A node does not call them one by one: ``accumulation.AggregateSet`` does, with filters and DISTINCT. Windows
use it as well (``create``, ``add``, ``retract``, ``merge``, ``results``); both interfaces stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.registration import registering
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType, read_type
from onceproof.engine.table.values import Row

AGGREGATE_MODULES: Final = (
    "basic",
    "extremes",
    "collected",
    "bitmaps",
    "ordered",
    "positions",
    "statistics",
    "user",
)
"""The modules of this package that register functions."""


class AggregateCall(Struct, frozen=True):
    """A call in a node."""

    function: str
    """Its name in plans, such as ``$SUM$1``, or that of a user's function."""
    arguments: tuple[int, ...]
    argument_types: tuple[LogicalType, ...]
    type: LogicalType
    """That of the result."""
    filter: int | None = None
    """The BOOLEAN column that must be TRUE."""
    distinct: bool = False
    retracts: bool = False
    """Whether rows may be retracted."""
    ignores_nulls: bool = False
    is_user_function: bool = False


class Aggregate(ABC):
    """What an aggregate function does with the values of its arguments; () for COUNT(*)."""

    @abstractmethod
    def create(self) -> Any:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, accumulator: Any, values: Row) -> Any:
        """Return the accumulator with a row more."""

    def retract(self, accumulator: Any, values: Row) -> Any:
        """Return the accumulator with a row less."""
        raise NotImplementedError(f"{type(self).__name__} cannot retract")

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of the rows of both; of session windows and of the global phase."""
        raise NotImplementedError(f"{type(self).__name__} cannot merge")

    @abstractmethod
    def result(self, accumulator: Any) -> Any:
        """Return the value of an accumulator."""


Factory: TypeAlias = "Callable[[AggregateCall, TableSettings], Aggregate]"
FACTORIES: Final[dict[str, Factory]] = {}


def aggregate(*names: str) -> Callable[[Factory], Factory]:
    """Register what makes an aggregate for a call, under names of plans."""
    return registering(FACTORIES, names)


@lru_cache(maxsize=1)
def load_aggregates() -> Mapping[str, Factory]:
    """Import the modules, and return all factories by name."""
    for name in AGGREGATE_MODULES:
        import_module(f"{__package__}.{name}")
    return FACTORIES


def create_aggregate(call: AggregateCall, settings: TableSettings) -> Aggregate:
    """Return the aggregate of a call, without its filter and DISTINCT. Raises UnsupportedPlan."""
    make = load_aggregates().get("user" if call.is_user_function else call.function)
    if make is None:
        raise UnsupportedPlan(f"aggregate {call.function}")
    return make(call, settings)


def read_calls(
    data: Sequence[Mapping[str, Any]], given: LogicalType, retracts: Sequence[bool] | bool = False
) -> list[AggregateCall]:
    """Read the calls of a node over rows of a type.

    Args:
        data: the attribute ``aggCalls``.
        given: the type of the input.
        retracts: whether each (or all) must be able to retract.
    """
    types = given.types
    calls = []
    for place, each in enumerate(data):
        arguments = tuple(each["argList"])
        name = each.get("internalName")
        user = each.get("systemName") or each.get("catalogName") or each.get("class")
        if name is None and user is None:
            raise UnsupportedPlan(f"an aggregate without a name ({', '.join(sorted(each))})")
        call = AggregateCall(
            str(name or user),
            arguments,
            tuple([types[argument] for argument in arguments]),
            read_type(each["type"]),
            each["filterArg"] if each.get("filterArg", -1) >= 0 else None,
            each.get("distinct", False),
            retracts if isinstance(retracts, bool) else retracts[place],
            each.get("ignoreNulls", False),
            is_user_function=name is None,
        )
        calls.append(call)
    return calls
