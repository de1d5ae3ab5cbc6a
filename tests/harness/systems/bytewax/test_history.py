"""Histories of flows from hand-written events and stores."""

from __future__ import annotations

import json

import pytest

from onceproof.harness.model.history import (
    CHECKPOINT_COMPLETED,
    ERROR,
    LEAK,
    ROWS_GONE,
    TRANSACTION_VISIBLE,
    rows_at_end,
)
from onceproof.harness.systems.bytewax.history import BytewaxHistory
from onceproof.harness.systems.process.job_specification import Spec
from tests.harness.systems.bytewax.recovery_stores import of_split, write_part


@pytest.fixture
def folders(tmp_path):
    """Return the folders of the output and of the store."""
    folders = tmp_path / "output", tmp_path / "store"
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.fixture
def builder(folders):
    output, store = map(str, folders)
    spec = Spec(family="words", job_name="words", checkpoints=store, output=output, events="", faults=())
    return BytewaxHistory(spec, {"a": 4, "b": 2})


def write_store(folder, front, **positions):
    """Write the store of a first execution in which the epochs before ``front`` are complete."""
    for path in folder.iterdir():
        path.unlink()
    snaps = [of_split(split, front - 1, position) for split, position in positions.items()]
    write_part(folder, 0, exs=[(0, 1, 1)], fronts=[(0, 0, front)], snaps=snaps)


def events(*given):
    return [{"at": number, "kind": kind, **payload} for number, (kind, payload) in enumerate(given)]


def epoch(a, b, *between):
    """Return the events of an epoch at whose end the splits have these positions."""
    return [
        ("epoch_begun", {"split": "a"}),
        ("epoch_begun", {"split": "b"}),
        *between,
        ("split_snapshot", {"split": "a", "position": a}),
        ("split_snapshot", {"split": "b", "position": b}),
    ]


def shown(name, *rows):
    return ("rows_shown", {"part": "part-0", "name": name, "number": 1, "rows": rows})


def of_kind(builder, kind):
    return [(subject, payload) for _, each, subject, payload in builder.run.history.events if each == kind]


def write_rows(output, file, *rows):
    (output / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_epoch_is_complete_behind_its_last_snapshot_with_its_cut_and_its_rows(builder, folders):
    output, store = folders
    write_store(store, 3, a=3, b=2)
    write_rows(output, "part-0.000001", ["x", 1])
    write_rows(output, "part-0.000002", ["x", 2])
    first = [*epoch(1, 2), ("part_snapshot", {"part": "part-0", "listed": ["part-0.000001"]})]
    second = epoch(3, 2, shown("part-0.000001", ["x", 1]))
    last = [
        ("part_snapshot", {"part": "part-0", "listed": ["part-0.000002"]}),
        shown("part-0.000002", ["x", 2]),
    ]
    builder.add_process_log(events(*first, *second, *last))
    kinds = [each for _, each, _, _ in builder.run.history.events[1:]]
    assert kinds == [CHECKPOINT_COMPLETED, TRANSACTION_VISIBLE] * 2
    completed = of_kind(builder, CHECKPOINT_COMPLETED)
    assert [(subject, payload["cut"], payload["transactions"]) for subject, payload in completed] == [
        (1, {"a": 1, "b": 2}, ("part-0.000001",)),
        (2, {"a": 3, "b": 2}, ("part-0.000002",)),
    ]
    assert rows_at_end(builder.run.history) == [("x", 1), ("x", 2)]


def test_epoch_that_the_store_does_not_have_is_done_again_by_the_next_attempt(builder, folders):
    output, store = folders
    write_store(store, 2, a=1, b=1)
    write_rows(output, "part-0.000001", ["x", 1])
    dead = [("part_snapshot", {"part": "part-0", "listed": ["part-0.000001"]})]
    builder.add_process_log(events(*epoch(1, 1), *dead, *epoch(4, 2), ("epoch_begun", {"split": "a"})))
    builder.run.killed(9)
    write_store(store, 3, a=2, b=2)
    write_part(store, 1, exs=[(1, 1, 2)], fronts=[(1, 0, 3)])
    builder.add_process_log(events(*epoch(2, 2)))
    cuts = [(subject, payload["cut"]) for subject, payload in of_kind(builder, CHECKPOINT_COMPLETED)]
    assert cuts == [(1, {"a": 1, "b": 1}), (2, {"a": 2, "b": 2})]
    attempts = [payload["restored"] for _, payload in of_kind(builder, "attempt_started")]
    assert attempts == [None, 1]


def test_rows_that_a_sink_takes_away_are_gone_also_if_they_were_not_logged(builder, folders):
    output, store = folders
    write_store(store, 1)
    write_rows(output, "part-0", ["x", 1], ["x", 2])
    builder.add_process_log(events(shown("part-0 7.1", ["x", 1])))
    builder.run.killed(9)
    assert len(of_kind(builder, TRANSACTION_VISIBLE)) == 2
    write_rows(output, "part-0")
    cut = ("rows_cut", {"file": "part-0", "rows": [["x", 1], ["x", 2]]})
    builder.add_process_log(events(cut))
    [(_, gone)] = of_kind(builder, ROWS_GONE)
    assert gone["rows"] == [("x", 1), ("x", 2)]
    assert rows_at_end(builder.run.history) == []


def test_rows_that_vanish_without_a_word_are_gone(builder, folders):
    output, store = folders
    write_store(store, 1)
    write_rows(output, "part-1")
    builder.add_process_log(events(shown("part-1 7.1", ["x", 1])))
    assert [payload["rows"] for _, payload in of_kind(builder, ROWS_GONE)] == [[("x", 1)]]


def test_store_with_other_positions_than_the_source_gave_is_an_error(builder, folders):
    write_store(folders[1], 2, a=2, b=1)
    builder.add_process_log(events(*epoch(1, 1)))
    [(where, error)] = of_kind(builder, ERROR)
    assert (where, error["type"]) == ("recovery store", "OtherPositions")
    assert builder.run.is_over


def test_hidden_file_and_half_row_are_left_behind(builder, folders):
    output, store = folders
    (output / ".part-0.000001").write_text('["x",1]\n')
    (output / "part-1").write_text('["x",1]\n["x"')
    builder.at_rest(store)
    assert of_kind(builder, LEAK) == [
        ("open transaction", {"name": ".part-0.000001"}),
        ("half row", {"name": "part-1"}),
    ]
