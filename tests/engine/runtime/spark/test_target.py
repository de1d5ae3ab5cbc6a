"""``execute`` on Spark from a user's program, and its errors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from onceproof.engine import (
    Configuration,
    ConfigurationError,
    CsvSource,
    Encoder,
    FileSink,
    InvalidJob,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.runtime.java import JavaMissing
from onceproof.engine.runtime.spark_session import SparkFailed, start_spark
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[4]

HELPER = """
def shop(sale):
    return sale[0]
"""

PROGRAM = '''
import sys

from onceproof.engine import Configuration, CsvSource, Encoder, FileSink, StreamExecutionEnvironment, Types
from helper import shop

options = {
    "execution.target": "spark",
    "execution.spark.master": "local[2,4]",
    "execution.checkpointing.interval-records": 20,
    "execution.checkpointing.dir": "checkpoints",
    "parallelism.default": 2,
}


class Doubled:
    """Defined in the program itself."""

    def __call__(self, sale):
        return sale[0], 2 * sale[1]


env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
schema = [("shop", Types.STRING()), ("cents", Types.LONG())]
sales = env.from_source(CsvSource("sales.csv", schema), None, "sales").uid("sales")
totals = sales.map(Doubled()).key_by(shop, Types.STRING()).sum(1).uid("totals")
totals.sink_to(FileSink.for_row_format("totals", Encoder.csv_encoder()).build()).uid("files")
result = env.execute("shop totals")
print(result.checkpoints, result.records_read)
'''


@pytest.mark.slow
@pytest.mark.spark
def test_a_program_with_a_module_beside_it_runs_on_spark_and_leaves_only_files(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "sales.csv").write_text("shop,cents\n" + "".join(f"s{n % 3},{n}\n" for n in range(50)))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3 50\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []
    rows = sorted(line for part in (tmp_path / "totals").iterdir() for line in part.read_text().splitlines())
    totals = {f"s{shop}": 0 for shop in range(3)}
    lines = []
    for number in range(50):
        totals[f"s{number % 3}"] += 2 * number
        lines.append(f"s{number % 3},{totals[f's{number % 3}']}")
    assert rows == sorted(lines)


@pytest.mark.spark
def test_a_process_that_has_a_spark_runs_its_jobs_on_it(job, spark):
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration(execution__target="spark"))
    job.describe(env)
    assert env.execute("words").checkpoints == 6
    assert job.rows() == job.counts
    assert spark.range(3).count() == 3, "it is still there"


@pytest.mark.spark
def test_a_job_for_another_master_than_that_of_the_process_is_refused(job, spark):
    options = {"execution__target": "spark", "execution__spark__master": "local[3]"}
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration(**options))
    job.describe(env)
    with pytest.raises(
        ConfigurationError,
        match=r"cannot be local\[3\], it is local\[\*,4\]: this process already runs a Spark",
    ):
        env.execute("words")


def test_unknown_target_is_refused_when_it_is_set():
    with pytest.raises(
        ConfigurationError, match=r"'execution\.target' cannot be 'sparc': the choice is local, spark"
    ):
        Configuration.from_mapping({"execution.target": "sparc"})
    with pytest.raises(ConfigurationError, match=r"cannot be 'yarn-application': not supported yet"):
        Configuration.from_mapping({"execution.target": "yarn-application"})


def test_a_job_that_spark_cannot_run_is_refused_before_spark_starts(job):
    options = {"execution__target": "spark", "execution__checkpointing__dir": None}
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration(**options))
    job.describe(env)
    with pytest.raises(InvalidJob, match="keeps its checkpoints in memory"):
        env.execute("words")


def test_rows_cannot_be_collected_from_spark(job):
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration(execution__target="spark"))
    with pytest.raises(InvalidJob, match=r"^execute_and_collect hands out rows in this process"):
        env.from_collection([1, 2]).execute_and_collect()


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_unreachable_master_is_an_immediate_error(monkeypatch):
    # As if this process had no Spark: the master is looked at before one starts.
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("onceproof.engine.runtime.spark_session._session.running", None)
    port = closed_port()
    with pytest.raises(SparkFailed, match=rf"^no Spark answers at spark://127\.0\.0\.1:{port} \(.*refused\)"):
        start_spark(f"spark://127.0.0.1:{port}")
    with pytest.raises(SparkFailed, match="has no port: write spark://HOST:PORT"):
        start_spark("spark://somewhere")


def test_missing_java_is_an_error_of_one_line(job, monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("onceproof.engine.runtime.spark_session._session.running", None)

    def find_java(environment):
        raise JavaMissing("no Java 17 or later: nowhere; run `make setup`")

    monkeypatch.setattr("onceproof.engine.runtime.spark_session.find_java", find_java)
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration(execution__target="spark"))
    job.describe(env)
    with pytest.raises(JavaMissing, match=r"^no Java 17 or later: nowhere; run `make setup`$"):
        env.execute("words")


@pytest.mark.spark
def test_relative_paths_on_spark_mean_the_folder_where_the_job_is_submitted(tmp_path, spark, monkeypatch):
    """The Python workers of Spark, which have begun elsewhere, have another working folder."""
    spark.sparkContext.parallelize([1], 1).map(lambda _: os.getcwd()).collect()
    monkeypatch.chdir(tmp_path)
    Path("numbers.csv").write_text("n\n" + "".join(f"{number}\n" for number in range(40)))
    options = {
        "execution.target": "spark",
        "execution.checkpointing.interval-records": 10,
        "execution.checkpointing.dir": "checkpoints",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    numbers = env.from_source(CsvSource(["numbers.csv"], [("n", Types.LONG())]), None, "numbers")
    numbers.sink_to(FileSink.for_row_format("rows", Encoder.csv_encoder()).build())
    assert env.execute("relative").restarts == 0
    parts = [part for part in (tmp_path / "rows").iterdir() if not part.name.startswith(".")]
    rows = sorted(int(line) for part in parts for line in part.read_text().split())
    assert rows == list(range(40))
