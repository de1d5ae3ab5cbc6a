"""The definition of a configuration option (PyFlink: ConfigOption), and the error of a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ConfigurationError(ValueError):
    """An option that does not exist, a value it cannot have, or options that contradict each other."""


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """One option: its key, default, parser, documentation and deprecated keys (PyFlink: ConfigOption).

    ``parse`` converts text or a plain value into the option's type, or raises ValueError.
    """

    key: str
    default: T
    parse: Callable[[Any], T]
    doc: str
    deprecated: tuple[str, ...] = ()
