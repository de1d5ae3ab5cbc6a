"""Where Flink is on this machine: its environment of Python, its jars, and our source compiled for it.

The rules this module lives by:

- Flink is the package apache-flink of one version. Its packages clash with ours, so it has an environment of
  its own in the user's cache, the same in which programs that name this package run.
- ``onceproof flink install`` makes what is missing. A run installs nothing: it takes minutes and a gigabyte.
- The source of records is Java, and compiled once by the machine's own compiler against Flink's jars.
- A folder of links has all jars, because the client of Flink takes the jars of one folder.
- A job in a jar or in SQL needs no Python: any release of Flink runs it, whose jars are those of the package
  apache-flink-libraries, with the connectors that its file names. They are fetched when a run needs them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import JavaInstallation, JavaMissing, find_java
from onceproof.harness.services.maven_jars import JARS, alone_in, jars_folder, jars_of, run_to_end
from onceproof.harness.services.service import ServiceMissing, user_cache
from onceproof.harness.systems.kit.packages import installed_python, python_with

VERSION: Final = "2.3.0"
PACKAGES: Final = (f"apache-flink=={VERSION}",)
INSTALL: Final = "onceproof flink install"
CLIENT: Final = Path(__file__).parent / "client"
"""The program that runs in Flink's environment, and the source in Java."""
_JAVA_SOURCES: Final = tuple(sorted(CLIENT.glob("*.java")))
_KAFKA_POM: Final = CLIENT.parents[2] / "services" / "flink_kafka_pom.xml"
_KAFKA_JAR: Final = "flink-sql-connector-kafka-*.jar"
_PACKAGES_OF_JAVA: Final = (
    "java.lang java.net java.io java.nio java.lang.reflect java.text java.time java.util java.util.concurrent"
    " java.util.concurrent.atomic java.util.concurrent.locks sun.nio.ch"
)
OPENED: Final = tuple(
    [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES_OF_JAVA.split()]
)
"""Options of Java: Flink reaches into these packages."""
_TABLES: Final = CLIENT / "ScenarioTables.java"
_SERVICE: Final = "META-INF/services/org.apache.flink.table.factories.Factory"
_SQL_SOURCE: Final = Path(__file__).parent / "SqlScript.java"
SQL_JAR: Final = "sql-script.jar"
_COMPILE_S: Final = 300.0
_LIB: Final = "lib"


@dataclass(frozen=True, slots=True)
class FlinkHome:
    """An installed Flink."""

    python: str
    """The Python of its environment."""
    packages: Path
    """The folder of that Python's packages."""
    jars: Path
    """The folder with all jars, ours included."""
    java: JavaInstallation
    version: str = VERSION

    @property
    def home(self) -> Path:
        """What Flink calls FLINK_HOME."""
        return self.packages / "pyflink"

    def archive(self, process: str) -> Path:
        """Return the file with the loaded classes of a kind of process, which starts sooner with it."""
        return self.jars.parent / f"{process}.jsa"

    @property
    def has_kafka(self) -> bool:
        """Whether the connector of Kafka is there."""
        return any(self.jars.glob(_KAFKA_JAR))

    @property
    def class_path(self) -> str:
        """All jars, for Java."""
        return os.pathsep.join(str(jar) for jar in sorted(self.jars.glob("*.jar")))

    def environment(self, configuration: Path) -> dict[str, str]:
        """Return the environment of a process of Flink; ``configuration`` is the folder of its settings."""
        home = self.home
        return {
            **os.environ,
            "JAVA_HOME": str(self.java.home),
            "FLINK_HOME": str(home),
            "FLINK_CONF_DIR": str(configuration),
            "FLINK_LIB_DIR": str(self.jars),
            "FLINK_OPT_DIR": str(home / "opt"),
            # Each folder in it must have jars, and none is needed.
            "FLINK_PLUGINS_DIR": str(configuration / "plugins"),
            "FLINK_BIN_DIR": str(home / "bin"),
            # Java runs Python inside of itself, and finds packages by this.
            "PYTHONPATH": str(self.packages),
        }


def find_flink() -> FlinkHome:
    """Return the Flink that is installed.

    Raises:
        ServiceMissing: it is not installed; the message names the command that installs it.
    """
    python = installed_python(PACKAGES)
    java = _java()
    folder = _folder(java)
    if python is None or not (folder / _LIB).is_dir():
        raise ServiceMissing(f"Apache Flink {VERSION} is not installed: run `{INSTALL}`")
    return FlinkHome(python, _packages_of(python), folder / _LIB, java)


