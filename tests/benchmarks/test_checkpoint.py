"""The benchmark of checkpoints, at a tiny size: what they store, and how long they hold records up."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from tests.benchmarks import checkpoint as benchmarks_checkpoint
from tests.benchmarks.checkpoint import MODES, NONE, longest_gap, measure
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.state import WrongState


def test_full_and_incremental_checkpoints_and_the_gaps_of_each_mode_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benchmarks_checkpoint, "INTERVAL_MS", 10)
    found = measure(keys=2_000, checkpoints=3, records=4_000, backends=("hashmap",))
    # Of so few keys a database is mostly what frames it; but a file that is known is not stored again.
    assert found.figures["checkpoint_bytes"] < found.floors["checkpoint_bytes"]
    assert set(found.ratios) == {"checkpoint_bytes", "checkpoint_seconds"}
    gaps = {f"hashmap_{mode}_longest_gap_seconds" for mode in MODES if mode not in (NONE, "unaligned")}
    gaps.add("hashmap_unaligned_longest_gap_seconds_under_backpressure")
    assert {name for name in found.figures if "gap" in name} == gaps
    floors = {f"hashmap_{NONE}_longest_gap_seconds{end}" for end in ("", "_under_backpressure")}
    assert {name for name in found.floors if "gap" in name} == floors
    assert all(found.figures[name] > 0 for name in gaps)


def test_an_incremental_checkpoint_that_lacks_something_spoils_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if nothing had changed since the first one: the file with the changes is left out.
    placed = SharedStateRegistry.placed
    kept: dict[str, object] = {}

    def first_of_its_name(registry: SharedStateRegistry, file: object) -> object:
        return kept.setdefault("first", placed(registry, file))  # type: ignore[arg-type]

    monkeypatch.setattr(SharedStateRegistry, "placed", first_of_its_name)
    with pytest.raises(Exception, match=r"cannot be opened|was restored with") as raised:
        measure(keys=2_000, checkpoints=1, records=10, backends=())
    assert "\n" not in str(raised.value)


def test_a_job_without_checkpoints_has_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        checkpoints = 0

    monkeypatch.setattr(
        benchmarks_checkpoint.StreamExecutionEnvironment, "execute", lambda self, name: Nothing()
    )
    with pytest.raises(WrongState, match="hashmap, aligned: no checkpoint was taken"):
        longest_gap("hashmap", "aligned", 10, 10, is_slow=False)


def test_the_command_knows_it() -> None:
    assert load_benchmark("checkpoint") is measure
