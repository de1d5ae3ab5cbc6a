"""The benchmark of state, at a tiny size: it measures states that give back what was put into them."""

from __future__ import annotations

import pytest

from onceproof.harness.model.exit_codes import USAGE
from tests.benchmarks import state as benchmarks_state
from tests.benchmarks.__main__ import main
from tests.benchmarks.large_state import LargeStateFailed, measure_large_state
from tests.benchmarks.measurement import has_large_part, load_benchmark
from tests.benchmarks.state import WrongState, measure


def test_both_backends_are_measured_beside_their_floors() -> None:
    found = measure(accesses=2_000, keys=(10, 500), snapshot_keys=3_000, rounds=2)
    accesses = {
        f"{backend}_{access}_per_second_{keys}_keys"
        for backend in ("hashmap", "rocksdb")
        for access in ("update", "get", "iterate")
        for keys in (10, 500)
    }
    assert accesses <= set(found.figures)
    assert accesses <= set(found.floors)
    steps = {f"{backend}_{step}" for backend in ("hashmap", "rocksdb") for step in ("snapshot", "restore")}
    cpu = {
        f"{backend}_{step}_cpu"
        for backend in ("hashmap", "rocksdb")
        for step in ("snapshot", "second_snapshot", "restore")
    }
    assert set(found.ratios) == accesses | steps | cpu
    assert all(found.figures[f"{step}_seconds"] > 0 for step in cpu)
    assert all(found.figures[f"{step}_seconds"] > 0 for step in steps)
    assert min(found.figures["hashmap_snapshot_bytes"], found.figures["rocksdb_snapshot_bytes"]) > 3_000
    assert not any(figure.startswith("large") for figure in found.figures)


def test_a_state_that_forgets_spoils_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_state, "_update", len_only)
    with pytest.raises(WrongState, match="hashmap, get: 0 right answers of 200"):
        measure(accesses=200, keys=(10,), snapshot_keys=10, rounds=1)


def len_only(backend: object, chosen: list[int]) -> int:
    """Say that all was written."""
    return len(chosen)


def test_a_restore_that_forgets_spoils_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_state, "restore", lambda backend, storage, handle: None)
    with pytest.raises(WrongState, match="was restored with None"):
        measure(accesses=200, keys=(10,), snapshot_keys=300, rounds=1)


def test_the_large_state_is_measured_in_a_process_of_its_own() -> None:
    found = measure_large_state(8 << 20)
    assert found["large_snapshot_bytes"] > found["large_state_bytes"] == 8 << 20
    assert (1 << 20) < found["large_peak_resident_bytes"] < (1 << 30)


def test_a_large_state_whose_process_dies_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(LargeStateFailed, match="ended with 1: it said nothing"):
        measure_large_state()


def test_the_command_knows_it_and_which_have_a_large_part() -> None:
    assert load_benchmark("state") is measure
    assert has_large_part(measure)
    assert not has_large_part(load_benchmark("local"))


def test_a_large_part_of_a_benchmark_without_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "--large"]) == USAGE
    assert capsys.readouterr().err == "onceproof: --large: local has no large part: omit the option\n"


def test_an_unknown_benchmark_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulatte"]) == USAGE
    assert capsys.readouterr().err == "onceproof: unknown benchmark 'simulatte': did you mean simulate?\n"
