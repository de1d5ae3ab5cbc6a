"""Which splits of a scenario may exchange records while it is shrunk.

The rules this module lives by:

- Only the family knows whether a split holds keys of its own. If it does, a record moved to another split is
  an input that the family never generates; its oracle and its job may disagree on it without any bug.
- Two splits exchange records only if the same value occurs in both, which shows that the values do not depend
  on the split.
- The values are compared in the original failing scenario, because a shrunk one has too few records.
"""

from __future__ import annotations

from onceproof.harness.model.scenario import RecordValue, Scenario


def exchanging_splits(original: Scenario) -> dict[str, str]:
    """Return for each split the first split of its group; the splits of a group may exchange records."""
    first_of = {split: split for split in original.records}
    seen_in: dict[RecordValue, str] = {}
    for split, records in original.records.items():
        for _, value in records:
            other = first_of[seen_in.setdefault(value, split)]
            own = first_of[split]
            if other != own:
                first_of = {each: other if first == own else first for each, first in first_of.items()}
    return first_of
