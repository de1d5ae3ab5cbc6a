"""The recorded sample of edits, what was found out about those that survived, and the figures of both.

Rules:

- ``sample.json`` holds what became of the first edits of one seed, as they were first tried.
- ``survivors.toml`` has a verdict on each survivor, given by hand: EQUIVALENT (no run can tell), COST (only
  time, memory or figures of the monitor change) or MISSED, with the reason.
- The share is that of the edits that change rows or guarantees: killed and missed ones. Its interval is
  Wilson's, with 95 %.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any, Final

from tests.mutation.grammar import CORE, Edit

SAMPLE: Final = Path(__file__).with_name("sample.json")
SURVIVORS: Final = Path(__file__).with_name("survivors.toml")
KILLED, EQUIVALENT, COST, MISSED = "caught", "equivalent", "cost", "missed"
VERDICTS: Final = (EQUIVALENT, COST, MISSED)

Name = tuple[str, ...]

_NAMES: Final = ("path", "function", "kind", "before", "after")
_Z: Final = 1.96


def name_of(edit: Edit | Mapping[str, Any]) -> Name:
    """Return what names an edit, in whatever tree."""
    line = edit if isinstance(edit, Mapping) else {each: getattr(edit, each) for each in (*_NAMES, "nth")}
    return (*(line[each] for each in _NAMES), str(line.get("nth", 1)))


def recorded_sample() -> Mapping[str, Any]:
    """Return the seed, the number of scenarios, and the edits with their outcomes."""
    sample: Mapping[str, Any] = json.loads(SAMPLE.read_text(encoding="utf-8"))
    return sample


def verdicts() -> Mapping[Name, Mapping[str, Any]]:
    """Return the verdict on each survivor, by the edit's name."""
    tables = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["edit"]
    return {name_of(table): table for table in tables}


def verdict_on(line: Mapping[str, Any], known: Mapping[Name, Mapping[str, Any]]) -> str:
    """Return KILLED or the verdict on a survivor; "" if it has none."""
    if line["killed"]:
        return KILLED
    found = known.get(name_of(line))
    return "" if found is None else str(found["verdict"])


def table(lines: Iterable[Mapping[str, Any]], known: Mapping[Name, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table of figures."""
    counts = {package: Counter[str]() for package in CORE}
    for line in lines:
        counts[line["path"].split("/")[1]][verdict_on(line, known)] += 1
    yield "| package | edits | equivalent | cost | missed | caught | share (95 %) |"
    yield "| --- | --: | --: | --: | --: | --: | --: |"
    for package, own in counts.items():
        yield _row(package, own)
    yield _row("all", sum(counts.values(), Counter[str]()))


def _row(package: str, own: Counter[str]) -> str:
    telling = own[KILLED] + own[MISSED]
    share = (
        "" if not telling else f"{100 * own[KILLED] / telling:.0f} % ({interval_text(own[KILLED], telling)})"
    )
    figures = (own.total(), own[EQUIVALENT], own[COST], own[MISSED], own[KILLED], share)
    return f"| {package} | {' | '.join(map(str, figures))} |"


def interval_text(hits: int, tries: int) -> str:
    """Return Wilson's interval of a share, in percent."""
    share, square = hits / tries, _Z * _Z
    middle = (share + square / (2 * tries)) / (1 + square / tries)
    half = _Z * sqrt(share * (1 - share) / tries + square / (4 * tries * tries)) / (1 + square / tries)
    return f"{100 * (middle - half):.0f} to {100 * (middle + half):.0f}"
