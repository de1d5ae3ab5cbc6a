"""Functions of texts (Flink: SqlFunctionUtils, BinaryStringDataUtil, functions of table.runtime).

Most work on Flink's binary strings, which count code points; padding and OVERLAY count units of UTF-16.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote_plus, unquote_to_bytes

from onceproof.engine.table.expressions.java_strings import from_units, is_number, units
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    FunctionFailed,
    Scope,
    builder,
    strict,
)
from onceproof.engine.table.expressions.rex import Call, Symbol
from onceproof.engine.table.types import BINARIES, INTEGERS, TEXTS
from onceproof.engine.table.values import Row

Make = Callable[..., Any]
_LONGEST: Final = 2147483647


def _simple(names: Sequence[str], function: Make) -> None:
    """Register a function of values that are not NULL."""
    strict(*names)(lambda call, scope: function)


# ---- case and length


def _initial(text: str) -> str:
    """Return each word, of letters and digits, with a capital (Flink: initcap of Calcite)."""
    found: list[str] = []
    inside = False
    for each in text:
        if each.isascii() and each.isalnum():
            found.append(each.lower() if inside else each.upper())
            inside = True
        else:
            found.append(each)
            inside = False
    return "".join(found)


_simple(["$UPPER$1"], str.upper)
_simple(["$LOWER$1"], str.lower)
_simple(["$INITCAP$1"], _initial)
_simple(["$REVERSE$1"], lambda text: text[::-1])
_simple(["$CHAR_LENGTH$1", "$CHARACTER_LENGTH$1"], len)


def _ascii(text: str) -> int:
    if not text:
        return 0
    byte = text.encode()[0]
    return byte if byte < 128 else byte - 256


_simple(["$ASCII$1"], _ascii)
_simple(["$CHR$1"], lambda code: "" if code < 0 else chr(code & 0xFF))
_simple(["$REPEAT$1"], lambda text, times: text * max(times, 0))
_simple(["$REPLACE$1"], str.replace)


# ---- parts


def substring(text: str, start: int, length: int = _LONGEST) -> str | None:
    """Return a part of a text from a position that counts from 1, or from the end if it is negative."""
    if length < 0 or length > _LONGEST or start > _LONGEST:
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[begin : begin + length] if begin >= 0 else ""


def _left(text: str, length: int) -> str:
    return text[:length] if length > 0 else ""


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    text = units(text)
    if start <= 0 or start > len(text):
        return from_units(text)
    count = len(units(other)) if length is None else length
    rest = text[start - 1 + count :] if start + count <= len(text) and count > 0 else ""
    return from_units(text[: start - 1] + units(other) + rest)


def _padded(left: bool) -> Callable[[str, int, str], str | None]:
    def pad(text: str, length: int, filler: str) -> str | None:
        if length < 0 or not filler:
            return None
        text, filler = units(text), units(filler)
        missing = max(length - len(text), 0)
        padding = (filler * (missing // len(filler) + 1))[:missing]
        return from_units(padding + text[:length] if left else text[:length] + padding)

    return pad


_simple(["$SUBSTRING$1", "$SUBSTR$1"], substring)
_simple(["$LEFT$1"], _left)
_simple(["$RIGHT$1"], _right)
_simple(["$OVERLAY$1"], _overlay)
_simple(["$LPAD$1"], _padded(True))
_simple(["$RPAD$1"], _padded(False))


# ---- search


def _index(text: str, found: str, start: int) -> int:
    """Return where a text has another, or -1; nothing is at its begin (Flink: BinaryStringData.indexOf)."""
    return text.find(found, start) if found else 0


def _position(found: str, text: str, start: int = 1) -> int:
    return _index(text, found, max(start - 1, 0)) + 1


def _instr(text: str, found: str, start: int = 1, times: int = 1) -> int:
    if times <= 0:
        raise FunctionFailed("nthAppearance must be positive!", "java.lang.IllegalArgumentException")
    if start == 0:
        return 0
    if start < 0:
        place = _instr(text[::-1], found[::-1], -start, times)
        return 0 if place == 0 else len(text) + 2 - place - len(found)
    place = 0
    for _ in range(times):
        place = _index(text, found, start - 1) + 1
        if place == 0:
            return 0
        start = place + 1
    return place


_simple(["$POSITION$1", "$LOCATE$1"], _position)
_simple(["$INSTR$1"], _instr)
_simple(["$STARTSWITH$1"], lambda text, part: text.startswith(part))
_simple(["$ENDSWITH$1"], lambda text, part: text.endswith(part))


@strict("$TRIM$1")
def _trim(call: Call, scope: Scope) -> Make:
    """Operands are the side, the characters and the text."""
    side = call.operands[0]
    word = side.value if isinstance(side, Symbol) else "BOTH"
    strip = {"LEADING": str.lstrip, "TRAILING": str.rstrip}.get(word, str.strip)
    if isinstance(side, Symbol):
        return lambda _, characters, text: strip(text, characters) if characters else text
    return lambda text, characters=" ": strip(text, characters) if characters else text


@strict("$LTRIM$1", "$RTRIM$1", "$BTRIM$1")
def _trim_side(call: Call, scope: Scope) -> Make:
    strip = {"$LTRIM$1": str.lstrip, "$RTRIM$1": str.rstrip, "$BTRIM$1": str.strip}[call.name]
    return lambda text, characters=" ": strip(text, characters) if characters else text


@builder("$TRANSLATE3$1")
def _translate(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Map characters; those without a counterpart vanish. NULL counterparts are none."""
    text, given, wanted = operands

    def evaluate(row: Row) -> str | None:
        value, characters = text(row), given(row)
        if value is None or not characters:
            return None if value is None else str(value)
        others = wanted(row) or ""
        table: dict[int, str] = {}
        for at, each in enumerate(characters):
            table.setdefault(ord(each), others[at] if at < len(others) else "")
        return str(value).translate(table)

    return evaluate


