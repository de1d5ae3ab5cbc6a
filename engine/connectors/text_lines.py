"""The format of text files: a record is a line, without its end (Flink: TextLineInputFormat).

A line ends with a line feed, which a carriage return may precede. Blank lines are records, too. Bytes that
the charset does not know are a malformed row, named by file and line; Flink replaces them.
"""

from __future__ import annotations

import codecs
from itertools import repeat
from typing import Final

from onceproof.engine.connectors.formats import FileFormat, Format, Parser
from onceproof.engine.elements import Record

DEFAULT_CHARSET: Final = "UTF-8"


class TextLineFormat(Format):
    """Lines of text in a charset."""

    def __init__(self, charset_name: str) -> None:
        try:
            codecs.lookup(charset_name)
        except LookupError:
            raise ValueError(f"charset {charset_name!r} is not known: give one such as UTF-8") from None
        if "\n".encode(charset_name) != b"\n":
            raise ValueError(
                f"charset {charset_name} does not end lines with one byte: convert the files to UTF-8"
            )
        self._charset = charset_name

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> TextLineParser:
        """Return a parser; text has no header."""
        return TextLineParser(self._charset)


class TextLineParser(Parser):
    """Reads blocks of lines."""

    def __init__(self, charset: str) -> None:
        self._charset = charset

    def parse(self, data: bytes) -> list[Record]:
        text = data.decode(self._charset)
        lines = text.split("\n")
        if not lines[-1]:
            del lines[-1]
        if "\r" in text:
            lines = [line.removesuffix("\r") for line in lines]
        return list(zip(lines, repeat(None), strict=False))

    def explain(self, data: bytes) -> tuple[int, str] | None:
        try:
            data.decode(self._charset)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            return line, f"byte 0x{data[error.start]:02x} is not {self._charset}"
        return None


class StreamFormat:
    """How the records of a file follow one another (PyFlink: StreamFormat)."""

    def __init__(self, file_format: FileFormat) -> None:
        self.file_format = file_format

    @staticmethod
    def text_line_format(charset_name: str = DEFAULT_CHARSET) -> StreamFormat:
        """Return the format whose records are lines. Raises ValueError for a charset that is not known."""
        return StreamFormat(TextLineFormat(charset_name))
