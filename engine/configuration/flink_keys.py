"""Flink's options that this engine does not have: which they are, and what becomes of one that is set.

Rules:

- Most set a cluster, a JVM or a table, and have no effect on a job here. They are accepted and kept, so a
  cluster's configuration can be used as it is, and each is logged when a job starts.
- Those that protect data on its way promise what the engine does not do, and are refused.
- The data file holds every key that is known; any other key is an error.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

from onceproof.engine.configuration.option import ConfigOption, ConfigurationError
from onceproof.engine.configuration.parsing import parse_boolean, parse_integer

FILE: Final = "flink_keys.properties"


@cache
def flink_keys() -> frozenset[str]:
    """Return the keys of Flink's options that have no meaning here; one with a star is a beginning."""
    text = files("onceproof.engine.configuration").joinpath(FILE).read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))


def has_no_effect(key: str) -> bool:
    """Return whether a key is one of Flink's that this engine does not have."""
    known = flink_keys()
    parts = key.split(".")
    beginnings = (".".join(parts[:length]) + ".*" for length in range(1, len(parts)))
    return key in known or any(each in known for each in beginnings)


def option_without_effect(key: str, before: str = "") -> ConfigOption[Any]:
    """Return an option that keeps what is set under one of Flink's keys.

    Args:
        key: a key for which ``has_no_effect`` is true.
        before: the place of the key, as messages begin with it.

    Raises:
        ConfigurationError: the key promises to protect data, which the engine does not do.
    """
    if key.startswith("security.") or ".ssl." in key:
        raise ConfigurationError(
            f"{before}option {key!r} of Flink protects data on its way, which this engine does not do:"
            " remove it"
        )
    return ConfigOption(key, None, _plain, "An option of Flink that has no effect here.")


def _plain(value: Any) -> Any:
    """Read true, false and whole numbers, and leave everything else as it was written."""
    if not isinstance(value, str | int | float):
        raise ValueError("a text, a number, true or false is needed")
    for parse in (parse_boolean, parse_integer):
        try:
            return parse(value)
        except ValueError:
            continue
    return value
