"""A job that is stopped on one runtime goes on on the other, from its savepoint, at another parallelism.

After a runtime is killed before its first checkpoint, the other one restores the same savepoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest

from onceproof.engine.protocol_points import ALIGNED, UPLOADED
from onceproof.harness.model.family import NOTHING_DECLARED
from tests.engine.runtime.spark import relaying, visits
from tests.engine.runtime.spark.relaying import Leg
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.spark


def legs(folder, backend):
    """Makes the legs of one job."""

    def leg(runtime, parallelism, savepoint="", **rest):
        return Leg(
            folder=str(folder),
            runtime=runtime,
            parallelism=parallelism,
            backend=backend,
            savepoint=savepoint,
            **rest,
        )

    return leg


def in_a_process(leg):
    """Run a leg in a process of its own; return its exit code and the savepoint that it printed."""
    done = subprocess.run(
        [sys.executable, relaying.__file__, msgspec.json.encode(leg).decode()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.strip()


def rows_in(folder):
    parts = [part for part in (folder / "out").iterdir() if not part.name.startswith(".")]
    return Counter(
        tuple(msgspec.json.decode(line)) for part in parts for line in part.read_bytes().splitlines()
    )


def expected():
    return Counter(visits.expected(visits.generate(Random(1)).records, NOTHING_DECLARED))


@pytest.mark.slow
def test_local_to_spark_and_back_with_a_driver_killed_before_its_checkpoint(tmp_path, spark):
    leg = legs(tmp_path, "rocksdb")
    code, first = in_a_process(leg("local", 2, stops_after=2))
    assert (code, Path(first).parent) == (0, tmp_path / "savepoints")
    second = relaying.run(leg("spark", 3, first, stops_after=2), spark.sparkContext)
    assert Path(second).parent == tmp_path / "savepoints"
    assert second != first
    before = rows_in(tmp_path)
    # Neither has completed a checkpoint when it dies. What the driver has started may outlive it for a while.
    code, _ = in_a_process(leg("spark", 1, second, kill=(UPLOADED, "visits", 0)))
    assert code == -signal.SIGKILL
    code, _ = in_a_process(leg("local", 4, second, kill=(ALIGNED, "visits", 0)))
    assert code == -signal.SIGKILL
    assert rows_in(tmp_path) == before
    code, third = in_a_process(leg("local", 1, second, stops_after=1))
    assert code == 0
    assert 0 < rows_in(tmp_path).total() < expected().total()
    assert relaying.run(leg("spark", 2, third), spark.sparkContext) == ""
    assert rows_in(tmp_path) == expected()


def test_from_spark_to_local_and_back_on_the_heap(tmp_path, spark):
    leg = legs(tmp_path, "hashmap")
    first = relaying.run(leg("spark", 3, stops_after=2), spark.sparkContext)
    code, second = in_a_process(leg("local", 4, first, stops_after=3))
    assert (code, len(list((tmp_path / "savepoints").iterdir()))) == (0, 2)
    assert 0 < rows_in(tmp_path).total() < expected().total()
    assert relaying.run(leg("spark", 1, second), spark.sparkContext) == ""
    assert rows_in(tmp_path) == expected()
