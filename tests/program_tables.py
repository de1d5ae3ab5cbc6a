"""Writes the table of programs that are compared with real Flink: ``python -m tests.program_tables``.

It is a section of scenarios/textbook/README.md. A program has a recording
(``tests/conformance/recorded_programs.json``) or a reason why it has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.conformance.recordings import recordings

ROOT: Final = Path(__file__).parents[1]
TEXTBOOK_PAGE: Final = ROOT / "scenarios" / "textbook" / "README.md"
NO_SINK: Final = "not comparable: the sink is a Python function, and PyFlink has only Java sinks"
BROKER: Final = "not recorded: it needs a broker"
CLOCK: Final = "not comparable: processing-time windows depend on the clock"
REASONS: Final = {
    "behaviour_patterns.py": "not comparable: PyFlink lacks `Types.VOID`, the type of the pattern's key",
    "buffering_sink.py": NO_SINK,
    "click_source.py": "not comparable: clicks are random",
    "five_second_sum.py": CLOCK,
    "hello_world.py": "not comparable: it crashes at a record of a Python source, which PyFlink lacks",
    "kafka_pass_through.py": BROKER,
    "kafka_windows.py": BROKER,
    "pairs_kept.py": "not comparable: PyFlink has no operator state",
    "pairs_plain.py": NO_SINK,
    "poisoned_record.py": BROKER,
    "sliding_word_count.py": CLOCK,
    "socket_to_kafka.py": BROKER,
    "temporary_files.py": NO_SINK,
    "transfer.py": NO_SINK,
}
"""Why a program of the textbook is not compared with Flink."""

EQUAL: Final = "equal to Flink's"
HEAD: Final = "| output | programs |\n| --- | --- |\n"


def parallelisms_by_program(kind: str) -> dict[str, list[int]]:
    """Return at which parallelisms the programs of a kind were recorded, by what follows the kind."""
    found: dict[str, list[int]] = {}
    for program, parallelism in sorted(recordings()):
        if program.startswith(f"{kind}/"):
            found.setdefault(program.removeprefix(f"{kind}/"), []).append(parallelism)
    return found


def textbook_table() -> str:
    """Return the table of the textbook."""
    recorded = parallelisms_by_program("textbook")
    files = {path.name for path in TEXTBOOK_PAGE.parent.glob("[a-z]*.py")}
    assert {program.split()[0] for program in recorded} | REASONS.keys() == files, "a program has neither"
    assert not {program.split()[0] for program in recorded} & REASONS.keys(), "a program has both"
    by_output: dict[str, list[str]] = {EQUAL: sorted(recorded)}
    for file, reason in REASONS.items():
        by_output.setdefault(reason, []).append(file)
    return HEAD + "".join(
        f"| {output} | {', '.join(f'`{name}`' for name in names)} |\n" for output, names in by_output.items()
    )


def tables() -> Mapping[Path, Mapping[str, str]]:
    """Return by page and heading the tables."""
    return {
        TEXTBOOK_PAGE: {"## Compared with Flink": textbook_table()},
    }


def with_tables(page: str, by_heading: Mapping[str, str]) -> str:
    """Return the text of a page with the one table under each heading replaced."""
    for heading, table in by_heading.items():
        before, found, rest = page.partition(f"{heading}\n")
        assert found, f"no heading {heading}"
        page = before + found + re.sub(r"(?:^\|.*\n)+", lambda _, new=table: new, rest, count=1, flags=re.M)
    return page


def main() -> None:
    """Write the tables."""
    for path, by_heading in tables().items():
        path.write_text(with_tables(path.read_text(encoding="utf-8"), by_heading), encoding="utf-8")


if __name__ == "__main__":
    main()
