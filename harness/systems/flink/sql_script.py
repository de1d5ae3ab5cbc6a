"""A script of Flink SQL as the statements of one job.

Rules:

- A semicolon ends a statement, except in a string, a quoted name or a comment. Comments are left out; hints
  stay.
- All INSERTs of a script are one job, as in a statement set, whose own words are therefore left out.
- What shows rows on a screen is refused where Flink itself runs a script: no checker would see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PIECE: Final = re.compile(
    r"(?P<comment>--[^\n]*|/\*(?!\+).*?\*/)|'(?:[^']|'')*'|`(?:[^`]|``)*`|(?P<end>;)|[^;'`/-]+|.", re.DOTALL
)
_SET_OF_STATEMENTS: Final = re.compile(
    r"(EXECUTE\s+STATEMENT\s+SET(\s+BEGIN)?|BEGIN(\s+STATEMENT\s+SET)?)\s*", re.IGNORECASE
)
SHOWS: Final = re.compile(
    r"(SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|EXECUTE\s+(?!STATEMENT))\b", re.IGNORECASE
)
_INSERT: Final = re.compile(r"INSERT\s", re.IGNORECASE)


class SqlScriptError(Exception):
    """A script that cannot run as one job; the message names the line and the remedy."""


def statements_of(script: str) -> list[str]:
    """Return the statements of a script, in order. Raises SqlScriptError."""
    found = []
    for line, statement in numbered_statements(script):
        if shows := SHOWS.match(statement):
            raise SqlScriptError(
                f"line {line}: {shows[1].upper()} shows rows on a screen: INSERT them INTO a table"
            )
        found.append(statement)
    check_inserts(found)
    return found


def check_inserts(statements: Iterable[str]) -> None:
    """Raise SqlScriptError if no statement starts a job."""
    if not any(_INSERT.match(statement) for statement in statements):
        raise SqlScriptError("it has no INSERT INTO, so it starts no job")


def numbered_statements(script: str) -> list[tuple[int, str]]:
    """Return the statements of a script, each with its line."""
    found: list[tuple[int, str]] = []
    # What Windows writes at the beginning of a file is no part of it.
    for line, text in _split(script.removeprefix("\ufeff")):
        statement = text
        if opening := _SET_OF_STATEMENTS.match(statement):
            statement = statement[opening.end() :]
        if not statement or statement.upper() == "END":
            continue
        found.append((line, statement))
    return found


def _split(script: str) -> list[tuple[int, str]]:
    """Return each statement with the line on which it begins."""
    statements: list[tuple[int, str]] = []
    text, begins = "", 1
    # A comment on the last line ends there.
    for piece in _PIECE.finditer(f"{script}\n;"):
        if piece["end"]:
            statements.append((begins, text.strip()))
            text = ""
        elif not piece["comment"]:
            if not text.strip():
                blank = len(piece[0]) - len(piece[0].lstrip())
                begins = script.count("\n", 0, piece.start() + blank) + 1
            text += piece[0]
    return statements
