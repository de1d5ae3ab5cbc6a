"""Which Spark the commands use: a master and options, the one of spark-submit, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_settings import SparkOptions
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from onceproof.harness.nightly.night import NightPlan
    from tests.harness.commands.conftest import Command

PROGRAM = """
from pathlib import Path
from onceproof.engine import Configuration, CsvSource, Encoder, FileSink, StreamExecutionEnvironment, Types

here = Path(__file__).parent
options = {
    "execution.target": "spark",
    "execution.checkpointing.interval-records": 20,
    "execution.checkpointing.dir": str(here / "checkpoints"),
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
schema = [("shop", Types.STRING()), ("cents", Types.LONG())]
sales = env.from_source(CsvSource(str(here / "sales.csv"), schema), None, "sales").uid("sales")
totals = sales.key_by(lambda sale: sale[0], Types.STRING()).sum(1).uid("totals")
totals.sink_to(FileSink.for_row_format(str(here / "totals"), Encoder.csv_encoder()).build()).uid("files")
print("read", env.execute("shop totals").records_read)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("campaign", "word_count", "--scenarios", "10", "--out", "out"),
        ("nightly", "--out", "out"),
        ("job", "run", "word_count", "--system", "spark"),
    ],
    ids=["campaign", "nightly", "job"],
)
def test_a_spark_connect_server_is_refused(onceproof: Command, arguments: tuple[str, ...]) -> None:
    ended = onceproof(*arguments, "--master", "sc://localhost:15002")
    assert (ended.code, ended.error.count("\n")) == (4, 1), ended.error
    assert "Spark Connect (sc://localhost:15002) is not supported" in ended.error
    assert "such as spark://HOST:PORT" in ended.error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--conf", "executor.memory=2g"), "--conf executor.memory=2g: give an option of Spark as KEY=VALUE"),
        (("--properties-file", "missing.conf"), "--properties-file missing.conf: cannot be read"),
    ],
)
def test_options_that_cannot_be_used_are_one_line(
    onceproof: Command, arguments: tuple[str, ...], said: str
) -> None:
    for command in (("campaign", "word_count"), ("nightly",), ("job", "run", "word_count")):
        ended = onceproof(*command, *arguments)
        assert (ended.code, ended.error.count("\n")) == (4, 1), ended.error
        assert ended.error.startswith(f"onceproof: {said}")


def test_a_job_on_the_local_runtime_takes_no_options_of_spark(onceproof: Command) -> None:
    ended = onceproof("job", "run", "word_count", "--master", "yarn")
    assert ended.code == 4
    assert ended.error == "onceproof: --master, --conf and --properties-file are for --system spark\n"


def test_a_night_gets_its_master_and_options(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = []

    def night(plan: NightPlan) -> int:
        given.append(plan.campaign.spark)
        return 0

    monkeypatch.setattr("onceproof.harness.nightly.night.nightly", night)
    (tmp_path / "own.conf").write_text("spark.executor.memory 2g\nspark.executor.cores 2\n")
    conf = ("--conf", "spark.executor.cores=4", "--conf", "spark.a=1", "--properties-file", "own.conf")
    assert onceproof("nightly", "--master", "yarn", *conf).code == 0
    expected = {"spark.executor.memory": "2g", "spark.executor.cores": "4", "spark.a": "1"}
    assert given == [SparkOptions("yarn", expected)]


def test_options_beside_those_of_spark_submit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from onceproof.engine.runtime import spark_session

    prepared = {"spark.master": "local[3,4]"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(spark_session, "running_context", lambda: None)
    monkeypatch.setattr(spark_session, "launch_gateway", lambda: SimpleNamespace(jvm=None))
    monkeypatch.setattr(spark_session, "SparkConf", lambda **_: prepared)
    given = SparkOptions("local[3,4]", {"spark.executor.memory": "2g"})
    said = "spark.executor.memory' would have no effect: spark-submit has prepared Spark"
    with pytest.raises(ConfigurationError, match=said), spark_session.obtained_context(given, "refused"):
        pass


def spark_submit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run spark-submit with three cores of this machine."""
    import pyspark

    home = Path(pyspark.__file__).parent
    # Java lives for seconds here; its second compiler would take more time than it saves.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", "local[3,4]", "--driver-java-options", quick),
            *arguments,
        ],
        cwd=folder,
        env={
            **os.environ,
            "JAVA_HOME": str(find_java(os.environ).home),
            "SPARK_HOME": str(home),
            "SPARK_LAUNCHER_OPTS": quick,
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.spark
def test_a_campaign_uses_the_spark_of_spark_submit(tmp_path: Path) -> None:
    import onceproof

    main = str(Path(onceproof.__path__[0]) / "__main__.py")
    command = (main, "campaign", "word_count", "--scenarios", "6", "--seed", "3", "--out", "out")
    done = spark_submit(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    # The number of cores is that of spark-submit, and changes nothing.
    assert re.search(r"^6 scenarios in .* on 3 workers", done.stdout, re.MULTILINE)
    assert (
        f"trace hash {run(RunPlan(('word_count',), scenarios=6, seed=3, workers=1)).tally.trace_hash()}"
        in done.stdout
    )


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_uses_the_spark_of_spark_submit(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("shop,cents\n" + "".join(f"s{n % 3},{n}\n" for n in range(50)))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = spark_submit(tmp_path, "--conf", "spark.app.name=given", "program.py")
    assert (done.returncode, done.stdout) == (0, "read 50\n"), done.stderr
    rows = [line for part in (tmp_path / "totals").iterdir() for line in part.read_text().splitlines()]
    assert len(rows) == 50
    # Spark logs the name of its application: there was one, with the name that spark-submit was given.
    assert set(re.findall(r"Submitted application: (.+)", done.stderr)) == {"given"}
