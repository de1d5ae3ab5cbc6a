"""Fetches Kafka's broker once for each user, and makes what lets it start quickly.

The rules this module lives by:

- `kafka_pom.xml` pins the version; `maven_jars.py` fetches the jars into the user's cache.
- Two more files are made once: a formatted empty data folder, which each new broker copies instead of
  starting a Java to make it, and an archive of loaded classes (Java's AppCDS), with which a broker starts in
  two seconds instead of three and a half. Both belong to one version of Kafka, the archive to one of Java.
- One process at a time makes them; others wait. Each is made under another name and renamed when it is whole.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import JavaInstallation, JavaMissing, find_java
from onceproof.harness.services.maven_jars import JARS, alone_in, jars_folder, run_to_end
from onceproof.harness.services.service import ServiceMissing

POM: Final = Path(__file__).with_name("kafka_pom.xml")
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
        program = cls(java, jars_folder(POM, "kafka", "Kafka's broker"))
        if not program.formatted.is_dir():
            with alone_in(program.folder):
                if not program.formatted.is_dir():
                    program._format()
        return program

    @property
    def jars(self) -> Path:
        """The folder of the jars."""
        return self.folder / JARS

    @property
    def class_path(self) -> str:
        """The class path of the jars, in the order that the archive of classes was made with."""
        return os.pathsep.join(str(jar) for jar in sorted(self.jars.glob("*.jar")))

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
        java = str(self.java.home / "bin" / "java")
        return [java, *JAVA_OPTIONS, *options, "-cp", self.class_path, main, *arguments]

    def archive_classes(self, run_once: Callable[[tuple[str, ...]], None]) -> None:
        """Make the class archive, unless there is one.

        Args:
            run_once: starts and ends a broker with further options for Java; the archive is made as it ends.
        """
        if self.class_archive.exists():
            return
        with alone_in(self.folder):
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

    def _format(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="formatting-") as name:
            folder = Path(name)
            settings = folder / "broker.properties"
            settings.write_text(broker_properties(folder / "data", 1, 2), encoding="utf-8")
            command = self.command("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings))
            run_to_end(command, folder, folder / "log", _FORMAT_S, "Kafka cannot format a folder")
            (folder / "data").replace(self.formatted)


def broker_properties(
    data: Path, port: int, controller_port: int, proxied_port: int = 0, proxy_port: int = 0
) -> str:
    """Return the settings of a broker with its data in a folder.

    With a ``proxied_port`` it also listens there, and sends who comes that way to ``proxy_port``.
    """
    listeners = advertised = f"PLAINTEXT://127.0.0.1:{port}"
    if proxied_port:
        listeners += f",PROXIED://127.0.0.1:{proxied_port}"
        advertised += f",PROXIED://127.0.0.1:{proxy_port}"
    text = POM.with_name("kafka_broker.properties").read_text(encoding="utf-8")
    for name, value in (
        ("DATA", data),
        ("CONTROLLER", controller_port),
        ("LISTENERS", listeners),
        ("ADVERTISED", advertised),
    ):
        text = text.replace(f"@{name}@", str(value))
    return text
