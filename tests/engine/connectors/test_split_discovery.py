"""Splits that come while a job runs: each is read by one subtask, also after restores and rescales."""

from __future__ import annotations

import time
from typing import Any

import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.state.snapshot import (
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import UNION, EncodedList
from tests.patience import PATIENCE_SECONDS


class Shelf(CollectionSource):
    """A source whose splits are listed anew; split "s3" holds the value 3."""

    is_bounded = False
    can_discover = True
    discovery_interval_ms: int | None = 1

    def __init__(self, *numbers: int) -> None:
        super().__init__({})
        self.numbers = list(numbers)
        self.fails = False

    def splits(self) -> list[str]:
        if self.fails:
            self.fails = False
            raise OSError("the server does not answer")
        return [f"s{number}" for number in self.numbers]

    def owner_of(self, split: str, parallelism: int) -> int:
        return int(split[1:]) % parallelism

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return CollectionSource({split: [(int(split[1:]), None)]}).open_split(split, position)


def operators(source: Shelf, parallelism: int, restored: list[Any] | None = None) -> list[SourceOperator]:
    made = []
    for subtask in range(parallelism):
        operator = SourceOperator(source)
        context = OperatorContext(
            task_name="shelf",
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=128,
            key_groups=(0, 127),
            attempt="1.1",
            clock=lambda: 0,
            steady_clock=lambda: 0,
            probe=lambda point, checkpoint_id: None,
            operator=None if restored is None else dealt(restored, subtask, parallelism),
            restored_checkpoint_id=None if restored is None else 1,
        )
        operator.open(context)
        made.append(operator)
    return made


def dealt(states: list[Any], subtask: int, parallelism: int) -> dict[str, EncodedList]:
    """Split state is dealt out, union state goes to all."""
    found: dict[str, EncodedList] = {}
    for state in states:
        for name, part in state.items():
            before = found[name].elements if name in found else []
            found[name] = EncodedList(part.mode, part.type, [*before, *part.elements])
    return {
        name: part
        if part.mode == UNION
        else EncodedList(part.mode, part.type, part.elements[subtask::parallelism])
        for name, part in found.items()
    }


def snapshots(made: list[SourceOperator]) -> list[Any]:
    states = []
    for operator in made:
        encoded = encode_task_snapshot(TaskSnapshot({"shelf": operator.snapshot(1, 0)}))
        states.append(decode_task_snapshot(encoded.data, "snapshot")["shelf"].operator)
    return states


def read(made: list[SourceOperator], count: int) -> list[int]:
    """Poll all subtasks until so many values have come, and a little longer."""
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for operator in made:
            found += [value for value, _ in operator.poll(10)]
            assert not operator.exhausted
    time.sleep(0.02)
    for operator in made:
        found += [value for value, _ in operator.poll(10)]
        operator.close()
    return sorted(found)


def test_split_that_comes_is_read_by_its_owner_only() -> None:
    source = Shelf(0, 1)
    made = operators(source, 3)
    source.numbers += [2, 3, 4]
    assert read(made, 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_restored_job_reads_only_what_no_subtask_knew(parallelism: int) -> None:
    source = Shelf(0, 1, 2)
    made = operators(source, 2)
    first = read(made, 3)
    states = snapshots(made)
    source.numbers += [3, 4]
    assert first == [0, 1, 2]
    assert read(operators(source, parallelism, states), 2) == [3, 4]


def test_failed_listing_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    source = Shelf(0)
    made = operators(source, 1)
    source.fails = True
    while source.fails:
        time.sleep(0.001)
    source.numbers.append(1)
    assert read(made, 2) == [0, 1]
    assert "the server does not answer" in caplog.text


def test_job_that_kept_no_names_discovers_after_the_next_restore() -> None:
    source = Shelf(0, 1)
    source.can_discover, source.discovery_interval_ms = False, None
    made = operators(source, 2)
    for operator in made:
        operator.poll(10)
    states = snapshots(made)
    source.can_discover, source.discovery_interval_ms = True, 1
    # Subtask 0 has both splits, and cannot know that subtask 1 knows none.
    restored = operators(source, 1, states)
    source.numbers.append(2)
    time.sleep(0.02)
    assert restored[0].poll(10) == []
    states = snapshots(restored)
    assert read(operators(source, 1, states), 1) == [2]
