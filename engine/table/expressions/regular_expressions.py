"""LIKE, SIMILAR TO and the REGEXP functions (Flink: SqlLikeUtils, SqlFunctionUtils).

A pattern that is no pattern makes most functions NULL (REGEXP FALSE); LIKE and SIMILAR TO fail the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from onceproof.engine.table.expressions.java_regex import InvalidPattern, java_pattern
from onceproof.engine.table.expressions.java_strings import in_hash_map, units
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    FunctionFailed,
    Scope,
    builder,
    strict,
)
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.values import Row

_CLASSES: Final = {
    "ALPHA": r"\p{Alpha}",
    "UPPER": r"\p{Upper}",
    "LOWER": r"\p{Lower}",
    "DIGIT": r"\d",
    "SPACE": " ",
    "WHITESPACE": r"\s",
    "ALNUM": r"\p{Alnum}",
}
_NAMED_CLASS: Final = re.compile(r"\[:([A-Z]+|[a-z]+):\]")
_SPECIAL: Final = frozenset("[]()|^-+*_%?{}")
_SPECIAL_IN_JAVA: Final = frozenset("[]()|^-+*?{}$\\.")


# ---- LIKE


def _invalid_escape(pattern: str, at: int) -> FunctionFailed:
    return FunctionFailed(f"Invalid escape sequence '{pattern}', {at}")


@lru_cache(maxsize=1024)
def like_matcher(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return the test whether a text is like a pattern. Raises FunctionFailed."""
    if escape is not None and len(escape) != 1:
        raise FunctionFailed(f"Invalid escape character '{escape}'")
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        each = pattern[at]
        if each == escape:
            following = pattern[at + 1 : at + 2]
            if not following or following not in ("_", "%", escape):
                raise _invalid_escape(pattern, at)
            parts.append(re.escape(following))
            at += 1
        else:
            parts.append({"_": ".", "%": ".*"}.get(each) or re.escape(each))
        at += 1
    match = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda text: match(text) is not None


@strict("$LIKE$1", "$NOT LIKE$1")
def _like(call: Call, scope: Scope) -> Callable[..., bool]:
    if call.name == "$NOT LIKE$1":
        return lambda text, *pattern: not like_matcher(*pattern)(text)
    return lambda text, *pattern: like_matcher(*pattern)(text)


# ---- SIMILAR TO


