"""Parsers of option values: each returns the parsed value, or raises ValueError that says what is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from onceproof.engine.key_groups import MAX_PARALLELISM_LIMIT

SHORTEST_CHECKPOINT_TIME_MS: Final = 10


def parse_integer(value: Any) -> int:
    """Read a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is needed")
    try:
        return int(value)
    except ValueError:
        raise ValueError("a whole number is needed") from None


def at_least(lowest: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers with a lower bound."""

    def parse(value: Any) -> int:
        number = parse_integer(value)
        if number < lowest:
            raise ValueError(f"at least {lowest} is needed")
        return number

    return parse


def whole_between(lowest: int, highest: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers with both bounds."""
    parse_lowest = at_least(lowest)

    def parse(value: Any) -> int:
        number = parse_lowest(value)
        if number > highest:
            raise ValueError(f"at most {highest} is possible")
        return number

    return parse


def parse_number(value: Any) -> float:
    """Read a number, whole or not."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number is needed")
    try:
        number = float(value)
    except ValueError:
        raise ValueError("a number is needed") from None
    if not isfinite(number):
        raise ValueError("a finite number is needed")
    return number


def above(bound: float) -> Callable[[Any], float]:
    """Return a parser of numbers greater than ``bound``."""

    def parse(value: Any) -> float:
        number = parse_number(value)
        if number <= bound:
            raise ValueError(f"more than {bound} is needed")
        return number

    return parse


def between(lowest: float, highest: float) -> Callable[[Any], float]:
    """Return a parser of numbers from ``lowest`` to ``highest``, both inclusive."""

    def parse(value: Any) -> float:
        number = parse_number(value)
        if not lowest <= number <= highest:
            raise ValueError(f"{lowest} to {highest} is needed")
        return number

    return parse


def parse_boolean(value: Any) -> bool:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("true or false is needed")


def parse_text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty is needed")
    return value


def parse_texts_by_name(value: Any) -> dict[str, str]:
    """Read texts by name: a mapping, or Flink's form ``name:text,other:text``, each in quotes or not."""
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    pairs = _PAIR.findall(value) if isinstance(value, str) else []
    if not pairs or ",".join(f"{name}:{text}" for name, text in pairs) != value.strip():
        raise ValueError("names and texts are needed, such as 'rate:5,place:north'")
    return {_unquoted(name): _unquoted(text) for name, text in pairs}


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


_PAIR: Final = re.compile(r"('(?:[^']|'')*'|[^:,']+):('(?:[^']|'')*'|[^,']*)")
_BYTES: Final = {
    "": 1, "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gibibytes": 1 << 30,
}  # fmt: skip


def parse_memory_bytes(value: Any) -> int:
    """Read an amount of memory in bytes: ``64 mb``, ``1 gb``, or a bare number; a kilobyte has 1024 bytes."""
    if type(value) is int and value > 0:
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _BYTES or int(match[1]) == 0:
        raise ValueError("an amount of memory is needed, such as '64 mb' or '1 gb'")
    return int(match[1]) * _BYTES[match[2].lower()]


_UNITS: Final = {
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


def parse_duration_ms(value: Any) -> int:
    """Read a duration in milliseconds: ``10 s``, ``500 ms``, ``2 min``, or a bare number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a duration cannot be negative")
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("a duration is needed, such as '10 s', '500 ms' or '2 min'")
    return int(match[1]) * _UNITS[match[2].lower()]


def parse_checkpoint_time_ms(value: Any) -> int:
    """Read a checkpoint's interval or timeout in milliseconds, for which Flink has a lower bound."""
    duration_ms = parse_duration_ms(value)
    if duration_ms < SHORTEST_CHECKPOINT_TIME_MS:
        raise ValueError(f"at least {SHORTEST_CHECKPOINT_TIME_MS} ms is needed")
    return duration_ms


def parse_positive_duration_ms(value: Any) -> int:
    """Read a duration that is not zero."""
    duration_ms = parse_duration_ms(value)
    if duration_ms == 0:
        raise ValueError("a duration longer than zero is needed")
    return duration_ms


def parse_max_parallelism(value: Any) -> int:
    """Read a max parallelism; -1 derives it from the parallelism."""
    number = parse_integer(value)
    if number != -1 and not 1 <= number <= MAX_PARALLELISM_LIMIT:
        raise ValueError(f"1 to {MAX_PARALLELISM_LIMIT} is needed, or -1 to derive it from the parallelism")
    return number


def one_of(words: Mapping[str, str], later: tuple[str, ...] = ()) -> Callable[[Any], str]:
    """Return a parser of one of several words, whatever their case, dashes and underscores.

    ``words`` maps each word to its meaning; ``later`` names words of Flink that are not supported yet.
    """

    def spelled(word: str) -> str:
        return word.strip().lower().replace("_", "").replace("-", "")

    known = {spelled(word): meaning for word, meaning in words.items()}
    unsupported = {spelled(word): word for word in later}

    def parse(value: Any) -> str:
        choices = ", ".join(dict.fromkeys(words.values()))
        if isinstance(value, str):
            word = spelled(value)
            if word in known:
                return known[word]
            if word in unsupported:
                raise ValueError(f"not supported yet; the choice is {choices}")
        raise ValueError(f"the choice is {choices}")

    return parse


_CLASS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def word_or_class(words: Mapping[str, str], later: tuple[str, ...] = ()) -> Callable[[Any], str]:
    """Return a parser of one of several words, or of the name of a class with its module."""
    parse_word = one_of(words, later)

    def parse(value: Any) -> str:
        try:
            return parse_word(value)
        except ValueError as error:
            if isinstance(value, str) and _CLASS.fullmatch(value):
                return value
            raise ValueError(f"{error}, or a class as package.module.Class") from None

    return parse


def parse_on_for_now(value: Any) -> bool:
    """Read a switch that must be true, because the engine does not support false yet."""
    if not parse_boolean(value):
        raise ValueError("not supported yet; leave it true")
    return True
