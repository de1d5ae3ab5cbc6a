"""A configuration: the options that were set, each checked as it is set.

A value from a file keeps its file and line, so that an error found later, when the job graph is built, can
name the line to correct.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from os import PathLike
from typing import Any, Final, NamedTuple

from onceproof.engine.configuration.flink_keys import flink_keys, has_no_effect, option_without_effect
from onceproof.engine.configuration.monitor_options import BEGINNING, reporter_option
from onceproof.engine.configuration.option import ConfigOption, ConfigurationError, T
from onceproof.engine.configuration.options import OPTIONS
from onceproof.engine.configuration.yaml_file import read_flat_file, read_yaml_file

_BY_KEY: Final = {option.key: option for option in OPTIONS}
_BY_DEPRECATED_KEY: Final = {key: option for option in OPTIONS for key in option.deprecated}

_warned: set[str] = set()


class Setting(NamedTuple):
    """One option that was set: the value as written, the parsed value, and where.

    ``place`` is "FILE:LINE", what it is called on a command line, or "" for a program.
    """

    written: Any
    value: Any
    place: str = ""


def find_option(key: str, place: str = "") -> ConfigOption[Any]:
    """Return the option of a key, which may be a deprecated spelling, or one of Flink's without effect here.

    Args:
        key: the key as the user wrote it.
        place: the "FILE:LINE" of the key for messages, or "".

    Raises:
        ConfigurationError: no option has this key; the message names the nearest known key. Or it is one of
            Flink's that would protect data.
    """
    before = f"{place}: " if place else ""
    option = _BY_KEY.get(key)
    if option is not None:
        return option
    option = _BY_DEPRECATED_KEY.get(key)
    if option is not None:
        if key not in _warned:
            _warned.add(key)
            warnings.warn(f"{before}option {key!r} is now {option.key!r}", FutureWarning, stacklevel=3)
        return option
    option = reporter_option(key)
    if option is not None:
        return option
    if has_no_effect(key):
        return option_without_effect(key, before)
    near = difflib.get_close_matches(key, [*_BY_KEY, *_BY_DEPRECATED_KEY], n=1, cutoff=0.5)
    nearer = difflib.get_close_matches(key, [*near, *flink_keys()], n=1, cutoff=0.9)
    near = nearer or near
    hint = f"did you mean {near[0]!r}?" if near else "onceproof.engine.configuration.OPTIONS lists all"
    raise ConfigurationError(f"{before}unknown option {key!r}: {hint}")


class Configuration:
    """The options of a job that were set, each checked as it is set (PyFlink: Configuration).

    Args:
        other: a configuration to copy.
    """

    __slots__ = ("_values", "changes")

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Setting] = {} if other is None else dict(other._values)
        self.changes = 0
        """How often an option was set or removed."""

    @staticmethod
    def from_mapping(options: Mapping[str, Any], place: str = "") -> Configuration:
        """Return a configuration of key -> value; ``place`` says where they were set.

        Raises:
            ConfigurationError: a key or value is wrong, or two spellings of one option have different values.
        """
        configuration = Configuration()
        configuration._add((key, value, place) for key, value in options.items())
        return configuration

    @staticmethod
    def from_yaml_file(path: str | PathLike[str]) -> Configuration:
        """Read a YAML file with Flink's keys, nested or joined by dots. Nothing in it is executed.

        Raises:
            ConfigurationError: the file cannot be read, or an option is wrong; the message names the line.
        """
        configuration = Configuration()
        configuration._add(read_yaml_file(path))
        return configuration

    @staticmethod
    def from_flat_file(path: str | PathLike[str]) -> Configuration:
        """Read a file such as Flink's former flink-conf.yaml: a key, a colon and a value in each line.

        Raises:
            ConfigurationError: the file cannot be read, or an option is wrong; the message names the line.
        """
        configuration = Configuration()
        configuration._add(read_flat_file(path))
        return configuration

    def set(self, option: ConfigOption[Any], value: Any) -> Configuration:
        """Set an option.

        Raises:
            ConfigurationError: the option does not admit the value.
        """
        self._set(option, option.key, value)
        return self

    def get(self, option: ConfigOption[T]) -> T:
        """Return the parsed value of an option, or its default (durations in milliseconds)."""
        found = self._values.get(option.key)
        if found is None:
            return option.default
        value: T = found.value
        return value

    def without_effect(self) -> list[str]:
        """Return those of Flink's options that are set and mean nothing here, each with its place, if any."""
        return [
            f"{key} ({setting.place})" if setting.place else key
            for key, setting in sorted(self._values.items())
            if has_no_effect(key) and reporter_option(key) is None
        ]

    def reporter_settings(self) -> dict[str, Any]:
        """Return by key the parsed settings of the reporters of metrics."""
        return {
            key: setting.value
            for key, setting in self._values.items()
            if key.startswith(BEGINNING) and reporter_option(key) is not None
        }

    def is_set(self, option: ConfigOption[Any]) -> bool:
        """Return whether the option was set."""
        return option.key in self._values

    def contradiction(self, option: ConfigOption[Any], text: str) -> ConfigurationError:
        """Return the error that ``option`` contradicts others, with the file and line that set it, if any."""
        found = self._values.get(option.key)
        return ConfigurationError(f"{found.place}: {text}" if found is not None and found.place else text)

    def _set(self, option: ConfigOption[Any], key: str, value: Any, place: str = "") -> None:
        self.changes += 1
        try:
            self._values[option.key] = Setting(value, option.parse(value), place)
        except ValueError as error:
            text = f"option {key!r} cannot be {value!r}: {error}"
            raise ConfigurationError(f"{place}: {text}" if place else text) from error

    def _add(self, settings: Iterable[tuple[str, Any, str]]) -> None:
        """Set (key, value, place) in order; two spellings of an option must have the same value."""
        named: dict[str, str] = {}
        for key, value, place in settings:
            option = find_option(key, place)
            before = self._values.get(option.key)
            self._set(option, key, value, place)
            if before is not None and before.value != self._values[option.key].value:
                raise self.contradiction(
                    option,
                    f"options {named[option.key]!r} and {key!r} are the same option with two values, "
                    f"{before.written!r} and {value!r}: keep one",
                )
            named[option.key] = key

    def _found(self, key: str) -> Setting | None:
        return self._values.get(find_option(key).key)

    # PyFlink's names.

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:
        """Return a configuration of key -> value.

        Raises:
            ConfigurationError: a key or value is wrong, or two spellings of one option have different values.
        """
        return cls.from_mapping(map)

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Put key -> value as text into a dict for the options that are set."""
        target_dict.update(self.to_dict())

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def set_float(self, key: str, value: float) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value as it was written, as text."""
        found = self._found(key)
        return default_value if found is None else _text(found.written)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value as a whole number; a duration in milliseconds.

        Raises:
            ConfigurationError: the value is not a whole number.
        """
        found = self._found(key)
        if found is None:
            return default_value
        if type(found.value) is not int:
            raise ConfigurationError(f"option {key!r} is {found.written!r}, which is not a whole number")
        return found.value

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value as a float.

        Raises:
            ConfigurationError: the value is not a number.
        """
        found = self._found(key)
        if found is None:
            return default_value
        if type(found.value) not in (int, float):
            raise ConfigurationError(f"option {key!r} is {found.written!r}, which is not a number")
        return float(found.value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value as a bool.

        Raises:
            ConfigurationError: the value is not true or false.
        """
        found = self._found(key)
        if found is None:
            return default_value
        if type(found.value) is not bool:
            raise ConfigurationError(f"option {key!r} is {found.written!r}, which is not true or false")
        return found.value

    def contains_key(self, key: str) -> bool:
        """Return whether the option was set."""
        return self._found(key) is not None

    def remove_config(self, key: str) -> bool:
        """Remove the option, and return whether it was set."""
        self.changes += 1
        return self._values.pop(find_option(key).key, None) is not None

    def key_set(self) -> AbstractSet[str]:
        """Return the keys that are set, in the current spelling."""
        return set(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return key -> value as text for the options that are set, in the current spelling."""
        return {key: _text(setting.written) for key, setting in self._values.items()}

    def origins(self) -> dict[str, tuple[str, str]]:
        """Return for the options that are set key -> (value as text, where it was set), by key.

        Where: "FILE:LINE", what a command line calls it, or "" for a program.
        """
        return {key: (_text(each.written), each.place) for key, each in sorted(self._values.items())}

    def add_all(self, other: Configuration, prefix: str | None = None) -> None:
        """Set all options that are set in another configuration; ``prefix`` is put before their keys."""
        if prefix is None:
            self.changes += 1
            self._values.update(other._values)
            return
        for key, setting in other._values.items():
            self._set(find_option(prefix + key), prefix + key, setting.written, setting.place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Configuration({self.to_dict()})"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{_quoted(name)}:{_quoted(text)}" for name, text in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """Return a name or text of a map as Flink writes it: in quotes where it holds what separates others."""
    return "'" + text.replace("'", "''") + "'" if set(text) & set(":,'") else text
