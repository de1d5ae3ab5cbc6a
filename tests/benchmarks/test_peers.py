"""The benchmark beside other engines, at a tiny size: what was written is read back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine.runtime.java import JavaMissing
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.services.service import ServiceError
from tests.benchmarks import peers
from tests.benchmarks.local import WrongCount
from tests.benchmarks.peer_cases import (
    CASES,
    COUNT,
    PARTS,
    QUERY,
    WINDOWS,
    check_output,
    write_input,
)
from tests.benchmarks.peers import ENGINES, measure


def test_engine_and_bytewax_are_measured_side_by_side() -> None:
    found = measure(records=4_000, rounds=1, engines=("local", "bytewax"))
    kinds = [f"{case}_{{}}{wall}_records_per_second" for case in CASES for wall in ("", "_wall")]
    assert set(found.figures) == {"records", *(kind.format("local") for kind in kinds)}
    assert set(found.floors) == {kind.format("bytewax") for kind in kinds}
    assert set(found.ratios) == {f"{case}_local_to_bytewax{wall}" for case in CASES for wall in ("", "_wall")}
    assert min(*found.figures.values(), *found.floors.values()) > 0


def test_engine_that_is_not_there_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(error: Exception) -> None:
        raise error

    engines = {
        **ENGINES,
        "bytewax": lambda: refuse(ServiceError("the packages bytewax==0.21.1 cannot be installed")),
        "flink": lambda: refuse(JavaMissing("there is no Java")),
    }
    monkeypatch.setattr(peers, "ENGINES", engines)
    found = measure(records=1_000, rounds=1, cases=(COUNT,), engines=("bytewax", "local", "flink"))
    assert found.floors == {}
    assert capsys.readouterr().err.splitlines() == [
        "bench peers: bytewax is left out: the packages bytewax==0.21.1 cannot be installed",
        "bench peers: flink is left out: there is no Java",
    ]
    with pytest.raises(UsageError, match="no engine is installed"):
        measure(engines=("bytewax",))


def test_program_that_fails_is_named_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "program.sh"
    program.write_text("echo no room >&2; exit 3\n")
    monkeypatch.setattr(peers, "ENGINES", {"local": lambda: ("/bin/sh", str(program))})
    with pytest.raises(WrongCount, match="local, count: exit code 3: no room"):
        measure(records=10, rounds=1, cases=(COUNT,), engines=("local",))


def test_rows_of_each_case_follow_from_its_lines() -> None:
    assert CASES[COUNT].rows([(3,), (5,), (3,)]) == Counter([(3, 1), (3, 2), (5, 1)])
    assert CASES[WINDOWS].rows([(3, 9_999), (3, 10_000), (3, 0)]) == Counter([(3, 0, 2), (3, 10_000, 1)])
    bids = [(1, 7, 8, 50, 20), (1, 9, 8, 50, 10), (0, 0, 0, 0, 10), (1, 1, 2, 3, 10_020)]
    assert CASES[QUERY].rows(bids) == Counter([(0, 50, 9, 8), (10_000, 3, 1, 2)])


def test_lines_are_dealt_out_to_one_file_for_each_part(tmp_path: Path) -> None:
    write_input([(number,) for number in range(8)], tmp_path / "input")
    files = {path.name: path.read_text().split() for path in (tmp_path / "input").iterdir()}
    assert files == {"0-0.csv": ["0", "2", "4", "6"], "0-1.csv": ["1", "3", "5", "7"]}


def test_lines_are_dealt_out_to_files_in_the_order_of_batches(tmp_path: Path) -> None:
    write_input([(number,) for number in range(8)], tmp_path / "input", batches=2)
    files = {path.name: path.read_text().split() for path in (tmp_path / "input").iterdir()}
    assert len(files) == 2 * PARTS
    assert files["0-0.csv"] == ["0", "2"]
    assert files["1-1.csv"] == ["5", "7"]


def test_row_that_is_wrong_or_written_twice_gives_no_figure(tmp_path: Path) -> None:
    rows = Counter([(3, 1), (3, 2)])
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "part-0").write_text("3,1\n")
    (tmp_path / "part-1").write_text("3,2\n")
    (tmp_path / ".hidden").write_text("9,9\n")
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v1\n")
    check_output(rows, tmp_path, "flink, count")
    (tmp_path / "part-2").write_text("3,2\n")
    with pytest.raises(WrongCount, match=r"flink, count: 1 rows differ between 3 .* 2 .*, \(3, 2\) for one"):
        check_output(rows, tmp_path, "flink, count")
