"""The textbook's programs with two-phase commit: whole files, transfers, the lesson of the first phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.engine import Configuration, StreamExecutionEnvironment, Types
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import temporary_files, transfer
from tests.scenarios.golden import meaning_of
from tests.scenarios.lessons import TEXTBOOK, examined_lesson, passes
from tests.scenarios.textbook_output import printed

LESSON = f"{TEXTBOOK / 'transfer.py'}:lesson"


def test_five_seeds_have_their_golden_hashes() -> None:
    family = load_family("textbook_transfer")
    check_family(family)
    assert meaning_of(family) == "1:6328dea3b4a71732"


def test_a_sound_engine_books_each_transfer_at_both_banks() -> None:
    assert passes("textbook_transfer", 20)


def test_committed_files_hold_all_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    temporary_files.main([str(tmp_path)])
    assert printed(capsys.readouterr().out) == ["hello", "world", "hello", "flink", "hello"]
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_word_that_is_replayed_stands_in_the_files_once(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval-records": "1",
        "pipeline.buffer-records": "1",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 s",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "parallelism.default": "1",
    }
    failures = [0]

    def fail_once(word: str) -> str:
        if word == "flink" and not failures[0]:
            failures[0] += 1
            raise RuntimeError("the fourth word fails once")
        return word

    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    words = env.from_collection(temporary_files.WORDS, Types.STRING()).map(fail_once, Types.STRING())
    temporary_files.build(words, str(tmp_path / "words"))
    env.execute("temporary files")
    assert failures == [1]
    assert sorted(temporary_files.lines_in(str(tmp_path / "words"))) == sorted(temporary_files.WORDS)
    assert [path for path in (tmp_path / "words").iterdir() if path.name.startswith(".")] == []


def test_an_aborted_file_is_deleted_and_a_second_commit_does_nothing(tmp_path: Path) -> None:
    sink = temporary_files.TemporaryFileSink(str(tmp_path))
    sink.owner, sink.subtask, sink.epoch, sink.attempt = "owner", 0, 1, "1.1"
    kept = sink.begin_transaction()
    sink.invoke_transaction(kept, "hello", None)
    sink.pre_commit(kept)
    assert [path.name for path in tmp_path.iterdir()] == [".owner-0-1-1.1"]
    sink.commit(kept)
    sink.commit(kept)
    sink.epoch = 2
    sink.abort(sink.begin_transaction())
    assert [path.name for path in tmp_path.iterdir()] == ["owner-0-1-1.1"]


def test_both_banks_book_each_transfer(capsys: pytest.CaptureFixture[str]) -> None:
    transfer.main()
    assert printed(capsys.readouterr().out) == [
        ("first bank", 1, "Alice", -500),
        ("first bank", 2, "Alice", -250),
        ("first bank", 3, "Mary", -75),
        ("second bank", 1, "Bob", 500),
        ("second bank", 2, "Cary", 250),
        ("second bank", 3, "Bob", 75),
    ]


def test_money_vanishes_where_a_bank_does_not_prepare() -> None:
    examined = examined_lesson(LESSON, 100)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    assert "Row (second bank" in explanation_of(examined.trial).sentence
