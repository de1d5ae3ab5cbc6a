"""What an option is: a key, a default, and how a value of it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """One option. ``parse`` turns text or a plain value into the option's type, or raises ValueError."""

    key: str
    default: T
    parse: Callable[[Any], T]
    doc: str
    deprecated: tuple[str, ...] = ()
