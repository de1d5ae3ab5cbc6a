"""Which splits of a scenario may exchange records while it is made smaller.

The rules this module lives by:

- What a split means is known to its family alone. Where each split holds the records of keys of its own, a
  record that is moved to another one makes an input that the family never draws: its oracle and its job may
  disagree on it, and the smallest "failure" is then one without a fault, which says nothing of the job.
- A value that stands in two splits shows that a split says nothing of the values in it. Without such a sign
  records stay where they are.
- The sign is looked for in the scenario that was found: of a small one too little is left to show it.
"""

from __future__ import annotations

from onceproof.harness.model.scenario import RecordValue, Scenario


def exchanging_splits(found: Scenario) -> dict[str, str]:
    """Return for each split the first of those that it exchanges records with; itself, if it is alone."""
    first_of = {split: split for split in found.records}
    seen_in: dict[RecordValue, str] = {}
    for split, records in found.records.items():
        for _, value in records:
            other = first_of[seen_in.setdefault(value, split)]
            mine = first_of[split]
            if other != mine:
                first_of = {each: other if first == mine else first for each, first in first_of.items()}
    return first_of
