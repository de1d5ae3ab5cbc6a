r"""Patterns of java.util.regex as patterns of Python's ``re``.

``java_pattern`` translates what is written otherwise: classes with unions and intersections, ``\\p{...}``,
``\\Q...\\E``, named groups, flags in the middle, and ``.``, which in Java does not match ``\\r`` and three
more ends of lines. Java's ``\\d``, ``\\w``, ``\\s`` and ``(?i)`` know ASCII only, and so do these patterns.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from onceproof.engine.table.expressions.registry import FunctionFailed

NOT_END_OF_LINE: Final = "[^\n\r\x85\u2028\u2029]"
_FLAGS: Final = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]+))?([:)])")
_PROPERTIES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_LETTERS: Final = r"(?:(?u:[^\W\d_]))"
_BEYOND_ASCII: Final = {
    "L": _LETTERS,
    "IsL": _LETTERS,
    "IsAlphabetic": _LETTERS,
    "IsLetter": _LETTERS,
    "javaLetter": _LETTERS,
    "N": r"(?u:\d)",
    "Nd": r"(?u:\d)",
    "IsDigit": r"(?u:\d)",
}
_ESCAPES: Final = {
    "h": "[ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "R": "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])",
    "z": "\\Z",
    "Z": "(?=(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])?\\Z)",
    "e": "\\x1b",
    "v": "[\\n\\x0b\\f\\r\\x85\\u2028\\u2029]",
}


class InvalidPattern(ValueError):
    """A text is no pattern of Java (PatternSyntaxException)."""


@lru_cache(maxsize=1024)
def java_pattern(pattern: str, dot_all: bool = False) -> re.Pattern[str]:
    """Return the compiled pattern.

    Raises:
        InvalidPattern: Java refuses it, too.
        FunctionFailed: Java accepts it, Python does not.
    """
    translated = _Translator(pattern, dot_all).translate()
    try:
        return re.compile(translated, re.ASCII | (re.DOTALL if dot_all else 0))
    except (re.error, OverflowError) as error:
        if "look-behind" in str(error):
            raise FunctionFailed(f"the engine lacks the pattern {pattern!r}: {error}") from None
        raise InvalidPattern(str(error)) from None


class _Translator:
    """Translates one pattern, from left to right."""

    def __init__(self, pattern: str, dot_all: bool) -> None:
        self._text = pattern
        self._at = 0
        self._dot = "." if dot_all else NOT_END_OF_LINE
        self._open: list[tuple[int, str]] = [(0, self._dot)]
        """For each open group: the groups of flags to close with it, and what ``.`` was outside."""

    def translate(self) -> str:
        found: list[str] = []
        while self._at < len(self._text):
            found.append(self._next())
        if len(self._open) != 1:
            raise InvalidPattern("Unclosed group")
        return "".join(found) + ")" * self._open[0][0]

    def _next(self) -> str:
        each = self._text[self._at]
        match each:
            case "\\":
                return self._escape(False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ")":
                if len(self._open) == 1:
                    raise InvalidPattern("Unmatched closing ')'")
                self._at += 1
                extra, self._dot = self._open.pop()
                return ")" * (extra + 1)
            case ".":
                self._at += 1
                return self._dot
        self._at += 1
        return each

    def _group(self) -> str:
        flags = _FLAGS.match(self._text, self._at)
        if flags is not None:
            self._at = flags.end()
            before = self._dot
            if "s" in flags[1]:
                self._dot = "(?s:.)"
            elif "s" in (flags[2] or ""):
                self._dot = NOT_END_OF_LINE
            on, off = (re.sub("[sduU]", "", each or "") for each in (flags[1], flags[2]))
            text = f"(?{on}{f'-{off}' if off else ''}:"
            if flags[3] == ":":
                self._open.append((0, before))
            else:
                extra, outside = self._open.pop()
                self._open.append((extra + 1, outside))
            return text
        self._open.append((0, self._dot))
        self._at += 1
        if (name := re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>").match(self._text, self._at)) is not None:
            self._at = name.end()
            return f"(?P<{name[1]}>"
        return "("

    def _escape(self, inside: bool) -> str:
        """Translate what begins with a backslash; inside: within a class."""
        if self._at + 1 >= len(self._text):
            raise InvalidPattern("Unexpected internal error")
        letter = self._text[self._at + 1]
        self._at += 2
        if letter == "Q":
            end = self._text.find("\\E", self._at)
            end = len(self._text) if end < 0 else end
            quoted, self._at = self._text[self._at : end], end + 2
            return re.escape(quoted)
        if letter in "pP":
            return self._property(letter == "P", inside)
        if letter == "k":
            return self._replace(r"<([A-Za-z][A-Za-z0-9]*)>", "(?P={})")
        if letter == "x" and self._text.startswith("{", self._at):
            return self._replace(r"\{([0-9a-fA-F]+)\}", "{}", lambda code: re.escape(chr(int(code, 16))))
        if letter == "0":
            return self._replace("([0-7]{1,3})", "{}", lambda code: re.escape(chr(int(code, 8))))
        if letter in _ESCAPES and not (inside and letter in "Rz"):
            text = _ESCAPES[letter]
            return text[1:-1] if inside and text.startswith("[") else text
        if letter.isascii() and letter.isalpha() and letter not in "tnrfaxuBbAdDsSwWG":
            raise InvalidPattern(f"Illegal/unsupported escape sequence \\{letter}")
        return f"\\{letter}" if letter.isascii() else letter

    def _replace(self, pattern: str, form: str, of: object = None) -> str:
        match = re.compile(pattern).match(self._text, self._at)
        if match is None:
            raise InvalidPattern("Illegal escape sequence")
        self._at = match.end()
        return form.format(of(match[1]) if callable(of) else match[1])

    def _property(self, negated: bool, inside: bool) -> str:
        match = re.compile(r"\{(\w+)\}|(\w)").match(self._text, self._at)
        if match is None:
            raise InvalidPattern("Unclosed character family")
        self._at = match.end()
        name = match[1] or match[2]
        if (known := _PROPERTIES.get(name)) is not None:
            if not inside:
                return f"[{'^' if negated else ''}{known}]"
            if not negated:
                return known
        elif (beyond := _BEYOND_ASCII.get(name)) is not None and not inside:
            return f"(?:(?!{beyond})(?s:.))" if negated else beyond
        raise FunctionFailed(f"the engine lacks the property {name} in patterns of texts")

    def _class(self) -> str:
        """Translate a class: parts of an intersection become looks ahead, nested classes alternatives."""
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        parts: list[str] = []
        plain, nested = "", []
        first = True
        while True:
            if self._at >= len(self._text):
                raise InvalidPattern("Unclosed character class")
            each = self._text[self._at]
            if each == "]" and not first:
                self._at += 1
                break
            first = False
            if each == "[":
                nested.append(self._class())
            elif self._text.startswith("&&", self._at):
                self._at += 2
                parts.append(_union(plain, nested))
                plain, nested = "", []
            elif each == "\\":
                plain += self._escape(True)
            else:
                self._at += 1
                plain += f"\\{each}" if each in "&~|" else each
        if not parts and not nested:
            return f"[{'^' if negated else ''}{plain}]"
        whole = _intersection([*parts, _union(plain, nested)])
        return f"(?:(?!{whole})(?s:.))" if negated else whole


def _union(plain: str, nested: list[str]) -> str:
    return f"(?:{'|'.join([*([f'[{plain}]'] if plain else []), *nested])})"


def _intersection(parts: list[str]) -> str:
    return f"(?:{''.join([f'(?={each})' for each in parts[:-1]])}{parts[-1]})"
