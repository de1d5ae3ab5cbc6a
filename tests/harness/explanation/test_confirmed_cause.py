"""A confirmed cause as a sentence and as the identity of a finding."""

from __future__ import annotations

from onceproof.harness.explanation.cause import ConfirmedCause

CAUSE = ConfirmedCause(
    "dedup", "Dedup keeps `self.seen` outside Flink state", "/jobs/orders.py", 52, "with `self.seen` kept"
)


def test_a_cause_names_line_operator_and_counterfactual() -> None:
    assert CAUSE.sentence == (
        "orders.py:52 in dedup: Dedup keeps `self.seen` outside Flink state. With `self.seen` kept, every"
        " property holds."
    )


def test_equal_causes_are_one_finding() -> None:
    again = ConfirmedCause(CAUSE.operator, CAUSE.what, CAUSE.file, CAUSE.line, CAUSE.counterfactual)
    assert {CAUSE, again} == {CAUSE}
