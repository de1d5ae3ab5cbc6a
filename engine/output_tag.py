"""Side outputs: more than one stream out of one operator (PyFlink: OutputTag).

A function emits to a side output by yielding the tag and the value, ``yield tag, value``. The job reads it
with ``get_side_output(tag)`` on the stream that the function makes. Records of a tag without reader are
dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


class OutputTag:
    """Names a side output; tags with equal ids are equal (PyFlink: OutputTag).

    Args:
        tag_id: a text that is not empty.
        type_info: the type of the side output's values; None: chosen by the values themselves.

    Raises:
        ValueError: ``tag_id`` is empty.
    """

    __slots__ = ("tag_id", "type_info")

    exist: ClassVar[bool] = False
    """Whether this process has made a tag. Operators look for tags in emitted values only if it has."""

    tag_id: str
    type_info: TypeInformation | None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Set ``exist``; copying and unpickling a tag call this as well."""
        OutputTag.exist = True
        return super().__new__(cls)

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not tag_id:
            raise ValueError("the id of an output tag must be a text that is not empty")
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return self.tag_id.__hash__()

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
