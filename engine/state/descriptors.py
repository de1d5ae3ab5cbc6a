"""The descriptors with which functions declare their state, under PyFlink's names.

A descriptor has a name, a kind, the types and, for reducing and aggregating state, the function. The name is
unique within an operator, and a restore finds the state by it. ``stored_type`` is the type of what a table
holds for one key; snapshots record its descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import list_type, map_type
from onceproof.engine.types.wrapped import nullable, with_last_access

VALUE: Final = "value"
LIST: Final = "list"
MAP: Final = "map"
REDUCING: Final = "reducing"
AGGREGATING: Final = "aggregating"


def _check_is_never_opened(name: str, function: Any) -> None:
    """Raise TypeError for a function with an ``open`` or ``close`` of its own, which state never calls.

    The class Function is imported nowhere in this room: it is the one that defines ``set_runtime_context``.
    """
    kind = type(function)
    base = next((each for each in kind.__mro__ if "set_runtime_context" in vars(each)), kind)
    for method in ("open", "close"):
        if getattr(kind, method, None) is not getattr(base, method, None):
            raise TypeError(
                f"state {name!r}: the state never calls {method}() of {kind.__qualname__}: do there what its"
                f" operator's {method}() can do, and give the state a function without it"
            )


class StateDescriptor:
    """Base of all descriptors: a name and a type (PyFlink: StateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        type_info: the type of a value; None: self-describing values, ``Types.DYNAMIC()``.

    Raises:
        ValueError: the name is empty.
    """

    __slots__ = ("name", "ttl_config", "type_info")

    kind = VALUE

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not name:
            raise ValueError("a state needs a name that is not empty")
        self.name = name
        self.type_info = Types.DYNAMIC() if type_info is None else type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the state expire as ``ttl_config`` says."""
        self.ttl_config = ttl_config if ttl_config.is_enabled() else None

    @property
    def stored_type(self) -> TypeInformation:
        """The type of what a table holds for one key."""
        return self._timed(self.type_info)

    def _timed(self, unit: TypeInformation) -> TypeInformation:
        """Return the type of one expiring unit: with its last access if there is a time to live."""
        return unit if self.ttl_config is None else with_last_access(unit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes one value for each key (PyFlink: ValueStateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        value_type_info: the type of the value; None: self-describing values.
    """

    __slots__ = ()

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        StateDescriptor.__init__(self, name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a list for each key, or a list of operator state (PyFlink: ListStateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        elem_type_info: the type of an element; None: self-describing values.
    """

    __slots__ = ()

    kind = LIST

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, elem_type_info)

    @property
    def stored_type(self) -> TypeInformation:
        """The type of a list of elements."""
        return list_type("LIST", self._timed(self.type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a map for each key, or a broadcast state (PyFlink: MapStateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        key_type_info: the type of the map's keys; None: self-describing values.
        value_type_info: the type of the map's values, which may be None; None: self-describing values.
    """

    __slots__ = ("key_type_info",)

    kind = MAP

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, value_type_info)
        self.key_type_info = Types.DYNAMIC() if key_type_info is None else key_type_info

    @property
    def stored_type(self) -> TypeInformation:
        """The type of a map of entries."""
        return map_type(self.key_type_info, self._timed(nullable(self.type_info)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.key_type_info!r}, {self.type_info!r})"


class ReducingStateDescriptor(StateDescriptor):
    """Describes one reduced value for each key (PyFlink: ReducingStateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        reduce_function: a ReduceFunction, or a callable of (result so far, new value).
        type_info: the type of the values; None: self-describing values.

    Raises:
        TypeError: ``reduce_function`` is neither.
    """

    __slots__ = ("reduce_function",)

    kind = REDUCING

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None = None) -> None:
        super().__init__(name, type_info)
        if not callable(getattr(reduce_function, "reduce", reduce_function)):
            raise TypeError(
                f"state {name!r} reduces by {reduce_function!r}: give a ReduceFunction or a callable"
            )
        self.reduce_function = reduce_function

    def check_is_never_opened(self) -> None:
        """Raise TypeError for a rich function, which Flink refuses here, too."""
        _check_is_never_opened(self.name, self.reduce_function)

    def get_reduce_function(self) -> Any:
        """Return the function as the user gave it."""
        return self.reduce_function

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:
        """The function of (result so far, new value)."""
        reduce: Callable[[Any, Any], Any] = getattr(self.reduce_function, "reduce", self.reduce_function)
        return reduce


class AggregatingStateDescriptor(StateDescriptor):
    """Describes one accumulator for each key (PyFlink: AggregatingStateDescriptor).

    Args:
        name: unique within the operator, and not empty.
        agg_function: an AggregateFunction.
        state_type_info: the type of the accumulator; None: self-describing values.

    Raises:
        TypeError: ``agg_function`` lacks a method of an AggregateFunction.
    """

    __slots__ = ("agg_function",)

    kind = AGGREGATING

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, state_type_info)
        for method in ("create_accumulator", "add", "get_result"):
            if not callable(getattr(agg_function, method, None)):
                raise TypeError(f"state {name!r} aggregates by {agg_function!r}: give an AggregateFunction")
        self.agg_function = agg_function

    def check_is_never_opened(self) -> None:
        """Raise TypeError for a rich function, which Flink refuses here, too."""
        _check_is_never_opened(self.name, self.agg_function)

    def get_agg_function(self) -> Any:
        """Return the AggregateFunction."""
        return self.agg_function
