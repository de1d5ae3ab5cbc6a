"""Names of PyFlink that the engine lacks: an error says why, and what to use instead.

Rules:

- The data file is read when a name is missing, and never before: importing the engine does not pay for it.
- It is made by ``python -m tests.engine.pyflink_surface`` from the public names of PyFlink 1.12 to 2.3. A
  name that is in none of them keeps the message that Python gives.
- What is looked up is a name of a module, or ``Class.member``. A member belongs to the class of PyFlink with
  the name of ours, or of a class above it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

FILE: Final = "flink_names.json"
PACKAGE: Final = "pyflink"

_Class = TypeVar("_Class", bound=type)


class FlinkNames(NamedTuple):
    """The content of the data file."""

    reasons: MappingProxyType[str, str]
    """Missing name, member, or module -> why it is missing, and what to use instead."""
    modules: frozenset[str]
    """Modules with names that the engine has, or might have."""


@cache
def flink_names() -> FlinkNames:
    """Return what is known of PyFlink's names."""
    data = json.loads(files("onceproof.engine").joinpath(FILE).read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for each in data["groups"]:
        for name in each["names"].split():
            instead = data["instead"].get(name, each["instead"])
            found[name] = f"{each['reason']}; {instead}"
    return FlinkNames(MappingProxyType(found), frozenset(data["modules"].split()))


def why_missing(name: str) -> str | None:
    """Return the message for a name of PyFlink that the engine lacks; None for any other name.

    Args:
        name: as "EnvironmentSettings", "Types.INSTANT" or "pyflink.fn_execution.table".
    """
    reasons = flink_names().reasons
    known = name
    if name.startswith(f"{PACKAGE}."):
        # A package that is missing answers for its modules.
        while known not in reasons and known:
            known = known.rpartition(".")[0]
    return f"{name} of PyFlink is missing here: {reasons[known]}" if known in reasons else None


def missing_member(cls: type, name: str, default: str) -> str:
    """Return the message for a member that a class lacks; ``default`` if PyFlink's lacks it, too."""
    for each in cls.__mro__:
        if found := why_missing(f"{each.__qualname__}.{name}"):
            return found
    return default


def answers_for_flink(cls: _Class) -> _Class:
    """Let the objects of a class say why they lack a member that PyFlink's have. A decorator."""

    def explain(self: Any, name: str) -> Any:
        kind = type(self)
        default = f"{kind.__name__!r} object has no attribute {name!r}"
        # What begins so is asked by Python itself, when it copies an object, say.
        found = default if name.startswith("_") else missing_member(kind, name, default)
        raise AttributeError(found, name=name, obj=self)

    # Set here and not written in the class: mypy would take every name for one that exists.
    cls.__getattr__ = explain  # type: ignore[attr-defined]
    return cls


class AnswersForFlink(type):
    """The type of classes that say themselves why they lack a member, as `Types.INSTANT` does."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            default = f"type object {cls.__name__!r} has no attribute {name!r}"
            found = default if name.startswith("_") else missing_member(cls, name, default)
            raise AttributeError(found, name=name, obj=cls)
