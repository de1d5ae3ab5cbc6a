"""The archive of Spark's classes: mapped where it fits, and of no harm where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from onceproof.engine.runtime import spark_class_archive, spark_session, spark_setup
from onceproof.engine.runtime.java import JavaInstallation, find_java
from onceproof.engine.runtime.spark_class_archive import archive_for, link_home, quick_start_options
from onceproof.engine.runtime.spark_session import SparkFailed

NOT_WRITTEN = "this environment has no archive of Spark's classes: make setup writes one"


@pytest.fixture
def java() -> JavaInstallation:
    return find_java(os.environ)


@pytest.fixture
def no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without one; where it would be."""
    monkeypatch.setattr(spark_class_archive, "archive_folder", lambda: tmp_path / "classes")
    return tmp_path / "classes"


@pytest.mark.spark
@pytest.mark.skipif(not psutil.LINUX, reason="only Linux shows what a process has mapped")
def test_every_session_maps_the_archive_of_the_setup(java: JavaInstallation, spark: SparkSession) -> None:
    if not archive_for(java).exists():
        pytest.skip(NOT_WRITTEN)
    assert spark_session._session.running is not None
    process = spark_session._session.running.gateway.proc.pid
    assert str(archive_for(java)) in [mapped.path for mapped in psutil.Process(process).memory_maps()]


def test_another_java_or_another_spark_has_an_archive_of_its_own(
    java: JavaInstallation, no_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "java"
    older.mkdir()
    (older / "release").write_text('JAVA_VERSION="17.0.1"')
    archives = [archive_for(java), archive_for(JavaInstallation(older, 17))]
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    monkeypatch.setattr(spark_class_archive, "package_folder", lambda: tmp_path / "pyspark")
    archives.append(archive_for(java))
    (older / "release").write_text('JAVA_VERSION="17.0.2"')
    archives.append(archive_for(JavaInstallation(older, 17)))
    assert len({*archives}) == 4
    assert {archive.parent for archive in archives} == {no_archive}


def test_without_an_archive_nothing_is_asked_of_java(java: JavaInstallation, no_archive: Path) -> None:
    assert not any("Shared" in option for option in quick_start_options(java))


def test_a_damaged_archive_does_not_keep_java_from_starting(
    java: JavaInstallation, no_archive: Path, tmp_path: Path
) -> None:
    no_archive.mkdir()
    archive_for(java).write_bytes(b"damaged")
    command = [str(java.home / "bin" / "java"), *quick_start_options(java), "-version"]
    started = subprocess.run(command, capture_output=True, text=True, check=False)
    assert any("Shared" in option for option in command)
    assert (started.returncode, started.stdout) == (0, "")


def test_links_lead_to_the_empty_folder_that_the_archive_was_written_with(
    no_archive: Path, tmp_path: Path
) -> None:
    link_home(tmp_path / "before")
    assert not (tmp_path / "before" / "conf").is_symlink()
    link_home(no_archive)
    link_home(tmp_path / "after")
    assert (tmp_path / "after" / "conf").samefile(no_archive / "conf")
    # The folder of links is removed with its session, and the shared files stay.
    shutil.rmtree(tmp_path / "after")
    assert list((no_archive / "conf").iterdir()) == []


def test_unwritable_archive_is_an_error_of_one_line(
    no_archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise SparkFailed("Spark did not start: no memory")

    # It imports pandas, which a collection need not do.
    from onceproof.engine.runtime import spark_class_training

    monkeypatch.setattr(spark_class_training, "archive_folder", lambda: no_archive)
    monkeypatch.setattr(spark_class_training, "start_spark", refused)
    assert spark_setup.main() == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("set-up: Java writes down")
    assert second == "set-up: not written down, starts of Spark take longer: Spark did not start: no memory"
