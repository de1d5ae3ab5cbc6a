"""What a program needs before its first trial on a machine: its Python, its Java, and its own build."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import filled
from onceproof.harness.services.maven_jars import jars_of
from onceproof.harness.systems.flink.home import home_of_jobs
from onceproof.harness.systems.kit.packages import python_with
from onceproof.harness.systems.program.user_commands import how_it_failed


def of_this_machine(family: ProgramFamily) -> dict[str, str]:
    """Return what placeholders stand for in all trials of a program on this machine."""
    values = {"python": python_with(family.file.program.packages), "here": str(family.path.absolute().parent)}
    if (job := family.file.flink) is not None:
        values["flink_jars"] = home_of_jobs(job.version, job.connectors).class_path
    if jars := family.file.program.jars:
        values["jars"] = os.pathsep.join(map(str, jars_of(jars, str(family.path))))
    if family.file.names("java"):
        try:
            values["java"] = str(find_java(os.environ).home / "bin" / "java")
        except JavaMissing as error:
            raise FamilyError(f"{family.path}: {{java}}: {error}") from None
    return values


def prepare(family: ProgramFamily) -> Mapping[str, str]:
    """Build a program by its command for that, and return ``of_this_machine``. Raises FamilyError."""
    if family.before is not None:
        prepare(family.before)
    values = of_this_machine(family)
    command = family.file.program.prepare
    if not command:
        return values
    folder = family.path.absolute().parent
    place = f"{family.path}: program.prepare"
    words = [filled(word, values) for word in command]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    except OSError as error:
        raise FamilyError(f"{place}: {words[0]}: {error.strerror or error}") from None
    if done.returncode:
        raise FamilyError(f"{place}: {how_it_failed(done.returncode, done.stderr or done.stdout)}")
    return values
