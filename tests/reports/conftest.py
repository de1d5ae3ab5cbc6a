"""Invented but realistic reports, with functions that vary them."""

from __future__ import annotations

import math
import runpy
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from onceproof.reports.model import (
    Coverage,
    CoverageCell,
    Decision,
    Drivers,
    Example,
    Facts,
    Failure,
    FamilyResult,
    Influence,
    InputRecord,
    Mutant,
    Night,
    OracleAgreement,
    PropertyResult,
    RealInput,
    RealKill,
    Report,
    Sensitivity,
    Shrinking,
    Sizes,
    SystemResult,
)
from onceproof.reports.summaries import distribution, row_differences

# Test modules cannot import each other, so they share these functions through fixtures.
TRACES = runpy.run_path(str(Path(__file__).with_name("traces.py")))
toy_trace, mock_trace = TRACES["toy_trace"], TRACES["mock_trace"]


POINTS = [
    *("triggered", "barrier_received", "aligned", "pre_committed", "snapshotted", "uploaded", "acknowledged"),
    *("metadata_written", "completed", "notified", "committing", "committed", "aborted", "restoring"),
    *("restored", "element", "end_of_data"),
]
KINDS = {
    "kill_task": POINTS,
    "kill_all": POINTS,
    "kill_process": [*POINTS[6:9], "committing", "restoring"],
    "lose_message": ["triggered", "acknowledged", "notified"],
    "delay_message": ["triggered", "acknowledged", "notified"],
    "duplicate_message": ["triggered", "acknowledged", "notified"],
    "fail_write": ["snapshotted", "metadata_written"],
    "tear_write": ["snapshotted", "metadata_written"],
    "late_write": ["snapshotted", "metadata_written"],
    "commit_error_after_success": ["committing"],
}
PROPERTIES = ["exactly_once", "consistent_cut", "fencing", "no_leaks", "liveness", "no_error", "determinism"]
FAMILIES = {"word_count": 5200, "page_views": 4800, "flights": 2000}


def make_coverage(never=()):
    random = Random(5)
    cells = []
    for kind, points in KINDS.items():
        for point in points:
            planned = int(40 + random.random() * 1400)
            fired = 0 if (kind, point) in never else int(planned * (0.5 + random.random() / 2))
            cells.append(CoverageCell(kind, point, planned, fired))
    return Coverage(cells=tuple(cells), points=tuple(POINTS), required=True)


def make_flights(**changes):
    random = Random(8)
    kills, position, parallelism = [], 0, 2
    for index in range(12):
        position += int(8000 + random.random() * 36000)
        after = {3: 3, 8: 1}.get(index, parallelism)
        kills.append(
            RealKill(
                point=POINTS[int(random.random() * len(POINTS))],
                task="" if index % 3 == 0 else f"totals-{index % 2}",
                checkpoint=None if index == 0 else position // 10000,
                position=position,
                replayed=position % 10000,
                recovery_seconds=0.04 + random.random() / 3,
                parallelism_before=parallelism,
                parallelism_after=after,
            )
        )
        parallelism = after
    settings = {
        "name": "flights",
        "source": "All flights that left New York City in 2013, a split per airport, in order of departure.",
        "runtime": "the local runtime, a checkpoint every 10,000 records, files on disk",
        "oracle": "one Spark SQL batch query over the same CSV",
        "records": 336776,
        "kills": tuple(kills),
        "rescales": 2,
        "checkpoints": 33,
        "seconds": 41.7,
        "rows_expected": 336776,
        "rows_actual": 336776,
        "columns": ("carrier", "origin", "flights", "cancelled", "delay"),
        "command": "onceproof run flights --system local --seed 20261120",
    }
    return RealInput(**(settings | changes))