def install_flink() -> FlinkHome:
    """Install what is missing of Flink, and return it.

    Raises:
        ServiceError: the packages cannot be installed, or our source cannot be compiled.
    """
    python = python_with(PACKAGES)
    java = _java()
    folder = _folder(java)
    if not (folder / _LIB).is_dir():
        with alone_in(folder):
            if not (folder / _LIB).is_dir():
                home = _packages_of(python) / "pyflink"
                jars = sorted([*(home / "lib").glob("*.jar"), *(home / "opt").glob("flink-python-*.jar")])
                user = f"Flink {VERSION}"
                _make_jars(folder, jars, java, _JAVA_SOURCES, "scenario-source.jar", _kafka_jars(), user)
    if not any((folder / _LIB).glob(_KAFKA_JAR)):
        # It was made while Maven was missing.
        for jar in _kafka_jars():
            (folder / _LIB / jar.name).symlink_to(jar)
    return find_flink()


def home_of_jobs(version: str, connectors: Sequence[str]) -> FlinkHome:
    """Return a release of Flink for jobs that are no families, with connectors; what is missing is fetched.

    Raises:
        ServiceError: it cannot be fetched.
    """
    user = f"Apache Flink {version}"
    installed = installed_python(PACKAGES) if version == VERSION else None
    python = installed or python_with((f"apache-flink-libraries=={version}",))
    java, packages = _java(), _packages_of(python)
    connected = jars_of(connectors, user)
    content = f"{python} {java.version} {connected} {_SQL_SOURCE.read_text(encoding='utf-8')}"
    folder = user_cache() / f"flink-jobs-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if not (folder / _LIB).is_dir():
        with alone_in(folder):
            if not (folder / _LIB).is_dir():
                jars = sorted((packages / "pyflink" / _LIB).glob("*.jar"))
                _make_jars(folder, jars, java, [_SQL_SOURCE], SQL_JAR, connected, user)
    return FlinkHome(python, packages, folder / _LIB, java, version)


def _java() -> JavaInstallation:
    try:
        return find_java(os.environ)
    except JavaMissing as error:
        raise ServiceMissing(f"Apache Flink needs Java: {error}") from None


def _folder(java: JavaInstallation) -> Path:
    """Return the folder of the cache for our source as it is, compiled by this Java."""
    sources = [path.read_text(encoding="utf-8") for path in (*_JAVA_SOURCES, _KAFKA_POM)]
    content = f"{VERSION} {java.version} {' '.join(sources)}"
    return user_cache() / f"flink-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _packages_of(python: str) -> Path:
    """Return the folder of packages of an environment, by the place of its Python."""
    return next(Path(python).parent.parent.glob("lib/python3.*/site-packages"))


def _kafka_jars() -> list[Path]:
    """Return the connector of Kafka; none where Maven is missing, which other families do not need."""
    try:
        return sorted(
            (jars_folder(_KAFKA_POM, "flink-kafka", "Flink's connector of Kafka") / JARS).glob("*.jar")
        )
    except ServiceMissing:
        return []


def _make_jars(
    folder: Path,
    jars: Sequence[Path],
    java: JavaInstallation,
    sources: Sequence[Path],
    name: str,
    connected: Sequence[Path],
    user: str,
) -> None:
    """Make the folder of links to jars and connectors, with one more jar: our sources, compiled."""
    compiler = java.home / "bin" / "javac"
    if not compiler.is_file():
        raise ServiceMissing(
            f"{java.home} has no compiler (javac), which {user} needs: install a JDK (on"
            " Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one"
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as place:
        classes, lib = Path(place) / "classes", Path(place) / _LIB
        classes.mkdir()
        lib.mkdir()
        class_path = os.pathsep.join(str(jar) for jar in jars)
        command = [str(compiler), "-nowarn", "-proc:none", "-cp", class_path, "-d", str(classes)]
        failure = f"our sources cannot be compiled for {user}"
        command += map(str, sources)
        run_to_end(command, Path(place), Path(place) / "log", _COMPILE_S, failure)
        for jar in (*jars, *connected):
            (lib / jar.name).symlink_to(jar)
        with zipfile.ZipFile(lib / name, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
            if _TABLES in sources:
                archive.writestr(_SERVICE, f"onceproof.{_TABLES.stem}")
        shutil.move(lib, folder / _LIB)
