"""Values of JSON and paths into them, as Jackson and Jayway's JsonPath see them.

Numbers with a point are decimals, so that they are printed as they were written. A path is definite if it can
name one value at most; others give a list.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn

Step = Callable[[Any], Iterator[Any]]


class JsonError(ValueError):
    """A text is no JSON, a path no path, or the path leads nowhere."""


def _no_constant(word: str) -> NoReturn:
    raise JsonError(f"Non-standard token '{word}'")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


def parse_json(text: str) -> Any:
    """Return the first value in a text. Raises JsonError."""
    stripped = text.lstrip(" \t\r\n")
    try:
        value, _ = _DECODER.raw_decode(stripped)
    except ValueError as error:
        raise JsonError(str(error)) from None
    except RecursionError:
        raise JsonError("nested too deeply") from None
    return value


def quoted(text: str) -> str:
    """Return a text as JSON; what is not ASCII stays as it is."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def print_json(value: Any) -> str:
    """Return a value as JSON without blanks, the keys of objects in order."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case dict():
            return f"{{{','.join([f'{quoted(key)}:{print_json(value[key])}' for key in sorted(value)])}}}"
        case list() | tuple():
            return f"[{','.join(map(print_json, value))}]"
    return str(value)


def scalar_text(value: Any) -> str:
    """Return a scalar as Java's ``String.valueOf``."""
    return (
        ("true" if value else "false") if isinstance(value, bool) else "null" if value is None else str(value)
    )


# ---- paths

_NAME: Final = re.compile(r"[^\s.\[\]()*?,'\"]+")
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_SLICE: Final = re.compile(r"(-?\d*):(-?\d*)")
_COMPARISON: Final = re.compile(r"@((?:\.[\w$-]+|\[[^\]]*\])*)\s*(?:(==|!=|<=|>=|<|>|=~)\s*(.+))?", re.DOTALL)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPath:
    """A compiled path.

    Raises:
        JsonError: it is no path.
    """

    def __init__(self, path: str) -> None:
        self._text = path.strip()
        self.definite = True
        self._steps: list[tuple[Step, bool]] = []
        """Each with whether it must find something, as all do up to the first that may find more."""
        self._at = 1
        self._length = False
        if not self._text.startswith(("$", "@")):
            self._text = f"$.{self._text}"
        while self._at < len(self._text):
            self._read_step()

    def read(self, value: Any) -> Any:
        """Return what the path names: a value, or a list where it is not definite. Raises JsonError."""
        found = [value]
        for step, required in self._steps:
            found = [each for one in found for each in step(one)]
            if required and not found:
                raise JsonError(f"No results for path: {self._text}")
        if not self.definite:
            return len(found) if self._length else found
        return (len(found[0]) if isinstance(found[0], (list, dict)) else None) if self._length else found[0]

    def _leave(self) -> bool:
        """From here on there may be several results; return whether so far there was one."""
        before, self.definite = self.definite, False
        return before

    def _add(self, step: Step) -> None:
        self._steps.append((step, self.definite))

    def _fail(self) -> NoReturn:
        raise JsonError(f"Could not parse token starting at position {self._at}: {self._text}")

    def _read_step(self) -> None:
        rest = self._text[self._at :]
        if rest == ".length()":
            self._length = True
            self._at = len(self._text)
        elif rest.startswith(".."):
            self.definite = False
            self._add(_descend)
            self._at += 1 if rest[2:3] == "[" or rest[2:3] == "*" else 2
            if rest[2:3] == "[":
                self._at += 1
            elif rest[2:3] != "*":
                self._read_name()
        elif rest.startswith(".*"):
            self.definite = False
            self._add(_children)
            self._at += 2
        elif rest.startswith("."):
            self._at += 1
            if not self._text.startswith("[", self._at):
                self._read_name()
        elif rest.startswith("["):
            self._read_brackets()
        else:
            self._fail()

    def _read_name(self) -> None:
        match = _NAME.match(self._text, self._at)
        if match is None:
            self._fail()
        self._at = match.end()
        self._add(_member([match[0]], self.definite))

    def _read_brackets(self) -> None:
        end = _closing(self._text, self._at)
        if end < 0:
            self._fail()
        inside = self._text[self._at + 1 : end].strip()
        self._at = end + 1
        if inside == "*":
            self.definite = False
            self._add(_children)
        elif inside.startswith("?"):
            self._add(_filter(inside[1:].strip(), self._leave()))
        elif inside[:1] in ("'", '"'):
            names = [one or other for one, other in _QUOTED.findall(inside)]
            self.definite = self.definite and len(names) == 1
            self._add(_member([re.sub(r"\\(.)", r"\1", name) for name in names], len(names) == 1))
        elif (match := _SLICE.fullmatch(inside)) is not None:
            first, last = (int(each) if each else None for each in match.groups())
            self._add(_slice(first, last, self._leave()))
        elif re.fullmatch(r"-?\d+(?:\s*,\s*-?\d+)*", inside):
            indexes = [int(each) for each in inside.split(",")]
            self._add(_elements(indexes, len(indexes) > 1 and self._leave()))
        else:
            self._fail()


