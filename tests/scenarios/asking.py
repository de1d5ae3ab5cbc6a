"""Asks for the rows of a run that is written by hand."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import count
from typing import Any

from msgspec import structs

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Records
from onceproof.harness.model.history import Cut, History, Row


def asked(
    family: Any, records: Records, *visible: Row, resumed_at: Cut | None = None, is_whole: bool = True
) -> list[Row]:
    """Return the rows that a run over some records should commit, given those that it commits.

    Args:
        family: whose oracle is asked.
        records: by split.
        visible: what the run commits.
        resumed_at: the cut at which its second attempt resumes; None: it has one attempt.
        is_whole: whether it is over; if not, the records are those before a cut.
    """
    history = History()
    history.attempt_started(0, "1.1", 1, None)
    if resumed_at is not None:
        history.checkpoint_completed(1, 1, "1.1", resumed_at, (), (), 0)
        history.attempt_started(2, "1.2", 1, 1)
    if is_whole:
        history.job_finished(3)
    scenario = next(each for each in map(partial(generate, family), count()) if each.is_exactly_once)
    splits = {split: tuple(own) for split, own in records.items()}
    oracle = PythonOracle(family, structs.replace(scenario, records=splits))
    if is_whole:
        return list(Counter(oracle.rows(visible, history)).elements())
    cut = {split: len(own) for split, own in splits.items()}
    return list(Counter(oracle.rows_at(cut, visible, history)).elements())
