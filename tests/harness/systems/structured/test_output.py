"""The rows that a reader sees in a query's output, and the batches that a checkpoint location lists."""

from __future__ import annotations

from collections import Counter

from onceproof.harness.systems.structured.output import (
    batch_ends,
    finished_batches,
    visible_batches,
    visible_rows,
)
from onceproof.harness.systems.structured.sinks import publish, upsert
from onceproof.harness.systems.structured.source import next_offset


def test_visible_rows_are_the_lines_of_files_that_are_not_hidden(tmp_path):
    (tmp_path / "page-0.jsonl").write_text('["a", 1]\n["a", 1]\n')
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "part.json").write_text('{"word": "b", "count": [2]}\n')
    for hidden in (".page-1.jsonl", "_SUCCESS"):
        (tmp_path / hidden).write_text('["c", 3]\n')
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part.json").write_text('["c", 3]\n')
    assert visible_rows(tmp_path) == Counter({("a", 1): 2, ("b", (2,)): 1})


def test_only_files_named_in_the_log_of_the_file_sink_are_visible(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("noted", "left by a dead task"):
        (tmp_path / name).write_text('{"word": "a"}\n')
    (log / "3").write_text(f'v1\n{{"path":"file://{tmp_path}/noted","action":"add"}}\n')
    (log / ".3.crc").write_text("")
    assert visible_batches(tmp_path) == {3: [("a",)]}


def test_a_batch_is_published_once(tmp_path):
    publish(tmp_path, 1, [b'["a"]'])
    publish(tmp_path, 1, [b'["b"]'])
    publish(tmp_path, 2, [])
    assert visible_rows(tmp_path) == Counter([("a",)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batch-1.jsonl", "batch-2.jsonl"]


def test_a_table_shows_the_last_row_of_each_key(tmp_path):
    upsert(tmp_path, [("a", 1), ("b", 1)], 1)
    upsert(tmp_path, [("a", 2)], 1)
    assert visible_rows(tmp_path) == Counter([("a", 2), ("b", 1)])


def test_checkpoint_location_gives_batch_ends_and_finished_batches(tmp_path):
    assert batch_ends(tmp_path) == {}
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"north": 2, "south": 1}')
    (tmp_path / "offsets" / "1").write_text('v1\n{"batchWatermarkMs":0}\n{"north": 3, "south": 1}')
    (tmp_path / "offsets" / ".1.crc").write_text("")
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    assert batch_ends(tmp_path) == {0: {"north": 2, "south": 1}, 1: {"north": 3, "south": 1}}
    assert finished_batches(tmp_path) == [0]


def test_batch_takes_records_from_the_splits_in_turn():
    lengths = {"north": 5, "south": 1}
    assert next_offset({"north": 0, "south": 0}, lengths, 4) == {"north": 3, "south": 1}
    assert next_offset({"north": 3, "south": 1}, lengths, 4) == {"north": 5, "south": 1}
    assert next_offset({"north": 5, "south": 1}, lengths, 4) == {"north": 5, "south": 1}
