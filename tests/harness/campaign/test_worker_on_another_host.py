"""Campaigns and jobs on a Spark whose worker is on another host, and starts to which no executor comes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.harness.model.exit_codes import INTERNAL
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run
from tests.far_spark import WORKER_CORES, WORKER_MEMORY_MB, FarSpark, NoOtherHost, far_spark
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SCENARIOS = 12
FAMILY = """
from beside import NAME
from onceproof.scenarios.word_count import *
from onceproof.scenarios.word_count import record_schema, row_schema, oracle_sql

name = NAME
"""
PROGRAM = """
import sys
from onceproof.engine import CsvSource, Encoder, FileSink, StreamExecutionEnvironment, Types
from beside import shop

here = sys.argv[1]
env = StreamExecutionEnvironment.get_execution_environment()
schema = [("shop", Types.STRING()), ("cents", Types.LONG())]
sales = env.from_source(CsvSource(f"{here}/sales.csv", schema), None, "sales").uid("sales")
totals = sales.key_by(shop, Types.STRING()).sum(1).uid("totals")
totals.sink_to(FileSink.for_row_format(f"{here}/totals", Encoder.csv_encoder()).build()).uid("files")
env.execute("shop totals")
"""
BESIDE = "NAME = 'far_words'\n\n\ndef shop(sale):\n    return sale[0]\n"
GREAT_PATIENCE = ("--conf", "spark.onceproof.executorTimeout=10 min")
LITTLE_PATIENCE = ("--conf", "spark.onceproof.executorTimeout=5 s")
QUICK_EXECUTORS = ("--conf", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""An executor lives for seconds; the second compiler of Java would take more time than it saves."""


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """Return the driver's folder of temporary files, which the worker does not see."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, temporary: Path) -> Iterator[FarSpark]:
    """Return a cluster whose worker is on another host."""
    try:
        with far_spark(tmp_path_factory.mktemp("cluster"), temporary) as found:
            yield found
    except NoOtherHost as why:
        pytest.skip(f"no worker on another host: {why}")


def onceproof(temporary: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with its temporary files where the worker does not see them."""
    return subprocess.run(
        [sys.executable, "-m", "onceproof", *arguments],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def refused_start(
    cluster: FarSpark, temporary: Path, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a campaign that must end with one line, keep what is there, and leave nothing."""
    out = folder / "out"
    out.mkdir()
    (out / "outcomes.jsonl").write_text("earlier")
    done = onceproof(
        temporary,
        folder,
        *("campaign", "word_count", "--scenarios", "10", "--master", cluster.master, "--out", "out"),
        *QUICK_EXECUTORS,
        *options,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (INTERNAL, "", 1), done.stderr
    assert (out / "outcomes.jsonl").read_text() == "earlier"
    assert list(temporary.iterdir()) == []
    return done


def test_a_campaign_runs_on_another_host(cluster: FarSpark, temporary: Path, tmp_path: Path) -> None:
    family = tmp_path / "family"
    family.mkdir()
    (family / "words.py").write_text(FAMILY)
    (family / "beside.py").write_text(BESIDE)
    done = onceproof(
        temporary,
        tmp_path,
        *("campaign", str(family / "words.py"), "--scenarios", str(SCENARIOS), "--seed", "5", "--json"),
        *("--master", cluster.master, "--out", "out", *GREAT_PATIENCE, *QUICK_EXECUTORS),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["scenarios"] == SCENARIOS
    plain = run(RunPlan((str(family / "words.py"),), scenarios=SCENARIOS, seed=5, workers=1))
    assert document["trace_hash"] == plain.tally.trace_hash()
    assert list(temporary.iterdir()) == []


def test_a_job_runs_on_another_host(cluster: FarSpark, temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("shop,cents\n" + "".join(f"s{n % 3},{n}\n" for n in range(50)))
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text(BESIDE)
    options = {
        "execution.checkpointing.interval-records": 20,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
    }
    done = onceproof(
        temporary,
        tmp_path,
        *("job", "run", "program.py", "--system", "spark", "--master", cluster.master),
        *("--conf", "spark.executor.memory=512m", *GREAT_PATIENCE, *QUICK_EXECUTORS),
        *(each for key, value in options.items() for each in ("-D", f"{key}={value}")),
        *("--", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    totals = {f"s{shop}": 0 for shop in range(3)}
    expected = []
    for number in range(50):
        totals[f"s{number % 3}"] += number
        expected.append(f"s{number % 3},{totals[f's{number % 3}']}")
    parts = (tmp_path / "totals").iterdir()
    rows = [line for part in parts if part.is_file() for line in part.read_text().splitlines()]
    assert sorted(rows) == sorted(expected)


def test_a_cluster_with_too_little_memory_ends_the_start(
    cluster: FarSpark, temporary: Path, tmp_path: Path
) -> None:
    options = ("--conf", "spark.executor.memory=4g", *LITTLE_PATIENCE)
    done = refused_start(cluster, temporary, tmp_path, *options)
    assert done.stderr == (
        f"onceproof: no executor has served the job for 5 s at {cluster.master}: the master has 1 worker with"
        f" {WORKER_CORES} cores in all and up to {WORKER_MEMORY_MB} MB of memory each, and an executor asks"
        " for 4g of memory: add workers, end other applications, or ask for less with --conf"
        " spark.executor.memory and spark.executor.cores; spark.onceproof.executorTimeout sets the time\n"
    )


def test_executors_that_cannot_reach_the_driver_end_the_start(
    cluster: FarSpark, temporary: Path, tmp_path: Path
) -> None:
    here = cluster.worker_host.rpartition(".")[0] + "."
    here += str(int(cluster.worker_host.rpartition(".")[2]) - 1)
    # No machine has this address: it is set aside for documentation.
    options = ("spark.driver.host=203.0.113.9", f"spark.driver.bindAddress={here}")
    conf = [each for option in options for each in ("--conf", option)]
    done = refused_start(cluster, temporary, tmp_path, *conf, *LITTLE_PATIENCE)
    assert "started, and none registered with the driver at 203.0.113.9:" in done.stderr
    assert "set another with --conf spark.driver.host" in done.stderr


def test_executors_without_this_package_end_the_start(
    cluster: FarSpark, temporary: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    # Isolated, and without the packages of this environment.
    python.write_text(f'#!/bin/sh\nPYTHONPATH={pyspark_paths()} exec {sys.base_prefix}/bin/python3 -S "$@"\n')
    python.chmod(0o755)
    done = refused_start(
        cluster, temporary, tmp_path, "--conf", f"spark.pyspark.python={python}", *GREAT_PATIENCE
    )
    assert "ModuleNotFoundError: No module named 'onceproof'" in done.stderr
    assert "--conf spark.pyspark.python names it" in done.stderr


def pyspark_paths() -> str:
    """Return the folders from which a bare Python imports pyspark and what it needs."""
    import py4j
    import pyspark

    return os.pathsep.join(sorted({str(Path(each.__file__).parents[1]) for each in (pyspark, py4j)}))
