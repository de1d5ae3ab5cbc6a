"""The names of splits where a job has several sources: that of the source, a dot, and what tells them apart.

No name of a source has a dot.
"""

from __future__ import annotations


def split_name(source: str, number: int | str) -> str:
    """Return the name of a split of a source."""
    return f"{source}.{number}"


def source_of(split: str) -> str:
    """Return the source to which a split belongs."""
    return split.rpartition(".")[0]
