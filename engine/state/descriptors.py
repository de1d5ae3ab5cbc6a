"""How a function names the state it wants: PyFlink's descriptors."""

from __future__ import annotations

from typing import Final

from engine.types import TypeInformation, Types

VALUE: Final = "value"
LIST: Final = "list"


class StateDescriptor:
    """A name and a type. The name is unique within an operator and outlives the job's code."""

    __slots__ = ("name", "type_info")

    kind = VALUE

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not name:
            raise ValueError("a state needs a name that is not empty")
        self.name = name
        self.type_info = Types.DYNAMIC() if type_info is None else type_info

    def get_name(self) -> str:
        """Give the name."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """One value for each key; without a type, self-describing values."""

    __slots__ = ()

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        StateDescriptor.__init__(self, name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list; without a type, of self-describing values."""

    __slots__ = ()

    kind = LIST

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, elem_type_info)
