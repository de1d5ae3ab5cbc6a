"""Recordings of the families that count words, for tests of power cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onceproof.harness.model.family_places import load_family
from tests.harness.systems.local.power_cuts import Recording, record
from tests.harness.systems.local.recorded_child import RecordedProcess


def record_words(
    folder: Path, *processes: RecordedProcess, family: str = "word_count", **how: Any
) -> Recording:
    """Record a job over two splits of twelve words each."""
    words = load_family("word_count").WORDS
    records = {
        f"words-{split}": tuple((time, words[(3 * time + split) % 5]) for time in range(12))
        for split in range(2)
    }
    return record(load_family(family), records, folder, *processes, **how)
