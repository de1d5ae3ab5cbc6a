"""The planner of the installed Flink: its Python, and our table factory compiled for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.engine.table.planner.planner_process import FACTORY, JAVA_SOURCES, PlannerHome
from onceproof.harness.services.maven_jars import alone_in, run_to_end
from onceproof.harness.services.service import ServiceMissing, user_cache
from onceproof.harness.systems.flink.home import INSTALL, PACKAGES, VERSION
from onceproof.harness.systems.kit.packages import installed_python

_JAR: Final = "declared-tables.jar"
_SERVICE: Final = "META-INF/services/org.apache.flink.table.factories.Factory"
_COMPILE_S: Final = 300.0


def find_planner() -> PlannerHome:
    """Return the planner of the Flink that is installed; our factory is compiled if it has not been.

    Raises:
        ServiceMissing: Flink or Java is missing; the message names the command that installs it.
        ServiceError: the factory cannot be compiled.
    """
    python = installed_python(PACKAGES)
    if python is None:
        raise ServiceMissing(f"Apache Flink {VERSION} is not installed: run `{INSTALL}`")
    try:
        java = find_java(os.environ)
    except JavaMissing as error:
        raise ServiceMissing(f"Apache Flink needs Java: {error}") from None
    content = " ".join([VERSION, str(java.version), *(path.read_text("utf-8") for path in JAVA_SOURCES)])
    folder = user_cache() / f"planner-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if not (folder / _JAR).is_file():
        with alone_in(folder):
            if not (folder / _JAR).is_file():
                _make_jar(folder, Path(python), java.home)
    return PlannerHome(python, str(java.home), str(folder / _JAR))


def _make_jar(folder: Path, python: Path, java_home: Path) -> None:
    """Compile the factory against the jars of the environment, and name it as a service."""
    compiler = java_home / "bin" / "javac"
    if not compiler.is_file():
        raise ServiceMissing(
            f"{java_home} has no compiler (javac), which Flink's planner needs: install a JDK"
        )
    jars = sorted(python.parent.parent.glob("lib/python3.*/site-packages/pyflink/lib/*.jar"))
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as name:
        place = Path(name)
        classes = place / "classes"
        classes.mkdir()
        command = [str(compiler), "-nowarn", "-proc:none", "-cp", os.pathsep.join(map(str, jars))]
        command += ["-d", str(classes), *map(str, JAVA_SOURCES)]
        run_to_end(command, place, place / "log", _COMPILE_S, "the planner's tables cannot be compiled")
        with zipfile.ZipFile(place / _JAR, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
            archive.writestr(_SERVICE, FACTORY)
        shutil.move(place / _JAR, folder / _JAR)
