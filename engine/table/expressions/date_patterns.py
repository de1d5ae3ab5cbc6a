"""Patterns of dates: java.time.DateTimeFormatter and java.text.SimpleDateFormat, in English.

Flink formats and parses TIMESTAMP with the former and texts, dates and Unix times with the latter. They share
most letters, but parse differently: the former takes exact widths and refuses values out of range, the latter
takes any number, lets values out of range run on, and ignores what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from onceproof.engine.table.expressions.calendar import (
    Zone,
    date_of,
    days_of,
    historic_days_of,
    julian_date_of,
    last_day,
)
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.values import NANOS_PER_DAY, NANOS_PER_MS, NANOS_PER_SECOND

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Token = tuple[str, int]
"""A letter and how often it stands, or a literal text and 0; ``[`` and ``]`` with -1."""


class Moment(NamedTuple):
    """What a pattern prints: a local reading, and its zone and offset."""

    year: int
    month: int
    day: int
    days: int
    """Since the epoch."""
    nanos: int
    """Of the day."""
    zone: Zone | None
    utc_ms: int


@lru_cache(maxsize=512)
def tokens_of(pattern: str, new: bool) -> tuple[Token, ...]:
    """Split a pattern; ``new`` is that of java.time. Raises FunctionFailed for an unknown letter."""
    found: list[Token] = []
    at = 0
    letters = "GuyYMLwWdDFEecQqahHkKmsSAnNzOXxZV" if new else "GyYMLwWDdFEuaHkKhmsSzZX"
    while at < len(pattern):
        each = pattern[at]
        if each == "'":
            quoted = re.compile(r"'((?:[^']|'')*)'").match(pattern, at)
            if quoted is None:
                raise _illegal(f"Pattern ends with an incomplete string literal: {pattern}")
            found.append((quoted[1].replace("''", "'") or "'", 0))
            at = quoted.end()
        elif each.isascii() and each.isalpha():
            run = len(pattern[at:]) - len(pattern[at:].lstrip(each))
            if each not in letters:
                raise _illegal(f"{'Unknown' if new else 'Illegal'} pattern {_word(new)}: {_shown(each, new)}")
            found.append((each, run))
            at += run
        else:
            found.append((each, -1 if new and each in "[]" else 0))
            at += 1
    return tuple(found)


def _word(new: bool) -> str:
    return "letter" if new else "character"


def _shown(letter: str, new: bool) -> str:
    return letter if new else f"'{letter}'"


def _illegal(message: str) -> FunctionFailed:
    return FunctionFailed(message, "java.lang.IllegalArgumentException")


# ---- printing


def format_new(nanos: int, pattern: str) -> str:
    """Print a local reading with a pattern of java.time."""
    days, rest = divmod(nanos, NANOS_PER_DAY)
    moment = Moment(*date_of(days), days, rest, None, nanos // NANOS_PER_MS)
    return "".join([_printed(moment, token, True) for token in tokens_of(pattern, True)])


def format_old(utc_ms: int, pattern: str, zone: Zone) -> str:
    """Print a moment in a zone with a pattern of SimpleDateFormat."""
    days, rest = divmod(zone.local_ms(utc_ms), 86_400_000)
    moment = Moment(*julian_date_of(days), days, rest * NANOS_PER_MS, zone, utc_ms)
    return "".join([_printed(moment, token, False) for token in tokens_of(pattern, False)])


def _printed(moment: Moment, token: Token, new: bool) -> str:
    letter, width = token
    if width <= 0:
        return letter if width == 0 else ""
    text = _text_field(moment, letter, width, new)
    if text is not None:
        return text
    if letter == "S" and new:
        return f"{moment.nanos % NANOS_PER_SECOND:09d}"[:width].ljust(width, "0")
    if letter in "yuY" and (letter != "u" or new):
        year = moment.year if letter != "Y" else _week(moment, not new)[0]
        if letter == "y" and year <= 0:
            year = 1 - year
        if width == 2:
            return f"{year % 100:02d}"
        sign = "+" if new and width >= 4 and year > 9999 and width < 19 else ""
        return f"{sign}{_padded(year, width)}"
    return _padded(_NUMBERS[letter](moment, new), width)


def _padded(value: int, width: int) -> str:
    return f"{value:0{width}d}" if value >= 0 else f"-{-value:0{width}d}"


def _text_field(moment: Moment, letter: str, width: int, new: bool) -> str | None:
    if letter in "ML" and width >= 3:
        return _name(MONTHS[moment.month - 1], width, 5 if new else 99)
    if letter == "E" or (letter in "ec" and width >= 3):
        return _name(DAYS[(moment.days + 3) % 7], width, 5 if new else 99)
    if letter == "a":
        return "PM" if moment.nanos >= NANOS_PER_DAY // 2 else "AM"
    if letter == "G":
        era = "AD" if moment.year > 0 else "BC"
        full = {"AD": "Anno Domini", "BC": "Before Christ"}[era]
        return full if new and width == 4 else era[:1] if new and width == 5 else era
    if letter in "zZXxVO":
        return _zone_text(moment, letter, width, new)
    if letter in "Qq" and width >= 3:
        quarter = (moment.month + 2) // 3
        names = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
        return f"Q{quarter}" if width == 3 else names[quarter - 1]
    return None


def _name(name: str, width: int, narrow: int) -> str:
    return name[:1] if width == narrow else name if width >= 4 else name[:3]


def _zone_text(moment: Moment, letter: str, width: int, new: bool) -> str:
    if moment.zone is None:
        message = f"Unable to extract {'ZoneId' if letter in 'zV' else 'ZoneOffset'} from temporal"
        raise FunctionFailed(message, "java.time.DateTimeException")
    offset = moment.zone.offset_ms(moment.utc_ms) // 60_000
    hours, minutes = divmod(abs(offset), 60)
    sign = "-" if offset < 0 else "+"
    if letter == "z":
        return moment.zone.name(moment.utc_ms)
    if letter == "X":
        short = f"{sign}{hours:02d}"
        return (
            "Z" if not offset else short if width == 1 else f"{short}{':' if width == 3 else ''}{minutes:02d}"
        )
    return f"{sign}{hours:02d}{minutes:02d}"


def _hour(moment: Moment) -> int:
    return moment.nanos // (3600 * NANOS_PER_SECOND)


def _week(moment: Moment, of_java: bool) -> tuple[int, int]:
    """Return year and week of the locale US: weeks begin on Sunday, the first holds January 1."""
    sunday = moment.days - (moment.days + 4) % 7
    count = historic_days_of if of_java else days_of
    year = moment.year + (count(moment.year + 1, 1, 1) < sunday + 7)
    first = count(year, 1, 1)
    return year, (sunday - (first - (first + 4) % 7)) // 7 + 1


def _week_of_month(moment: Moment, new: bool) -> int:
    first = moment.days - moment.day + 1
    return (moment.days - (first - (first + 4) % 7)) // 7 + 1


_NUMBERS: Final[dict[str, Callable[[Moment, bool], int]]] = {
    "M": lambda moment, new: moment.month,
    "L": lambda moment, new: moment.month,
    "d": lambda moment, new: moment.day,
    "D": lambda moment, new: moment.days - (days_of if new else historic_days_of)(moment.year, 1, 1) + 1,
    "w": lambda moment, new: _week(moment, not new)[1],
    "W": _week_of_month,
    "F": lambda moment, new: (moment.day - 1) % 7 + 1 if new else (moment.day - 1) // 7 + 1,
    "u": lambda moment, new: (moment.days + 3) % 7 + 1,
    "e": lambda moment, new: (moment.days + 4) % 7 + 1,
    "c": lambda moment, new: (moment.days + 4) % 7 + 1,
    "Q": lambda moment, new: (moment.month + 2) // 3,
    "q": lambda moment, new: (moment.month + 2) // 3,
    "H": lambda moment, new: _hour(moment),
    "k": lambda moment, new: _hour(moment) or 24,
    "K": lambda moment, new: _hour(moment) % 12,
    "h": lambda moment, new: _hour(moment) % 12 or 12,
    "m": lambda moment, new: moment.nanos // (60 * NANOS_PER_SECOND) % 60,
    "s": lambda moment, new: moment.nanos // NANOS_PER_SECOND % 60,
    "S": lambda moment, new: moment.nanos // NANOS_PER_MS % 1000,
    "A": lambda moment, new: moment.nanos // NANOS_PER_MS,
    "n": lambda moment, new: moment.nanos % NANOS_PER_SECOND,
    "N": lambda moment, new: moment.nanos,
}


# ---- parsing

_WORDS: Final = {
    "a": ("AM", "PM"),
    "G": ("AD", "BC"),
}


class Reader(NamedTuple):
    """A pattern as a regular expression whose groups are fields."""

    expression: re.Pattern[str]
    fields: tuple[Token, ...]


@lru_cache(maxsize=512)
def _reader(pattern: str, new: bool) -> Reader:
    parts: list[str] = []
    fields: list[Token] = []
    tokens = tokens_of(pattern, new)
    for at, (letter, width) in enumerate(tokens):
        if width == 0:
            parts.append(re.escape(letter) if new or not letter.isspace() else r"\s+")
        elif width < 0:
            parts.append("(?:" if letter == "[" else ")?")
        else:
            following = tokens[at + 1] if at + 1 < len(tokens) else ("", 0)
            adjacent = following[1] > 0 and _is_number(*following)
            make = _new_field if new else _old_field
            parts.append(f"({make(letter, width, adjacent)})")
            fields.append((letter, width))
    flags = re.ASCII | re.DOTALL | (0 if new else re.IGNORECASE)
    return Reader(re.compile("".join(parts), flags), tuple(fields))


def _is_number(letter: str, width: int) -> bool:
    return (letter in _NUMBERS and not (letter in "ML" and width >= 3)) or letter in "yY"


def _names(letter: str, width: int, both: bool) -> str | None:
    """Return the alternatives of a field of words; both: short and long ones."""
    if letter in "ML" and width >= 3:
        names: tuple[str, ...] = MONTHS
    elif letter == "E":
        names = DAYS
    else:
        return "|".join(_WORDS[letter]) if letter in _WORDS else None
    short = [name[:3] for name in names]
    return "|".join([*names, *short] if both else names if width == 4 else short)


def _new_field(letter: str, width: int, adjacent: bool) -> str:
    if (names := _names(letter, width, False)) is not None:
        return names
    if letter == "S":
        return rf"\d{{{width}}}"
    if letter in "yuY":
        if width == 2:
            return r"\d{2}"
        if width == 4:
            return r"\d{4}|\+\d{5,}|-\d{4,}"
        return rf"\+?-?\d{{{width},19}}"
    if letter in "zV":
        return r"[A-Za-z0-9/_+:-]+"
    if letter in "XxZO":
        return r"Z|[+-]\d{2}(?::?\d{2})?"
    return rf"\d{{{width}}}" if width > 1 else r"\d{1,19}"


def _old_field(letter: str, width: int, adjacent: bool) -> str:
    if (names := _names(letter, width, True)) is not None:
        return rf"[ \t]*(?:{names})"
    if letter in "zZX":
        return r"[ \t]*(?:Z|(?:GMT)?[+-]\d{1,2}(?::?\d{2})?|[A-Za-z]+)"
    if adjacent:
        # Of so many characters what is a number at their begin, and nothing else is tried.
        negative = rf"-\d{{1,{width - 1}}}|" if width > 1 else ""
        return rf"[ \t]*(?>{negative}\d{{1,{width}}})"
    return r"[ \t]*-?\d+"


def _fields(reader: Reader, match: re.Match[str]) -> dict[str, tuple[str, int]]:
    return {
        letter: (text.strip(), width)
        for (letter, width), text in zip(reader.fields, match.groups(), strict=True)
        if text is not None
    }


def _name_index(names: tuple[str, ...], text: str) -> int:
    return next(at for at, name in enumerate(names) if name[:3].lower() == text[:3].lower())


def _number(fields: dict[str, tuple[str, int]], letters: str, default: int) -> int:
    for letter in letters:
        if letter in fields:
            return int(fields[letter][0])
    return default


def _month(fields: dict[str, tuple[str, int]]) -> int:
    for letter in "ML":
        if letter in fields:
            text = fields[letter][0]
            return _name_index(MONTHS, text) + 1 if text[:1].isalpha() else int(text)
    return 1


def _clock_hour(fields: dict[str, tuple[str, int]]) -> int | None:
    """Return the hour of the day; None: the pattern has none."""
    if "H" in fields or "k" in fields:
        return int(fields["H"][0]) if "H" in fields else int(fields["k"][0]) % 24
    if "h" in fields or "K" in fields:
        hour = int(fields["h"][0]) % 12 if "h" in fields else int(fields["K"][0])
        if "a" in fields:
            return hour + 12 * (fields["a"][0].upper() == "PM")
        return hour
    return None


def parse_new(text: str, pattern: str) -> int | None:
    """Read a local reading with a pattern of java.time, in nanoseconds; None: it does not fit.

    What the pattern lacks is that of 1970-01-01 00:00. A day beyond its month's end is the last one.
    """
    reader = _reader(pattern, True)
    match = reader.expression.fullmatch(text)
    if match is None:
        return None
    fields = _fields(reader, match)
    year = _number(fields, "yu", 1970)
    if any(fields[letter][1] == 2 for letter in "yu" if letter in fields):
        year += 2000
    month, day = _month(fields), _number(fields, "d", 1)
    hour = _clock_hour(fields)
    if hour is None or (("h" in fields or "K" in fields) and "a" not in fields):
        hour = 0
    minute, second = _number(fields, "m", 0), _number(fields, "s", 0)
    nano = int(fields["S"][0].ljust(9, "0")[:9]) if "S" in fields else _number(fields, "n", 0)
    ends_day = (hour, minute, second, nano) == (24, 0, 0, 0)
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 + ends_day and minute < 60 and second < 60):
        return None
    if "D" in fields and "M" not in fields:
        days = days_of(year, 1, 1) + int(fields["D"][0]) - 1
    else:
        days = days_of(year, month, min(day, last_day(year, month)))
    seconds = (hour * 60 + minute) * 60 + second
    return days * NANOS_PER_DAY + seconds * NANOS_PER_SECOND + nano


def parse_old(text: str, pattern: str, zone: Zone) -> int | None:
    """Read a moment in a zone with a pattern of SimpleDateFormat, in milliseconds; None: it does not fit."""
    reader = _reader(pattern, False)
    match = reader.expression.match(text)
    if match is None:
        return None
    fields = _fields(reader, match)
    year = _number(fields, "yY", 1970)
    digits = fields.get("y", ("", 0))
    if digits[1] <= 2 and re.fullmatch(r"\d\d", digits[0]):
        year += 2000 if year < 50 else 1900
    month_year, month = divmod(_month(fields) - 1, 12)
    days = historic_days_of(year + month_year, month + 1, _number(fields, "d", 1))
    if "D" in fields and "M" not in fields:
        days = historic_days_of(year, 1, 1) + int(fields["D"][0]) - 1
    seconds = ((_clock_hour(fields) or 0) * 60 + _number(fields, "m", 0)) * 60 + _number(fields, "s", 0)
    local_ms = days * 86_400_000 + seconds * 1000 + _number(fields, "S", 0)
    for letter in "zZX":
        if letter in fields:
            return local_ms - _offset_ms(fields[letter][0])
    return zone.utc_ms(local_ms)


def _offset_ms(text: str) -> int:
    match = re.fullmatch(r"(?:GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", text)
    if match is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return (-minutes if match[1] == "-" else minutes) * 60_000