def make_mutants(survivor=False):
    names = [
        ("commit-before-completion", "Flink 1.4 sinks", "exactly_once", "Commits at pre-commit already."),
        ("offsets-not-in-snapshot", "Kafka 0.8 source", "exactly_once", "The source restores from offset 0."),
        ("FLINK-9263", "FLINK-9263", "wrong value", "The snapshot of operator state is shallow."),
        (
            "barrier-overtaken",
            "FLINK-3259",
            "consistent_cut",
            "Data behind a barrier passes before alignment.",
        ),
        ("pending-dropped", "FLINK-10455", "lost", "Pending transactions are dropped on restore."),
        ("groups-shifted", "FLINK-23018", "lost", "Key groups go to the wrong subtask on rescale."),
        ("old-acknowledgement", "FLINK-5701", "fencing", "An old attempt’s acknowledgement counts."),
        ("second-commit", "KAFKA-9144", "duplicated", "A commit after recovery is a new one."),
    ]
    return tuple(
        Mutant(
            id=name,
            origin=origin,
            breaks=breaks,
            summary=summary,
            reached=True,
            killed=not (survivor and index == 6),
            property=None if survivor and index == 6 else "exactly_once",
            scenarios=None if survivor and index == 6 else 3 + index * 37,
            shrunk=None if survivor and index == 6 else Sizes(2 + index % 4, 1 + index % 2, index % 5),
            seconds=0.3 + index / 5,
        )
        for index, (name, origin, breaks, summary) in enumerate(names)
    )


def make_costs():
    random = Random(11)
    replayed = [int(-18 * math.log(1 - random.random())) for _ in range(4000)]
    steps = [int(20 + 60 * (random.random() + random.random() + random.random())) for _ in range(4000)]
    return (
        distribution("Records read again after a failure", "records", Counter(replayed)),
        distribution("Steps from a failure to the next completed checkpoint", "steps", Counter(steps)),
    )


def make_sensitivity(**changes):
    settings = {
        "family": "word_count",
        "seed": 7,
        "scenarios": 2000,
        "points": 500,
        "parameters": (("the checkpoint interval", "from one checkpoint to the next", "20 ms to 160 ms"),),
        "drivers": (
            Drivers(
                cost="records read again",
                sentence=(
                    "The checkpoint interval drives this cost most, with a part in 70% of all differences."
                ),
                q2=0.83,
                chance=0.1,
                mean=27.3,
                unit="records",
                meaning="between the checkpoint that was restored and the kill",
                degree=2,
                influences=(
                    Influence("parallelism", 0.05, 0.12),
                    Influence("checkpoint interval", 0.61, 0.7, "14 records at 34 ms, 41 at 146 ms"),
                    Influence("size of the buffers", 0.11, 0.22),
                ),
            ),
            Drivers(cost="recovery", sentence="Not explained.", q2=0.31, unit="steps", meaning="all"),
            Drivers(cost="alignment", sentence="This cost is the same in every scenario: 0 steps."),
        ),
        "command": "onceproof sensitivity out --family word_count --seed 7",
    }
    return Sensitivity(**(settings | changes))


def make_failure(**changes):
    settings = {
        "family": "word_count",
        "property": "exactly_once",
        "anomaly": "lost",
        "replay": "onceproof replay 8273645120938 --family word_count",
        "shrink": "onceproof explain failures/word_count-3f9a1c.json",
        "seed": 8273645120938,
        "scenarios": 3,
        "sentence": "Row (k1, 1) was prepared for checkpoint 1, which completed, but never became visible.",
        "cause": "sink-1 died before the commit notification of checkpoint 1 reached it, and attempt 1.2,"
        " restored from checkpoint 1, did not commit the transaction that the checkpoint lists as prepared.",
        "shrinking": Shrinking(Sizes(82, 6, 228), Sizes(2, 1, 2), runs=391),
        "records": (InputRecord("source-0", 0, ("k1",), 0), InputRecord("source-0", 1, ("k1",))),
        "faults": ("kill all at notified of checkpoint 1",),
        "takes": "1 of 3 decisions matters: without it every property holds.",
        "decisions": (
            Decision("kill all at notified of checkpoint 1", "matters"),
            Decision("that the job then runs with parallelism 3", "changes", "fencing, zombie commit"),
            Decision("writes of snapshots wait for all other steps", "idle"),
        ),
        "columns": ("word", "count"),
        "rows": row_differences([("k1", 1), ("k1", 2)], [("k1", 2)]),
        "first_divergence": "step 20: commit of sink-1-1 expected on restore, not seen",
        "story": (
            "Checkpoint 1 covers record k1 at offset 0; sink-1 prepares (k1, 1).",
            "Step 18: checkpoint 1 completes.",
            "Step 19: everything is killed before either sink learns of it.",
            "Step 20: attempt 1.2 restores checkpoint 1 and begins a new transaction.",
            "Step 37: (k1, 2) becomes visible; (k1, 1) never does.",
        ),
        "also": ("consistent_cut", "no_leaks"),
        "trace": mock_trace(),
    }
    return Failure(**(settings | changes))


