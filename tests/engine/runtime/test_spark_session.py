"""The session that everyone starts: its settings hold, it is silent, and nothing of it stays behind.

What needs a life of its own (starts, deaths, stops) runs in a process of its own, because a process has one
Spark at a time and the tests of this one share theirs.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from onceproof.engine.runtime import spark_session as module
from onceproof.engine.runtime.spark_session import SPARK_ERRORS, SparkFailed, one_line, spark_log, start_spark
from onceproof.engine.runtime.spark_surroundings import own_interrupts

pytestmark = pytest.mark.spark


def run_program(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose temporary files land in `folder`, with every warning of Python switched on."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        env=os.environ | {"TMPDIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder whose path is short enough to hold sockets; a session would not use a longer one."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def worker_facts(_: int) -> dict[str, object]:
    """Tell, from inside a worker, what it runs and imports."""
    from onceproof import engine

    return {"python": sys.executable, "hash seed": os.environ["PYTHONHASHSEED"], "engine": engine.__file__}


def test_job(spark: SparkSession) -> None:
    pairs = spark.sparkContext.parallelize(range(10), 2).map(lambda number: (number % 3, number))
    assert sorted(pairs.reduceByKey(lambda a, b: a + b).collect()) == [(0, 18), (1, 12), (2, 15)]


def looks_for_a_module(_: int) -> None:
    importlib.import_module("nowhere_at_all")


def calls_exit(_: int) -> None:
    sys.exit("enough")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (looks_for_a_module, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (calls_exit, "SystemExit: enough"),
    ],
)
def test_error_in_a_worker_is_the_last_line_of_its_traceback(
    spark: SparkSession, function: Callable[[int], None], said: str
) -> None:
    with pytest.raises(SPARK_ERRORS) as raised:
        spark.sparkContext.parallelize([1], 1).map(function).collect()
    assert one_line(raised.value).startswith(said)


def test_query(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT count(*) AS n, current_timezone() AS zone FROM range(100)").collect()
    assert (row.n, row.zone) == (100, "UTC")


def test_settings(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.master") == "local[*,4]"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None


def test_workers_run_this_python_and_this_source_tree(spark: SparkSession) -> None:
    [facts] = spark.sparkContext.parallelize([0], 1).map(worker_facts).collect()
    engine = Path(module.__file__).parents[1] / "__init__.py"
    assert facts == {"python": sys.executable, "hash seed": "0", "engine": str(engine)}


def test_killed_worker_does_not_fail_the_job(spark: SparkSession, tmp_path: Path) -> None:
    def die_once(number: int) -> int:
        marker = tmp_path / "died"
        if number == 5 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert spark.sparkContext.parallelize(range(10), 2).map(die_once).sum() == 45
    assert "Lost task" in spark_log()


def test_second_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkFailed, match="already runs a Spark session"):
        start_spark()


def test_start_to_stop_is_silent_and_leaves_nothing_not_even_of_a_killed_program(short_folder: Path) -> None:
    program = """
import os, signal
from onceproof.engine.runtime import spark_session as module
module.start_spark()
print(module._session.running.gateway.proc.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = run_program(program, short_folder)
    assert done.returncode == -signal.SIGKILL
    assert list(short_folder.iterdir()) != []
    psutil.wait_procs([psutil.Process(int(done.stdout))] if psutil.pid_exists(int(done.stdout)) else [], 30)
    program = """
import importlib
import os
from onceproof.engine.runtime.spark_session import running_context, spark_session
before = dict(os.environ)
with spark_session(name="mine", configuration={"spark.sql.shuffle.partitions": "3"}) as spark:
    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number + 1).sum() == 5
    assert spark.sql("SELECT 1 AS one").toPandas().one.tolist() == [1]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.sparkContext.appName == "mine"
    assert before.items() <= os.environ.items()
assert running_context() is None
"""
    # What the environment says of another Spark is not heeded.
    done = run_program(
        program,
        short_folder,
        SPARK_HOME="/nonexistent",
        PYSPARK_SUBMIT_ARGS="--master nowhere",
        PYSPARK_PYTHON="/nonexistent/python",
        PYTHONHASHSEED="random",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(short_folder.iterdir()) == []


def test_killed_java_is_cleared_away_and_a_forgotten_stop_leaves_nothing(short_folder: Path) -> None:
    program = """
from onceproof.engine.runtime import spark_session as module
module.start_spark()
process = module._session.running.gateway.proc
process.kill()
process.wait()
module.stop_spark()
print(module.start_spark().range(5).count())
raise SystemExit(7)
"""
    done = run_program(program, short_folder)
    assert (done.returncode, done.stdout, done.stderr) == (7, "5\n", "")
    assert list(short_folder.iterdir()) == []


def test_failed_start_is_an_error_of_one_line_and_leaves_nothing(short_folder: Path) -> None:
    program = """
from onceproof.engine.runtime import java, spark_session as module

def start(configuration):
    try:
        module.start_spark(configuration=configuration)
    except (java.JavaMissing, module.SparkFailed) as failure:
        print(type(failure).__name__, failure)

start({"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=high"})
start({"spark.driver.bindAddress": "203.0.113.9"})

def no_java(environment):
    raise java.JavaMissing("no Java 17 or later: none")

module.find_java = no_java
start({})
"""
    # pyspark leaves the pipe of a Java that never started to the garbage collector, which warns.
    done = run_program(program, short_folder, PYTHONWARNINGS="ignore::ResourceWarning")
    assert (done.returncode, done.stderr) == (0, "")
    java_failed, spark_failed, java_missing = done.stdout.splitlines()
    assert java_failed.startswith("SparkFailed Spark did not start: [JAVA_GATEWAY_EXITED]")
    assert "Improperly specified VM option 'TieredStopAtLevel=high'" in java_failed
    assert spark_failed.startswith("SparkFailed Spark did not start: java.net.BindException")
    assert java_missing == "JavaMissing no Java 17 or later: none"
    assert list(short_folder.iterdir()) == []


def test_worker_error_shows_the_raised_exception(spark: SparkSession) -> None:
    def raising(record: int) -> int:
        raise KeyError("what the worker raised")

    with pytest.raises(SPARK_ERRORS) as caught:
        spark.sparkContext.parallelize([1], 1).map(raising).collect()
    error = caught.value
    assert isinstance(error, Exception)
    assert one_line(error) == "KeyError: 'what the worker raised'"


def test_interrupted_launch_leaves_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = []

    def launch(conf: object, options: object) -> object:
        # As pyspark does: the process is there, and its handle is lost with the interrupt.
        started.append(
            subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE)
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "launch_gateway", launch)
    with pytest.raises(KeyboardInterrupt):
        module._launch({}, tmp_path)
    [process] = started
    assert not psutil.pid_exists(process.pid)
    process.stdin.close()
    process.wait()


def test_ctrl_c_keeps_its_handler_when_spark_has_started() -> None:
    def handler(number: int, frame: object) -> None:
        pass

    before = signal.signal(signal.SIGINT, handler)
    try:
        with own_interrupts():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
