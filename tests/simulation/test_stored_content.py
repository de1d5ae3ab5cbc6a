"""What a checkpoint holds does not depend on the state backend; planted bugs of databases are found."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.harness.checkers.state_equivalence import UNREADABLE
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault, Scenario, Schedule
from onceproof.harness.systems.simulation.comparison_runs import recorded_checkpoints, recorded_run
from onceproof.harness.systems.simulation.stored_content import whole_content_of
from onceproof.harness.trials import checkpoint_trials
from onceproof.harness.trials.checkpoint_trials import backend_differences, state_differences
from tests.planted.catalogue import find_mutant

KILL = Fault("kill_all", "completed", checkpoint=2)
"""What comes behind it was restored."""


def small(family: Family, *faults: Fault, incremental: bool = False) -> Scenario:
    """Return a scenario of a family on databases with a few records and three checkpoints or more."""
    drawn = next(
        each for each in (generate(family, seed) for seed in count()) if 25 < each.record_count() < 60
    )
    return replace(
        drawn,
        seed=None,
        faults=faults,
        operations=UNSET,
        mode=UNSET,
        endless=UNSET,
        buffer_records=UNSET,
        schedule=Schedule(),
        parallelism=2,
        source_parallelism=1,
        sink_parallelism=1,
        max_parallelism=8,
        checkpoint_interval_ms=40,
        retained=1,
        state_backend="rocksdb",
        incremental=incremental,
        watermark_interval_ms=5,
    )


def test_heap_and_databases_hold_the_same_with_times_and_timers() -> None:
    seen: Counter[str] = Counter()
    for name in ("rich_functions", "page_windows", "expiring_state", "clock_windows"):
        family = load_family(name)
        on_databases = small(family, KILL, incremental=name != "page_windows")
        stored = recorded_checkpoints(family, on_databases)
        heap = recorded_checkpoints(family, replace(on_databases, state_backend=UNSET, incremental=UNSET))
        assert [each.metadata.checkpoint_id for each in stored] == [
            each.metadata.checkpoint_id for each in heap
        ]
        assert stored[-1].metadata.attempt != stored[0].metadata.attempt
        for one, other in zip(stored, heap, strict=True):
            (here, behind_here), (there, behind_there) = whole_content_of(one), whole_content_of(other)
            for place in here.keys() | there.keys():
                if place[0] in behind_here | behind_there:
                    continue
                assert here.get(place, Counter()) == there.get(place, Counter()), place
                seen[kind_of(place, place[1] in {state for _, state in one.lifetimes})] += 1
    assert set(seen) == {
        "operator state",
        "keyed",
        "with a time to live",
        "event timers",
        "processing timers",
    }


def kind_of(place: tuple[str, str, int], is_timed: bool) -> str:
    if place[2] < 0:
        return "operator state"
    if place[1].startswith(EVENT_TIMERS):
        return "event timers"
    if place[1].startswith(PROCESSING_TIMERS):
        return "processing timers"
    return "with a time to live" if is_timed else "keyed"


@pytest.mark.parametrize(
    ("planted", "name", "state"),
    [
        ("timers-in-databases-are-rounded", "page_windows", EVENT_TIMERS),
        ("last-pair-of-a-map-is-not-in-the-snapshot", "average_by_map", "numbers"),
        ("lists-in-databases-are-sorted", "average_by_list", "numbers"),
    ],
)
def test_bug_of_the_snapshots_of_databases_is_found_beside_the_heap(
    planted: str, name: str, state: str
) -> None:
    family = load_family(name)
    scenario = small(family, incremental=True)
    assert not list(state_differences(family, scenario))
    assert not list(backend_differences(family, scenario))
    with find_mutant(planted).applied() as reach:
        beside_heap = next(backend_differences(family, scenario))
        undisturbed = next(state_differences(family, scenario))
    assert reach.times
    assert beside_heap.witness["backend"] == "hashmap"
    assert "backend" not in undisturbed.witness
    for found in (beside_heap, undisturbed):
        assert all(state in place["state"] for place in found.witness["places"])


def test_checkpoint_that_lacks_a_file_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family("word_count")
    scenario = small(family, incremental=True)
    run = recorded_run(family, scenario)
    shared = [path for path in run.checkpoints[0].files if path.startswith("shared/")]
    assert shared
    for path in shared:
        del run.checkpoints[0].files[path]  # type: ignore[attr-defined]
    monkeypatch.setattr(checkpoint_trials, "recorded_run", lambda *_: run)
    [violation, *_] = backend_differences(family, scenario)
    assert (violation.anomaly, violation.where) == (UNREADABLE, "checkpoint 1")
    assert violation.witness["path"] in shared
