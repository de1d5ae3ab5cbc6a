"""The benchmark beside Bytewax, at a tiny size: both count, and what was written is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.benchmarks.local import PoolSource, WrongCount
from onceproof.harness.benchmarks.peers import check_lines, measure, python_of
from onceproof.harness.model.exit_codes import UsageError


def test_engine_and_bytewax_are_measured_side_by_side() -> None:
    found = measure(records=20_000, keys=(10, 500), rounds=1)
    names = {f"{which}records_per_second_{keys}_keys" for keys in (10, 500) for which in ("", "wall_")}
    assert set(found.floors) == set(found.ratios) == names
    assert set(found.figures) == {*names, "records"}
    assert all(found.figures[name] > 0 < floor for name, floor in found.floors.items())


def test_peer_without_an_environment_names_the_mend(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no environment of bytewax in .*: run make peers"):
        python_of("bytewax", tmp_path)


def test_counts_of_a_peer_must_rise_by_one_to_the_number_of_records(tmp_path: Path) -> None:
    source = PoolSource(4, 1)
    part = tmp_path / "part_0"
    part.write_text("0,1\n0,2\n0,3\n0,4\n")
    check_lines([part], source)
    for rows, said in (("0,1\n0,3\n", "key 0 counts 3 after 1"), ("0,1\n", "1 records counted, of 4")):
        part.write_text(rows)
        with pytest.raises(WrongCount, match=said):
            check_lines([part], source)