@lru_cache(maxsize=1024)
def similar_matcher(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return the test whether a text is similar to a pattern of SQL. Raises FunctionFailed."""
    if escape is not None and len(escape) != 1:
        raise FunctionFailed(f"Invalid escape character '{escape}'")
    try:
        match = java_pattern(_similar_in_java(pattern, escape)).fullmatch
    except InvalidPattern as error:
        raise FunctionFailed(str(error), "java.util.regex.PatternSyntaxException") from None
    return lambda text: match(text) is not None


_SIMILAR: Final = {"_": ".", "%": "(?s:.*)", "\\": r"\\", "$": r"\$"}
"""What is written otherwise in Java. A point stays: in Flink it stands for any character, too."""


def _similar_in_java(pattern: str, escape: str | None) -> str:
    parts: list[str] = []
    at = 0
    inside = False
    while at < len(pattern):
        each = pattern[at]
        if each == escape:
            parts.append(_escaped(pattern, at))
            at += 2
        elif inside and (named := _NAMED_CLASS.match(pattern, at)) and named[1].upper() in _CLASSES:
            parts.append(_CLASSES[named[1].upper()])
            at = named.end()
        elif inside and each != "]":
            if each in _SPECIAL and each not in "-^":
                raise _invalid_pattern(pattern)
            parts.append(f"\\{each}" if each == "\\" else each)
            at += 1
        else:
            if (each == "]") is not inside and each in "[]":
                raise _invalid_pattern(pattern)
            inside = each == "["
            parts.append(_SIMILAR.get(each, each))
            at += 1
    if inside:
        raise _invalid_pattern(pattern)
    return "".join(parts)


def _escaped(pattern: str, at: int) -> str:
    """Return the character behind an escape in Java's form."""
    following = pattern[at + 1 : at + 2]
    if not following or (following not in _SPECIAL and following != pattern[at]):
        raise _invalid_escape(pattern, at)
    return f"\\{following}" if following in _SPECIAL_IN_JAVA else following


def _invalid_pattern(pattern: str) -> FunctionFailed:
    return FunctionFailed(f"Invalid regular expression '{pattern}'")


@strict("$SIMILAR TO$1", "$NOT SIMILAR TO$1")
def _similar(call: Call, scope: Scope) -> Callable[..., bool]:
    if call.name == "$NOT SIMILAR TO$1":
        return lambda text, *pattern: not similar_matcher(*pattern)(text)
    return lambda text, *pattern: similar_matcher(*pattern)(text)


# ---- REGEXP


def _regexp(text: str, pattern: str) -> bool:
    if not pattern:
        return False
    try:
        return java_pattern(pattern).search(text) is not None
    except InvalidPattern:
        return False


def _extract(text: str, pattern: str, group: int = 0) -> str | None:
    try:
        match = java_pattern(pattern).search(text)
        return None if match is None else match[group]
    except (InvalidPattern, IndexError):
        return None


def _replace(text: str, pattern: str, replacement: str) -> str | None:
    try:
        return java_pattern(pattern).sub(lambda match: replacement, text)
    except InvalidPattern:
        return None


def _extract_all(text: str, pattern: str, group: int = 1) -> tuple[str | None, ...] | None:
    try:
        compiled = java_pattern(pattern)
    except InvalidPattern:
        return None
    if not 0 <= group <= compiled.groups:
        return None
    return tuple([match[group] for match in compiled.finditer(text)])


def _count(text: str, pattern: str) -> int | None:
    try:
        return sum(1 for _ in java_pattern(pattern).finditer(text))
    except InvalidPattern:
        return None


def _instr(text: str, pattern: str) -> int | None:
    try:
        match = java_pattern(pattern).search(text)
    except InvalidPattern:
        return None
    return 0 if match is None else len(units(text[: match.start()])) + 1


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "$REGEXP$1": _regexp,
    "$RLIKE$1": _regexp,
    "$REGEXP_EXTRACT$1": _extract,
    "$REGEXP_EXTRACT_ALL$1": _extract_all,
    "$REGEXP_REPLACE$1": _replace,
    "$REGEXP_COUNT$1": _count,
    "$REGEXP_INSTR$1": _instr,
    "$REGEXP_SUBSTR$1": _extract,
}


@strict(*_FUNCTIONS)
def _function(call: Call, scope: Scope) -> Callable[..., Any]:
    return _FUNCTIONS[call.name]


# ---- splitting


def split(text: str, pattern: str, limit: int = 0) -> list[str]:
    """Return what ``String.split`` returns: without a limit, empty texts at the end are left out."""
    compiled = java_pattern(pattern)
    parts: list[str] = []
    start = 0
    for match in compiled.finditer(text):
        if limit and len(parts) == limit - 1:
            break
        if match.end() == 0 or (match.end() == match.start() == len(text)):
            continue
        parts.append(text[start : match.start()])
        start = match.end()
    parts.append(text[start:])
    if not limit:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        if parts == [""] and text:
            return []
    return parts


def str_to_map(text: str, pairs_apart: str, value_apart: str) -> tuple[tuple[str, str | None], ...]:
    """Return the map that a text describes; a pair without a value has NULL."""
    found: dict[str, str | None] = {}
    pairs = split(text, pairs_apart) if text else []
    for pair in pairs:
        parts = split(pair, value_apart, 2)
        found[parts[0] if len(parts) > 1 else pair] = parts[1] if len(parts) > 1 else None
    return tuple([(key, found[key]) for key in in_hash_map(found, len(pairs))])


@builder("$STR_TO_MAP$1")
def _str_to_map(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    text, *separators = operands

    def evaluate(row: Row) -> Any:
        value = text(row)
        marks = [separator(row) for separator in separators] or [",", "="]
        if value is None or None in marks:
            return None
        return str_to_map(value, *marks)

    return evaluate
