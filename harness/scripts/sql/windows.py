"""Window functions of Flink in a table: ``TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR))``.

Each becomes a view of DuckDB over the table, with Flink's columns window_start, window_end, window_time. All
times are microseconds there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from onceproof.harness.scripts.sql.statements import closing


class Untranslatable(Exception):
    """What has no exact translation; the message is the end of a sentence that says why."""


_OPENING: Final = re.compile(
    r"(?P<table>\bTABLE\s*\(\s*)?\b(?P<kind>TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*(?:DATA\s*=>\s*)?TABLE\s",
    re.IGNORECASE,
)
_SOURCE: Final = re.compile(r"TABLE\s+([\w`.]+)(?:\s+PARTITION\s+BY\s+(.*))?", re.IGNORECASE | re.DOTALL)
_TIME: Final = re.compile(r"DESCRIPTOR\s*\(\s*([\w`]+)\s*\)", re.IGNORECASE)
_INTERVAL: Final = re.compile(r"INTERVAL\s+'(\d+)'\s+(SECOND|MINUTE|HOUR|DAY)S?(?:\(\d+\))?", re.IGNORECASE)
_NAME: Final = re.compile(r"(\w+)\s*=>\s*")
_US: Final = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
_ARGUMENTS: Final = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}


class WindowView(Struct, frozen=True):
    """The view that stands for a window function."""

    name: str
    table: str
    """The table that it reads."""
    query: str
    kind: str
    """TUMBLE, HOP, CUMULATE or SESSION."""
    time: str
    """The column of the event time."""
    keys: tuple[str, ...]
    """The columns of which each value has sessions of its own."""
    lengths_us: Mapping[str, int]
    """By the names of Flink: SIZE, SLIDE, OFFSET and others."""


def without_windows(text: str, first: int) -> tuple[str, list[WindowView]]:
    """Return a statement that reads views in place of window functions, and the views.

    Args:
        first: the number of the first view.
    """
    views: list[WindowView] = []
    while opening := _OPENING.search(text):
        begins = opening.end("kind")
        begins = text.index("(", begins) + 1
        ends = closing(text, begins)
        arguments = _split(text[begins : ends - 1])
        if opening["table"]:
            ends = closing(text, ends)
        name = f"windows_{first + len(views)}"
        views.append(window_view(name, opening["kind"].upper(), arguments))
        text = f"{text[: opening.start()]} {name} {text[ends:]}"
    return text, views


def microseconds(text: str) -> int:
    """Return the length of an interval. Raises Untranslatable."""
    match = _INTERVAL.fullmatch(text.strip())
    if match is None:
        raise Untranslatable(f"the interval {text.strip()}")
    return int(match[1]) * _US[match[2].upper()]


def window_view(name: str, kind: str, arguments: Sequence[str]) -> WindowView:
    """Return the view of a window function of some kind. Raises Untranslatable."""
    source, time = _SOURCE.fullmatch(arguments[0]), _TIME.fullmatch(arguments[1])
    if source is None or time is None:
        raise Untranslatable(f"the arguments of {kind}")
    lengths: dict[str, int] = {}
    for usual, argument in zip(_ARGUMENTS[kind], arguments[2:], strict=False):
        named = _NAME.match(argument)
        lengths[named[1].upper() if named else usual] = microseconds(_NAME.sub("", argument, count=1))
    # Some names are words of DuckDB's, such as that of a column ``at``.
    table, column = source[1].replace("`", '"'), f'"{time[1].strip("`")}"'
    at, offset = f"epoch_us({column})", lengths.get("OFFSET", 0)
    size = lengths.get("SIZE", 0)

    def start_of(length: int) -> str:
        # DuckDB's remainder of a time before 1970 is negative.
        return f"({at} - (({at} - {offset}) % {length} + {length}) % {length})"

    if kind == "TUMBLE":
        inner = f"SELECT *, {start_of(size)} AS begins, {start_of(size)} + {size} AS ends FROM {table}"
    elif kind == "HOP":
        slide = lengths["SLIDE"]
        begins = f"{start_of(slide)} - back"
        inner = (
            f"SELECT *, {begins} AS begins, {begins} + {size} AS ends"
            f" FROM {table}, range(0, {size}, {slide}) AS r(back) WHERE {begins} + {size} > {at}"
        )
    elif kind == "CUMULATE":
        inner = (
            f"SELECT *, {start_of(size)} AS begins, {start_of(size)} + length AS ends FROM {table},"
            f" range({lengths['STEP']}, {size} + 1, {lengths['STEP']}) AS r(length)"
            f" WHERE {start_of(size)} + length > {at}"
        )
    else:
        inner = _sessions(table, at, (source[2] or "").replace("`", '"'), lengths["GAP"])
    left_out = {"HOP": ", back", "CUMULATE": ", length", "SESSION": ", opens, session"}.get(kind, "")
    query = (
        f"SELECT * EXCLUDE (begins, ends{left_out}), make_timestamp(begins) AS window_start,"
        f" make_timestamp(ends) AS window_end, make_timestamp(ends - 1000) AS window_time FROM ({inner})"
    )
    keys = tuple([each.strip(" `") for each in (source[2] or "").strip(" ()").split(",") if each.strip()])
    return WindowView(name, source[1].strip("`"), query, kind, time[1].strip("`"), keys, lengths)


def _sessions(table: str, at: str, keys: str, gap: int) -> str:
    """Return the query of sessions: a row opens one where the row before is more than a gap away."""
    by = f"PARTITION BY {keys.strip().removeprefix('(').removesuffix(')')}" if keys else ""
    within = f"{by}, session" if by else "PARTITION BY session"
    opens = f"CASE WHEN {at} - lag({at}) OVER ({by} ORDER BY {at}) <= {gap} THEN 0 ELSE 1 END"
    counted = f"sum(opens) OVER ({by} ORDER BY {at})"
    return (
        f"SELECT *, min({at}) OVER ({within}) AS begins, max({at}) OVER ({within}) + {gap} AS ends FROM"
        f" (SELECT *, {counted} AS session FROM (SELECT *, {opens} AS opens FROM {table}))"
    )


def _split(text: str) -> list[str]:
    """Return the parts between the commas that no bracket encloses, without the names of the first two."""
    return [
        _NAME.sub("", part, count=1) if number < 2 else part
        for number, part in enumerate(split_at_commas(text))
    ]


def split_at_commas(text: str) -> list[str]:
    """Return the parts of a text between the commas that no bracket and no quote encloses."""
    parts, depth, begins = [], 0, 0
    for piece in re.compile(r"'(?:[^']|'')*'|`[^`]*`|=>|[<>]=|<>|[(),<>]").finditer(text):
        if piece[0] == "," and depth == 0:
            parts.append(text[begins : piece.start()].strip())
            begins = piece.end()
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(piece[0], 0)
    return [*parts, text[begins:].strip()]