def _closing(text: str, at: int) -> int:
    """Return where the bracket at a position closes, or -1."""
    depth = 0
    quote = ""
    for place in range(at, len(text)):
        each = text[place]
        if quote:
            quote = "" if each == quote and text[place - 1] != "\\" else quote
        elif each in "'\"":
            quote = each
        elif each in "[(":
            depth += 1
        elif each in "])":
            depth -= 1
            if not depth:
                return place
    return -1


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for each in _children(value):
        if isinstance(each, (dict, list)):
            yield from _descend(each)


def _member(names: list[str], single: bool) -> Step:
    if single and len(names) == 1:
        (name,) = names
        return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else [])

    def members(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            if len(names) == 1:
                yield from [value[name] for name in names if name in value]
            else:
                yield {name: value[name] for name in names if name in value}

    return members


def _only_lists(value: Any, checked: bool) -> bool:
    if checked and not isinstance(value, list):
        raise JsonError("Expected to find an array")
    return isinstance(value, list)


def _elements(indexes: list[int], checked: bool) -> Step:
    def elements(value: Any) -> Iterator[Any]:
        if _only_lists(value, checked):
            for index in indexes:
                if -len(value) <= index < len(value):
                    yield value[index]

    return elements


def _slice(start: int | None, end: int | None, checked: bool) -> Step:
    return lambda value: iter(value[start:end] if _only_lists(value, checked) else [])


def _filter(text: str, checked: bool) -> Step:
    """Return the step of ``?(@.a > 1 && ...)``."""
    inside = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
    alternatives = [[_condition(each.strip()) for each in part.split("&&")] for part in inside.split("||")]

    def passes(value: Any) -> bool:
        return any(all(test(value) for test in tests) for tests in alternatives)

    def select(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            candidates: list[Any] = [value]
        else:
            candidates = value if _only_lists(value, checked) else []
        return (each for each in candidates if passes(each))

    return select


def _condition(text: str) -> Callable[[Any], bool]:
    negated = text.startswith("!")
    match = _COMPARISON.fullmatch(text[negated:].strip("() "))
    if match is None:
        raise JsonError(f"Failed to parse filter: {text}")
    path = JsonPath(f"${match[1]}")
    compare, operand = match[2], match[3]
    if compare == "=~":
        raise JsonError(f"the engine lacks =~ in the filter {text}")
    expected = parse_json(operand.replace("'", '"')) if compare else None

    def test(value: Any) -> bool:
        try:
            found = path.read(value)
        except JsonError:
            return negated
        if not compare:
            return not negated
        try:
            if isinstance(found, bool) is not isinstance(expected, bool):
                return compare == "!="
            return _OPERATORS[compare](found, expected)
        except TypeError:
            return compare == "!="

    return test


@lru_cache(maxsize=512)
def json_path(path: str) -> JsonPath:
    """Return the compiled path. Raises JsonError."""
    return JsonPath(path)
