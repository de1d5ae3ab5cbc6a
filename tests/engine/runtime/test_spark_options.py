"""Spark's options from a command line and a file, the master they choose, and the settings that follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.engine import Configuration
from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.runtime.java import JavaInstallation
from onceproof.engine.runtime.spark_settings import (
    SparkOptions,
    is_local,
    launch_variables,
    properties_text,
    read_properties,
    settings_of,
    spark_options,
)

JAVA = JavaInstallation(Path("/java"), 17)
FOLDER = Path("/tmp/session-of-the-driver")

FILE = r"""
# as spark-submit reads it
! also a comment
spark.executor.memory            2g
spark.executor.cores=2
  spark.eventLog.dir : hdfs://host:8021/directory
spark.executor.extraJavaOptions  -XX:+PrintGCDetails -Dkey=value -Dnumbers="one two three"
spark.jars   one.jar,\
             two.jar
spark.path   C:\\temp
spark.name   caf\u00e9
spark.empty
hive.unknown 1
"""


def settings(options: SparkOptions, address: str | None = None) -> dict[str, str]:
    return settings_of(options, "mine", FOLDER, [Path("/here")], JAVA, address)


def test_a_properties_file_is_read_as_spark_submit_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "spark-defaults.conf"
    path.write_text(FILE, encoding="utf-8")
    assert read_properties(path) == {
        "spark.executor.memory": "2g",
        "spark.executor.cores": "2",
        "spark.eventLog.dir": "hdfs://host:8021/directory",
        "spark.executor.extraJavaOptions": '-XX:+PrintGCDetails -Dkey=value -Dnumbers="one two three"',
        "spark.jars": "one.jar,two.jar",
        "spark.path": "C:\\temp",
        "spark.name": "café",
        "spark.empty": "",
    }


def test_written_properties_are_read_back(tmp_path: Path) -> None:
    configuration = {
        "spark.a": 'a\\b "c" = d: #e\nf',
        "spark.b": "",
        "spark.hadoop.x=y z:\\": "é",
    }
    path = tmp_path / "session.properties"
    path.write_text(properties_text(configuration), encoding="utf-8")
    assert read_properties(path) == configuration


def test_conf_wins_over_the_file_and_the_master_over_both(tmp_path: Path) -> None:
    path = tmp_path / "own.conf"
    path.write_text("spark.master spark://file:1\nspark.a file\nspark.b file\n")
    options = SparkOptions.of(None, ["spark.a=command=line", " spark.c = 3 "], path)
    assert options.chosen_master() == "spark://file:1"
    assert dict(options.configuration) == {
        "spark.master": "spark://file:1",
        "spark.a": "command=line",
        "spark.b": "file",
        "spark.c": "3",
    }
    assert SparkOptions.of("yarn", ["spark.master=spark://conf:1"], path).chosen_master() == "yarn"
    assert SparkOptions.of(None, ["spark.master=spark://conf:1"], path).chosen_master() == "spark://conf:1"
    assert SparkOptions().chosen_master() == "local[*,4]"


@pytest.mark.parametrize("text", ["spark.executor.memory", "executor.memory=2g", "=2", ""])
def test_a_setting_that_is_no_option_of_spark_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^--conf {text}: give an option of Spark as KEY=VALUE"):
        SparkOptions.of(None, [text])


def test_a_properties_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing.conf"
    with pytest.raises(
        ConfigurationError, match=rf"^--properties-file {missing}: cannot be read: No such file"
    ):
        SparkOptions.of(None, (), missing)


@pytest.mark.parametrize(
    "options",
    [
        SparkOptions("sc://localhost:15002"),
        SparkOptions(None, {"spark.master": "sc://localhost:15002"}),
        SparkOptions("spark://host:1", {"spark.remote": "sc://localhost:15002"}),
    ],
    ids=["master", "option", "remote"],
)
def test_a_spark_connect_server_is_refused(options: SparkOptions) -> None:
    with pytest.raises(ConfigurationError, match=r"^Spark Connect \(sc://localhost:15002\) is not supported"):
        options.chosen_master()


def test_a_job_asks_for_a_master_and_options() -> None:
    configuration = Configuration.from_mapping(
        {
            "execution.spark.master": "yarn",
            "execution.spark.conf": "spark.executor.memory:2g,spark.a:'b:c,d'",
        }
    )
    assert spark_options(configuration) == SparkOptions(
        "yarn", {"spark.executor.memory": "2g", "spark.a": "b:c,d"}
    )
    assert spark_options(Configuration()) == SparkOptions()


@pytest.mark.parametrize("master", ["local", "local[2,4]", "local[*]", "local-cluster[2,1,1024]"])
def test_a_session_on_this_machine_stays_on_it(master: str) -> None:
    assert is_local(master)
    found = settings(SparkOptions(master))
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.local.dir"] == str(FOLDER / "local")
    variables = launch_variables(SparkOptions(master), FOLDER, FOLDER, FOLDER / "own", JAVA)
    assert variables["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_executors_on_a_cluster_get_nothing_of_the_driver_s_machine(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    assert not is_local(master)
    options = SparkOptions(master)
    found = settings(options)
    assert {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"}.isdisjoint(found)
    of_the_driver = {"spark.driver.extraJavaOptions", "spark.sql.warehouse.dir"}
    assert {
        key for key, value in found.items() if str(FOLDER) in value or "127.0.0.1" in value
    } == of_the_driver
    variables = launch_variables(options, FOLDER, FOLDER, FOLDER / "own", JAVA)
    assert "SPARK_LOCAL_IP" not in variables
    # The driver keeps its files in its own folder, without an option that executors would have, too.
    assert variables["SPARK_LOCAL_DIRS"] == str(FOLDER / "local")


def test_the_driver_is_found_where_it_reaches_the_master_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    master = "spark://host:7077"
    assert settings(SparkOptions(master), "10.0.0.5")["spark.driver.host"] == "10.0.0.5"
    given = SparkOptions(master, {"spark.driver.host": "driver.example"})
    assert settings(given, "10.0.0.5")["spark.driver.host"] == "driver.example"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.6")
    assert "spark.driver.host" not in settings(SparkOptions(master), "10.0.0.5")


def test_what_a_user_sets_wins_and_options_for_java_are_added() -> None:
    conf = {
        "spark.executor.extraJavaOptions": "-Dmine=1",
        "spark.local.dir": "/big",
        "spark.sql.catalogImplementation": "hive",
        "spark.app.name": "theirs",
        "spark.pyspark.python": "/opt/python",
    }
    options = SparkOptions("spark://host:7077", conf)
    found = settings(options)
    assert found["spark.executor.extraJavaOptions"] == "-Duser.timezone=UTC -Dmine=1"
    assert (found["spark.sql.catalogImplementation"], found["spark.app.name"]) == ("hive", "theirs")
    variables = launch_variables(options, FOLDER, FOLDER, FOLDER / "own", JAVA)
    assert "SPARK_LOCAL_DIRS" not in variables
    assert variables["PYSPARK_PYTHON"] == "/opt/python"
