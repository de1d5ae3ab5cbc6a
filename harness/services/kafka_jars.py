"""Fetches Kafka's broker once for each user, and makes what lets it start quickly.

The rules this module lives by:

- `kafka_pom.xml` pins the version; Maven fetches the jars into the user's cache. Jars that are there are used
  without the network.
- Two more files are made once: a formatted empty data folder, which each new broker copies instead of
  starting a Java to make it, and an archive of loaded classes (Java's AppCDS), with which a broker starts in
  about a second instead of three and a half. Both belong to one version of Kafka, the archive to one of Java.
- One process at a time makes them; others wait. Each is made under another name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceproof.engine.file_locks import hold_lock, release_lock
from onceproof.engine.runtime.java import JavaInstallation, JavaMissing, find_java
from onceproof.harness.services.service import ServiceError, ServiceMissing, last_lines, user_cache

POM: Final = Path(__file__).with_name("kafka_pom.xml")
_FETCH_S: Final = 900.0
_FORMAT_S: Final = 120.0
_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"
# A small heap, one collector thread and the quick compiler: the broker shares two cores with its clients.
JAVA_OPTIONS: Final = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass(frozen=True, slots=True)
class BrokerProgram:
    """A Java and Kafka's jars: what a broker is started from."""

    java: JavaInstallation
    folder: Path

    @classmethod
    def find(cls) -> BrokerProgram:
        """Return the program, fetched if need be. Raises ServiceError: no Java, no Maven, no network."""
        try:
            java = find_java(os.environ)
        except JavaMissing as error:
            raise ServiceMissing(f"Kafka's broker needs Java: {error}") from error
        # Another pom is another folder, so a cache never mixes two versions.
        version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
        program = cls(java, user_cache() / f"kafka-{version}")
        if not program.jars.is_dir():
            with _alone(program.folder):
                if not program.jars.is_dir():
                    program._fetch()
        if not program.formatted.is_dir():
            with _alone(program.folder):
                if not program.formatted.is_dir():
                    program._format()
        return program

    @property
    def jars(self) -> Path:
        """The folder of the jars."""
        return self.folder / "jars"

    @property
    def formatted(self) -> Path:
        """A data folder of a broker that has never run."""
        return self.folder / "formatted"

    @property
    def class_archive(self) -> Path:
        """The archive of loaded classes, which may be missing."""
        return self.folder / f"classes-{self.java.version}.jsa"

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs a class of Kafka."""
        # The order decides the archive: Java refuses one that was made with another class path.
        path = os.pathsep.join(str(jar) for jar in sorted(self.jars.glob("*.jar")))
        java = str(self.java.home / "bin" / "java")
        return [java, *JAVA_OPTIONS, *options, "-cp", path, main, *arguments]

    def archive_classes(self, run_once: Callable[[tuple[str, ...]], None]) -> None:
        """Make the class archive, unless there is one.

        Args:
            run_once: starts and ends a broker with further options for Java; the archive is made as it ends.
        """
        if self.class_archive.exists():
            return
        with _alone(self.folder):
            if self.class_archive.exists():
                return
            new = self.class_archive.with_suffix(".new")
            new.unlink(missing_ok=True)
            run_once((f"-XX:ArchiveClassesAtExit={new}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"))
            # A Java that cannot make one leaves none; brokers then start as slowly as they did.
            if new.exists():
                new.replace(self.class_archive)

    def archive_options(self) -> tuple[str, ...]:
        """Return the options for Java that use the class archive, if there is one."""
        if not self.class_archive.exists():
            return ()
        return (f"-XX:SharedArchiveFile={self.class_archive}", "-Xshare:auto", "-Xlog:cds=off")

    # ---- internal

    def _fetch(self) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise ServiceMissing(
                "Kafka's broker is fetched by Maven, and no mvn is on PATH: install it (on Debian: apt-get"
                f" install maven), or put the jars of {POM} and all they need into {self.jars}"
            )
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="fetching-") as name:
            folder = Path(name)
            # Maven takes a folder; the pom lies in the package, which may be read-only.
            shutil.copy(POM, folder / "pom.xml")
            log = folder / "log"
            command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
            _run([*command, "-DincludeScope=runtime"], folder, log, _FETCH_S, "mvn cannot fetch Kafka's jars")
            (folder / "jars").replace(self.jars)

    def _format(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="formatting-") as name:
            folder = Path(name)
            settings = folder / "broker.properties"
            settings.write_text(broker_properties(folder / "data", 1, 2), encoding="utf-8")
            command = self.command("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings))
            _run(command, folder, folder / "log", _FORMAT_S, "Kafka's storage tool cannot format a folder")
            (folder / "data").replace(self.formatted)


def broker_properties(data: Path, port: int, controller_port: int, advertised_port: int = 0) -> str:
    """Return the settings of a broker with its data in a folder, which sends clients to a port."""
    text = POM.with_name("kafka_broker.properties").read_text(encoding="utf-8")
    for name, value in (
        ("DATA", data),
        ("PORT", port),
        ("CONTROLLER", controller_port),
        ("ADVERTISED", advertised_port or port),
    ):
        text = text.replace(f"@{name}@", str(value))
    return text


def _run(command: list[str], folder: Path, log: Path, seconds: float, failure: str) -> None:
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{failure}: no end after {seconds:.0f} s; is the network there?") from None
    if code:
        raise ServiceError(f"{failure}: {last_lines(log, 3)[:500]}")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process makes something in the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ServiceError(
            f"{folder}: the cache cannot be written ({error.strerror}):"
            " set XDG_CACHE_HOME to a folder of yours"
        ) from error
    hold_lock(descriptor, wait=True)
    try:
        yield
    finally:
        release_lock(descriptor)