# ---- joining and splitting


@builder("$||$1", "$CONCAT$1")
def _concat(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    def evaluate(row: Row) -> Any:
        values = [operand(row) for operand in operands]
        if None in values:
            return None
        return b"".join(values) if isinstance(values[0], bytes) else "".join(values)

    return evaluate


@builder("$CONCAT_WS$1")
def _concat_with(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Join what is not NULL."""
    separator, *others = operands

    def evaluate(row: Row) -> str | None:
        mark = separator(row)
        if mark is None:
            return None
        return str(mark).join([value for operand in others if (value := operand(row)) is not None])

    return evaluate


def _split_by(text: str, separator: str) -> list[str]:
    if not text:
        return []
    return text.split(separator) if separator else re.split(r"\s", text)


@strict("$SPLIT_INDEX$1")
def _split_index(call: Call, scope: Scope) -> Make:
    if call.operands[1].type.root in INTEGERS:

        def by_code(text: str, code: int, index: int) -> str | None:
            parts = text.split(chr(code)) if text and 1 <= code <= 255 else []
            return parts[index] if 0 <= index < len(parts) else None

        return by_code

    def by_text(text: str, separator: str, index: int) -> str | None:
        parts = _split_by(text, separator)
        return parts[index] if 0 <= index < len(parts) else None

    return by_text


def _split(text: str, separator: str) -> tuple[str, ...]:
    if not separator:
        return tuple(text)
    return tuple(text.split(separator)) if text else ()


_simple(["$SPLIT$1"], _split)


@builder("$ELT$1")
def _elt(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    index, *values = operands

    def evaluate(row: Row) -> Any:
        place = index(row)
        return None if place is None or not 1 <= place <= len(values) else values[place - 1](row)

    return evaluate


# ---- kinds of texts


def _is(test: Callable[[str], bool]) -> Any:
    """Return the builder of a test; NULL and what is no text does not pass it, integers are digits."""

    def build(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
        (operand,) = operands
        root = call.operands[0].type.root
        if root not in TEXTS:
            numeric = root in INTEGERS or (call.name == "$IS_DECIMAL$1" and root not in BINARIES)
            passes = numeric and call.name != "$IS_ALPHA$1"
            return lambda row: passes and operand(row) is not None
        return lambda row: (value := operand(row)) is not None and bool(value) and test(value)

    return build


builder("$IS_ALPHA$1")(_is(str.isalpha))
builder("$IS_DIGIT$1")(_is(str.isdecimal))
builder("$IS_DECIMAL$1")(_is(lambda text: is_number(text)))


# ---- addresses

_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_PROTOCOLS: Final = frozenset({"http", "https", "ftp", "file", "jar", "mailto"})


def _url_part(url: str, part: str) -> str | None:
    match = _URL.fullmatch(url.strip())
    if match is None or match[1].lower() not in _PROTOCOLS:
        return None
    protocol, authority, path, query, reference = match.groups()
    user, _, host = (authority or "").rpartition("@")
    host = re.sub(r":\d*$", "", host)
    whole = path if query is None else f"{path}?{query}"
    return {
        "HOST": host,
        "PATH": path,
        "QUERY": query,
        "REF": reference,
        "PROTOCOL": protocol.lower(),
        "FILE": whole,
        "AUTHORITY": authority,
        "USERINFO": user if "@" in (authority or "") else None,
    }.get(part)


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    if key is None:
        return _url_part(url, part)
    query = _url_part(url, part) if part == "QUERY" else None
    match = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", query) if query is not None else None
    return None if match is None else match[1]


def _url_decode(text: str) -> str | None:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


_simple(["$PARSE_URL$1"], _parse_url)
_simple(["$URL_ENCODE$1"], lambda text: quote_plus(text, safe="*-._").replace("~", "%7E"))
_simple(["$URL_DECODE$1"], _url_decode)
