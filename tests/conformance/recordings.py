"""What programs printed on real Flink: ``recorded_programs.json``, which ``record_programs`` writes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).parent / "recorded_programs.json"
IN_ORDER: Final = "as printed"


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run on Flink.

    Args:
        program: kind and file, and its arguments: ``wheel/word_count.py``, ``textbook/word_counts.py batch``.
        parallelism: the parallelism of the job.
        flink: the version of Flink.
        functions: where the functions ran, ``thread`` in the JVM's process or ``process``.
        order: ``as printed``, or ``sorted`` where the order of the lines is chance.
        output: the lines, without the number of the subtask.
    """

    program: str
    parallelism: int
    flink: str
    functions: str
    order: str
    output: list[str]


@cache
def recordings() -> dict[tuple[str, int], Recording]:
    """Return the recordings by program and parallelism."""
    content = msgspec.json.decode(FILE.read_bytes(), type=dict[str, list[Recording]])
    return {(each.program, each.parallelism): each for each in content["runs"]}


def recorded_programs(kind: str) -> list[str]:
    """Return the programs of a kind, ``wheel``, ``textbook`` or ``programs``, that have recordings."""
    return sorted({program for program, _ in recordings() if program.startswith(f"{kind}/")})


def assert_as_on_flink(program: str, lines: Iterable[str]) -> None:
    """Assert that the lines of a run are those of each recording of the program, in order where it has one.

    A recording at parallelism 2 is compared, too: it is there only where the result does not depend on it.
    """
    printed = list(lines)
    found = [each for each in recordings().values() if each.program == program]
    assert found, f"{program} has no recording"
    for each in found:
        assert (printed if each.order == IN_ORDER else sorted(printed)) == each.output
