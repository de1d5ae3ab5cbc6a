"""Jars by Maven coordinates, with a Maven that is played by a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.services.maven_jars import jars_of
from onceproof.harness.services.service import ServiceError

COORDINATES = ["org.example:connector:1.0-2.2", "org.example:format:3"]


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `mvn` that keeps its pom, and whose further lines a test writes."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return program


def test_jars_of_all_coordinates_are_fetched_once(maven: Path, tmp_path: Path) -> None:
    lines = [
        "#!/bin/sh",
        f"cat pom.xml >> {tmp_path}/poms",
        "mkdir jars",
        "touch jars/connector.jar jars/b.txt",
    ]
    maven.write_text("\n".join(lines), encoding="utf-8")
    for _ in range(2):
        assert [jar.name for jar in jars_of(COORDINATES, "a job")] == ["connector.jar"]
    pom = (tmp_path / "poms").read_text(encoding="utf-8")
    assert pom.count("<project") == 1
    assert "<groupId>org.example</groupId><artifactId>connector</artifactId><version>1.0-2.2</version>" in pom
    assert "<artifactId>format</artifactId><version>3</version>" in pom


def test_without_coordinates_nothing_is_fetched(maven: Path) -> None:
    maven.write_text("#!/bin/sh\nexit 1", encoding="utf-8")
    assert jars_of([], "a job") == []


def test_the_first_error_of_maven_is_the_line_that_is_shown(maven: Path) -> None:
    lines = [
        "#!/bin/sh",
        "echo '[ERROR] no such artifact'",
        "echo '[ERROR] see http://example.org'",
        "exit 1",
    ]
    maven.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ServiceError, match=r"^mvn cannot fetch the jars of a job: no such artifact$"):
        jars_of(COORDINATES, "a job")
