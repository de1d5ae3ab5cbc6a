"""How a function names the state it wants: PyFlink's descriptors.

A descriptor is a name, a kind, the types and, for what folds its values, the function. The name is unique
within an operator and outlives the job's code: by it state is found again. ``stored_type`` is the type of
what a table holds for one key, and it is what a snapshot describes.
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


class StateDescriptor:
    """A name and a type (PyFlink: StateDescriptor)."""

    __slots__ = ("name", "ttl_config", "type_info")

    kind = VALUE

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not name:
            raise ValueError("a state needs a name that is not empty")
        self.name = name
        self.type_info = Types.DYNAMIC() if type_info is None else type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Give the name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let what is kept expire."""
        self.ttl_config = ttl_config if ttl_config.is_enabled() else None

    @property
    def stored_type(self) -> TypeInformation:
        """The type of what is kept for one key."""
        return self._timed(self.type_info)

    def _timed(self, unit: TypeInformation) -> TypeInformation:
        """The unit that expires by itself, with its last access where there is a time to live."""
        return unit if self.ttl_config is None else with_last_access(unit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """One value for each key; without a type, self-describing values (PyFlink: ValueStateDescriptor)."""

    __slots__ = ()

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        StateDescriptor.__init__(self, name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list; ``type_info`` is that of an element (PyFlink: ListStateDescriptor)."""

    __slots__ = ()

    kind = LIST

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, elem_type_info)

    @property
    def stored_type(self) -> TypeInformation:
        """A list of elements."""
        return list_type("LIST", self._timed(self.type_info))


class MapStateDescriptor(StateDescriptor):
    """A map; ``type_info`` is that of a value, which may be None (PyFlink: MapStateDescriptor)."""

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
        """A map of entries."""
        return map_type(self.key_type_info, self._timed(nullable(self.type_info)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.key_type_info!r}, {self.type_info!r})"


class ReducingStateDescriptor(StateDescriptor):
    """A value into which others are reduced (PyFlink: ReducingStateDescriptor).

    ``reduce_function`` is a ReduceFunction or a callable of two values.
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

    def get_reduce_function(self) -> Any:
        """Give the function as it was given."""
        return self.reduce_function

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:
        """The function of (reduced so far, new value)."""
        reduce: Callable[[Any, Any], Any] = getattr(self.reduce_function, "reduce", self.reduce_function)
        return reduce


class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator; ``type_info`` is that of the accumulator (PyFlink: AggregatingStateDescriptor)."""

    __slots__ = ("agg_function",)

    kind = AGGREGATING

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, state_type_info)
        for method in ("create_accumulator", "add", "get_result"):
            if not callable(getattr(agg_function, method, None)):
                raise TypeError(f"state {name!r} aggregates by {agg_function!r}: give an AggregateFunction")
        self.agg_function = agg_function

    def get_agg_function(self) -> Any:
        """Give the function."""
        return self.agg_function
