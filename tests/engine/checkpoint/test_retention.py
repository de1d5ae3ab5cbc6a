"""Which checkpoints outlive their job."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.completed_store import JobOutcome, is_retained
from onceproof.engine.configuration import CHECKPOINT_RETENTION

FINISHED, CANCELED, FAILED, SUSPENDED = JobOutcome


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", set()),
        ("DELETE_ON_CANCELLATION", {FAILED}),
        ("RETAIN_ON_CANCELLATION", {CANCELED, FAILED, SUSPENDED}),
        (None, {FAILED, SUSPENDED}),
    ],
)
def test_what_is_kept_follows_from_the_option_and_how_the_job_ended(retention, kept):
    if retention is not None:
        assert CHECKPOINT_RETENTION.parse(retention) == retention
    assert {outcome for outcome in JobOutcome if is_retained(retention, outcome)} == kept