def make_report(failures=(), **changes):
    failed = {failure.family: failure.scenarios for failure in failures}
    broken = {(failure.family, failure.property) for failure in failures}
    families = tuple(
        FamilyResult(
            family,
            scenarios,
            failed.get(family, 0),
            tuple(
                PropertyResult(name, scenarios - failed[family], failed[family])
                if (family, name) in broken
                else PropertyResult(name, scenarios, 0)
                for name in PROPERTIES
            ),
        )
        for family, scenarios in FAMILIES.items()
    )
    settings = {
        "facts": Facts(
            scenarios=sum(FAMILIES.values()),
            seed=20261120,
            engine_version="abc1234",
            started="2026-11-20 02:00 UTC",
            seconds=61.3,
            machine="2 cores, Linux, Python 3.11.9",
            workers=2,
            trace_hash="5f1c0e0d9b7a4c52a1f1e0b6d8c44a7788aa12ef09cd34567b1d22f0c9e8d7a6",
            command="onceproof campaign --seed 20261120 --max-time 60",
            others=(("Spark", "4.3.0, local[2]"),),
        ),
        "families": families,
        "failures": tuple(failures),
        "example": Example(
            family="word_count",
            trace=toy_trace(records=9, keys=["k1", "k2"], seed=4, kill_at=38, rescale_to=3, interval=24),
            replay="onceproof replay 17 --family word_count --trace",
            sentence="one kill of every task, and a rescale from 2 to 3 at the restore.",
            story=("Checkpoint 1 is triggered.", "Everything is killed.", "Attempt 1.2 finishes the job."),
        ),
        "real_inputs": (make_flights(),),
        "coverage": make_coverage(),
        "mutants": make_mutants(),
        "costs": make_costs(),
        "sensitivity": (make_sensitivity(),),
        "nights": tuple(
            Night(
                started=f"2026-11-{day:02d}",
                scenarios=11000 + day * 53,
                failed=3 if day == 12 else 0,
                new_signatures=1 if day == 12 else 0,
                seconds=60 + day / 10,
                engine_version=f"e{day:06x}",
            )
            for day in range(3, 20)
        ),
        "oracles": OracleAgreement(scenarios=12000, seconds=1.3),
    }
    return Report(**(settings | changes))


def make_comparison(**changes):
    """Return a comparison of word_count in the simulation, on local, and on Spark, where it fails."""
    figures = {
        "simulated": {"kills": 24, "records_replayed": 4.5, "scenario_milliseconds": 31.3},
        "local": {"kills": 19, "recovery_seconds": 0.21, "worst_recovery_seconds": 2.4, "recoveries": 17},
        "spark": {"kills": 11, "failed": 2, "recovery_seconds": 4.1, "worst_recovery_seconds": 19.0},
    }
    figures["local"] |= {"not_applicable": 6, "records_replayed": 7, "scenario_milliseconds": 3391.0}
    figures["spark"] |= {"not_applicable": 9, "scenario_milliseconds": 20100.0, "recoveries": 9}
    rows = tuple(
        SystemResult(name=system, family="word_count", system=system, scenarios=20, **row)
        for system, row in figures.items()
    )
    families = tuple(
        FamilyResult(
            "word_count",
            20,
            row.failed,
            (
                PropertyResult("exactly_once", 20 - row.failed, row.failed),
                PropertyResult("liveness", 20),
                PropertyResult("determinism", 1 if row.system == "simulated" else 0),
                PropertyResult("mode"),
            ),
            system=row.system,
        )
        for row in rows
    )
    settings = {
        "title": "Comparison of systems",
        "facts": Facts(scenarios=60, seed=7, system="simulated, local, spark", seconds=470.0, workers=2),
        "families": families,
        "failures": (make_failure(system="spark", scenarios=2),),
        "comparison": rows,
    }
    return Report(**(settings | changes))


@pytest.fixture(scope="session")
def made():
    """Return functions that make traces, reports and their parts."""
    return SimpleNamespace(
        trace=toy_trace,
        mock_trace=mock_trace,
        report=make_report,
        comparison=make_comparison,
        failure=make_failure,
        flights=make_flights,
        mutants=make_mutants,
        coverage=make_coverage,
        sensitivity=make_sensitivity,
    )
