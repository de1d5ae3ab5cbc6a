"""An archive of the classes that a program in Java loads, with which its starts take a fraction of the time.

Rules:

- It is Java's own (class data sharing), and changes nothing that a program can see. Java leaves an archive
  alone that does not fit its version or the jars.
- The control run makes it anew as it ends, because the program may have been built again. A run that is
  killed, or a Java that cannot make one, leaves none: the program then starts as slowly as ever.
- Each process whose command begins with ``{java}`` has one; the options of the file come later and win.
  Processes with the same command share it, and the first of them makes it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_processes import Process
from onceproof.harness.services.service import user_cache

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
# The quick compiler: a program on trial lives for seconds.
_QUICK: Final = "-XX:TieredStopAtLevel=1"


def with_archive(family: ProgramFamily, process: Process, words: list[str], *, makes: bool) -> list[str]:
    """Return the command of a process with the options that use its archive, or make it at the end."""
    archive = _archive_of(family, process)
    if archive is None:
        return words
    options = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.is_file() else []
    if makes:
        alike = [each.name for each in family.file.processes if each.command == process.command]
        is_first = process.name == alike[0]
        options = [f"-XX:ArchiveClassesAtExit={_unfinished(archive)}"] if is_first else []
    return [words[0], _QUICK, *options, *_QUIET, *words[1:]]


def keep_new(family: ProgramFamily) -> None:
    """Put new archives in the places of earlier ones."""
    archives = {_archive_of(family, process) for process in family.file.processes}
    for archive in filter(None, archives):
        archive.unlink(missing_ok=True)
        if _unfinished(archive).is_file():
            _unfinished(archive).replace(archive)


def _archive_of(family: ProgramFamily, process: Process) -> Path | None:
    """Return where the archive of a process is, or is to be; None if it has none."""
    if process.command[:1] != ("{java}",):
        return None
    named = "\n".join((str(family.path.absolute()), *process.command))
    folder = user_cache() / "java-classes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}.jsa"


def _unfinished(archive: Path) -> Path:
    return archive.with_suffix(f".{os.getpid()}")
