"""The same cut is the same state on each runtime and backend: simulated, local and on Spark."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.state_equivalence import check_equivalence
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.local import system as local_system
from onceproof.harness.systems.local.system import LocalRun, LocalSystem
from onceproof.harness.systems.simulation.comparison_runs import undisturbed_checkpoint
from onceproof.harness.systems.spark import system as spark_system
from onceproof.harness.systems.spark.system import SparkRun, SparkSystem
from tests.harness.systems.stored_states import checkpoint_in, keeping, state_of

NO_WATERMARK_MS = 1_000_000
BACKENDS: dict[str, dict[str, Any]] = {
    "on the heap": {"state_backend": UNSET, "incremental": UNSET},
    "in databases": {"state_backend": "rocksdb", "incremental": False},
    "in databases that share files": {"state_backend": "rocksdb", "incremental": True},
}
PAIRS = (
    ("rich_functions", "on the heap"),
    ("page_windows", "on the heap"),
    ("visits", "on the heap"),
    ("rich_functions", "in databases that share files"),
    ("page_windows", "in databases"),
)
"""All kinds of keyed state, windows with their timers, and windows that merge."""


def killed_in_the_middle(family: Family, backend: str) -> Scenario:
    """Return a scenario in which a job of two subtasks dies when its first checkpoint is complete."""
    drawn = next(each for each in (generate(family, seed) for seed in count()) if each.record_count() > 30)
    return replace(
        drawn,
        parallelism=2,
        faults=(Fault("kill_process", "completed", checkpoint=1),),
        operations=UNSET,
        checkpoint_interval_ms=drawn.record_count(),
        mode=UNSET,
        endless=UNSET,
        watermark_interval_ms=NO_WATERMARK_MS,
        **BACKENDS[backend],
    )


def differences(family: Family, scenario: Scenario, kept: Path, history: History) -> list[object]:
    """Compare the checkpoint in a folder with the simulation's checkpoints of the same cut."""
    checkpoint = checkpoint_in(kept, history)
    stored = state_of(family, scenario, checkpoint)
    assert sum(entries.total() for entries in stored.entries.values()) > 3
    is_native = any(
        subtask.handle is not None and subtask.handle.files
        for operator in checkpoint.metadata.operators
        for subtask in operator.subtasks
    )
    assert is_native == (scenario.state_backend == "rocksdb")
    simulated = undisturbed_checkpoint(family, scenario, checkpoint.cut, has_watermarks=False)
    assert simulated is not None
    state = state_of(family, scenario, simulated)
    assert stored.progress.keys() == state.progress.keys()
    return list(check_equivalence(1, checkpoint.cut, stored, state))


@pytest.mark.local_kill
@pytest.mark.parametrize(("name", "backend"), PAIRS)
def test_checkpoint_of_the_local_runtime_holds_what_the_simulation_holds(
    name: str, backend: str, tmp_path: Path
) -> None:
    family = load_family(name)
    scenario = killed_in_the_middle(family, backend)
    kept = tmp_path / "kept"
    with pytest.MonkeyPatch.context() as patch, closing(LocalSystem(tmp_path)) as system:
        patch.setattr(local_system, "LocalRun", keeping(LocalRun, kept))
        history = system.run(family, scenario)
    assert differences(family, scenario, kept, history) == []


@pytest.mark.spark
def test_checkpoint_of_a_job_on_spark_holds_what_the_simulation_holds(tmp_path: Path) -> None:
    with closing(SparkSystem(tmp_path)) as system:
        for name, backend in (("rich_functions", "on the heap"), ("page_windows", "in databases")):
            family = load_family(name)
            scenario = killed_in_the_middle(family, backend)
            kept = tmp_path / name
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(spark_system, "SparkRun", keeping(SparkRun, kept))
                history = system.run(family, scenario)
            assert differences(family, scenario, kept, history) == []
