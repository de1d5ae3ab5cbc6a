"""Mutants from a user's file: how they are found, and one-line errors for a wrong file."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.model.mutants import MutantError, load_mutants, loading
from tests.planted.catalogue import built_in_mutants, find_mutant

GOOD = """
from contextlib import contextmanager

from onceproof.engine.operators.source import SourceOperator
from onceproof import mutant, replaced


@mutant(id="FLINK-1", breaks="lost", summary="a snapshot without splits")
def no_splits(reached):
    def nothing(self, context):
        reached()
        self._state.update([])

    with replaced(SourceOperator, "snapshot_state", nothing):
        yield


@mutant(id="by-hand", origin="a story", breaks="nothing", summary="patches by hand")
@contextmanager
def by_hand(reached):
    original = SourceOperator.close
    SourceOperator.close = lambda self: reached() or original(self)
    try:
        yield
    finally:
        SourceOperator.close = original
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def error_of(path: Path) -> str:
    with pytest.raises(MutantError) as caught:
        load_mutants(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_mutants_are_loaded_in_file_order_with_their_path(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    first, second = load_mutants(path)
    assert (first.id, first.origin, first.breaks, first.path) == ("FLINK-1", "FLINK-1", "lost", str(path))
    assert (second.id, second.origin, second.summary) == ("by-hand", "a story", "patches by hand")
    assert loading.find_mutant("by-hand", str(path)).id == "by-hand"


def test_a_mutant_without_an_issue_id_has_the_origin_planted() -> None:
    origins = {each.id: each.origin for each in built_in_mutants()}
    assert origins["FLINK-9263"] == "FLINK-9263"
    assert origins["offsets-missing"] == "planted"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (\n", "mine.py:1: SyntaxError: '(' was never closed"),
        ("\n\nraise ValueError('two\\nlines')\n", "mine.py:3: ValueError: two lines"),
        ("import onceproof.nowhere\n", "mine.py:1: ModuleNotFoundError: No module named 'onceproof.nowhere'"),
        ("x = 1\n", "mine.py: holds no mutant: decorate a function with onceproof.mutant"),
        (GOOD.replace("by-hand", "FLINK-1"), "mine.py:1: two mutants have the id 'FLINK-1'"),
        (GOOD.replace('id="FLINK-1"', 'id=" "'), "mine.py:8: a mutant needs 'id', a text that is not empty"),
        (GOOD.replace("breaks=", "broken="), "mine.py:8: TypeError: mutant() got an unexpected keyword"),
    ],
)
def test_an_error_in_a_mutant_file_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    assert said in error_of(write(tmp_path, text))


def test_a_missing_mutant_file_is_an_error(tmp_path: Path) -> None:
    assert error_of(tmp_path / "nowhere.py").endswith("nowhere.py: no such file")
    assert error_of(tmp_path).endswith("no such file")


def test_an_unknown_mutant_id_names_the_nearest() -> None:
    with pytest.raises(MutantError, match=r"unknown mutant 'offset-missing': did you mean offsets-missing\?"):
        find_mutant("offset-missing")
    with pytest.raises(MutantError, match=r"unknown mutant 'zzz'$"):
        find_mutant("zzz")
