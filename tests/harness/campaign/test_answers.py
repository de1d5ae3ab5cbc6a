"""The answer of a task travels to the driver and is there what it was."""

from __future__ import annotations

import pyarrow as pa

from onceproof.harness.campaign.answers import Answer, answers_in, lines_in_order
from onceproof.harness.campaign.trial_files import WrittenFile
from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import run_scenario, scenario_of

FAMILY = load_family("word_count")
OUTCOMES = [run_scenario(FAMILY, scenario_of(FAMILY, seed))[0] for seed in range(3)]
LOST = ("exactly_once", "lost", "somewhere", "{}")


def lines(*texts: str) -> list[bytes]:
    """Return lines of outcomes, each with a trace hash of its own."""
    return [to_line(type(OUTCOMES[0])(**{**fields(0), "trace_hash": text})) for text in texts]


def fields(number: int) -> dict[str, object]:
    return {name: getattr(OUTCOMES[number], name) for name in OUTCOMES[number].__struct_fields__}


def test_an_answer_with_a_failure_arrives_as_it_was_sent() -> None:
    failed = {"passed": False, "signature": LOST[:2], "violations": (LOST,), "recovery_seconds": (0.5,)}
    sent = [*map(to_line, OUTCOMES), to_line(type(OUTCOMES[0])(**{**fields(0), **failed}))]
    answer = Answer.of(1, 3, [4, 5, 7, 8], sent, WrittenFile("part", 1, 7, 4, "digest"))
    [arrived] = answers_in(pa.Table.from_batches([answer.batch()]))
    assert arrived == answer
    assert arrived.turns == (range(4, 6), range(7, 9))


def test_lines_of_answers_are_in_the_order_of_the_campaign() -> None:
    answers = [
        Answer.of(1, 2, [2, 3], lines("5", "7")),
        Answer.of(0, 2, [0, 3], lines("0", "6")),
        Answer.of(0, 2, [1, 2], lines("2", "4")),
        Answer.of(1, 2, [0, 1], lines("1", "3")),
        Answer(0, (range(9),)),
    ]
    assert b"".join(lines_in_order(answers, 2)) == b"".join(lines(*"01234567"))
