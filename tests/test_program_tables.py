"""The tables of programs that are compared with Flink are up to date, and each recording is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.recordings import IN_ORDER, recorded_programs, recordings
from tests.program_tables import tables, with_tables

SCENARIOS = Path(__file__).parent / "scenarios"


@pytest.mark.parametrize("path", tables(), ids=lambda path: path.name)
def test_tables_of_programs_are_those_of_the_recordings(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert with_tables(page, tables()[path]) == page, "run python -m tests.program_tables"


def test_each_recording_of_the_textbook_is_compared_by_one_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SCENARIOS.glob("test_textbook_*.py"))
    names = [program.removeprefix("textbook/") for program in recorded_programs("textbook")]
    assert [name for name in names if f'printed_as_on_flink("{name}"' not in text] == []


def test_recordings_are_of_one_version_of_flink_and_not_empty() -> None:
    for recording in recordings().values():
        assert recording.flink == "2.3.0"
        assert recording.output
        assert recording.order == IN_ORDER or recording.output == sorted(recording.output)
