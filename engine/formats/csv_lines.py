"""Records of CSV as texts of their fields, as Jackson's reader and writer have them, which Flink uses.

The rules this module lives by:

- A field is quoted where its first character is the quote; a quote within it is doubled. Blanks may follow
  the closing quote. In any other field a quote is a character like others.
- Behind the escape sign n, r, t and 0 are control characters, and any other character is itself.
- A record ends at the first end of a line outside quotes: a newline, a carriage return, or both.
- A field is written with quotes where it may need them, by Jackson's loose rule: where it is long, or has a
  character that is not greater than the signs. Without a quote, a field that needs one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from onceproof.engine.formats.csv_schema import CsvForm

LONGEST_UNQUOTED: Final = 24
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_BLANKS: Final = re.compile(r"[ \t]*")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_COMMENT: Final = re.compile(r"[ \t\r\n]*#[^\r\n]*(?:\r\n|\r|\n|\Z)")


class WrongRecord(ValueError):
    """A text is not a record of CSV."""


class UnfinishedRecord(WrongRecord):
    """The text ends within quotes, or behind an escape sign."""


class CsvScanner:
    """Splits text into records with the signs of a form."""

    def __init__(self, form: CsvForm) -> None:
        self._form = form
        signs = re.escape(form.column_separator) + (re.escape(form.escape) if form.escape else "")
        self._plain = re.compile(rf"[^{signs}\r\n]*")
        quoted = "".join(re.escape(sign) for sign in (form.quote, form.escape) if sign)
        self._quoted = re.compile(rf"[^{quoted}]*" if quoted else r"[^\0]*")

    def after_comments(self, text: str, begin: int) -> int:
        """Return where the first line begins that is no comment, where the form has comments."""
        if self._form.allows_comments:
            while match := _COMMENT.match(text, begin):
                if match.end() == begin:
                    break
                begin = match.end()
        return begin

    def record(self, text: str, begin: int) -> tuple[list[str], int]:
        """Return the fields of the record that begins at an index, and where the next one begins.

        Raises:
            UnfinishedRecord: the text ends within the record's quotes.
            WrongRecord: something follows a closing quote.
        """
        form = self._form
        separator, quote = form.column_separator, form.quote
        fields: list[str] = []
        place = begin
        while True:
            if quote is not None and text.startswith(quote, place):
                field, place = self._quoted_field(text, place + 1)
            else:
                field, place = self._plain_field(text, place)
            fields.append(field)
            if place == len(text):
                return fields, place
            if text[place] != separator:
                end = _LINE_END.match(text, place)
                if end is None:
                    raise WrongRecord(
                        f"{text[place]!r} follows a closing quote: double the quotes in a field"
                    )
                return fields, end.end()
            place += 1

    def _plain_field(self, text: str, place: int) -> tuple[str, int]:
        parts = []
        while True:
            match = self._plain.match(text, place)
            assert match is not None
            parts.append(match[0])
            place = match.end()
            if self._form.escape is None or not text.startswith(self._form.escape, place):
                return "".join(parts), place
            parts.append(self._escaped(text, place))
            place += 2

    def _quoted_field(self, text: str, place: int) -> tuple[str, int]:
        quote, escape = self._form.quote, self._form.escape
        assert quote is not None
        parts = []
        while True:
            match = self._quoted.match(text, place)
            assert match is not None
            parts.append(match[0])
            place = match.end()
            if place == len(text):
                raise UnfinishedRecord("a quote opens that never closes")
            if text[place] == escape:
                parts.append(self._escaped(text, place))
                place += 2
            elif text.startswith(quote, place + 1):
                parts.append(quote)
                place += 2
            else:
                blanks = _BLANKS.match(text, place + 1)
                assert blanks is not None
                return "".join(parts), place + 1 if self._ends_field(text, place + 1) else blanks.end()

    def _ends_field(self, text: str, place: int) -> bool:
        return text.startswith(self._form.column_separator, place)

    def _escaped(self, text: str, place: int) -> str:
        if place + 1 == len(text):
            raise UnfinishedRecord("an escape sign stands at the end")
        return _CONTROLS.get(text[place + 1], text[place + 1])


class CsvWriting:
    """Writes records with the signs of a form."""

    def __init__(self, form: CsvForm) -> None:
        self._form = form
        signs = [ord(sign) for sign in (form.column_separator, form.quote or "", "\r") if sign]
        others = re.escape("\\" + (form.escape or ""))
        self._may_need_quotes = re.compile(rf"[\0-{re.escape(chr(max(signs)))}{others}]")
        self._needs_quotes = re.compile(rf"[\r\n{re.escape(form.column_separator)}]")

    def quoted(self, field: str) -> str:
        """Return a text as a field. Raises WrongRecord where it needs quotes and the form has none."""
        form = self._form
        if form.quote is None:
            if self._needs_quotes.search(field):
                raise WrongRecord("a field holds the column separator or the end of a line: set a quote")
            return field
        if len(field) <= LONGEST_UNQUOTED and not self._may_need_quotes.search(field):
            return field
        if form.escape is not None:
            field = field.replace(form.escape, form.escape * 2)
        return f"{form.quote}{field.replace(form.quote, form.quote * 2)}{form.quote}"

    def line(self, fields: Sequence[str]) -> str:
        """Return the line of fields that are quoted already."""
        return self._form.column_separator.join(fields) + self._form.line_separator
