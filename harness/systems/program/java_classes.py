"""An archive of the classes that a program in Java loads, with which its starts take a fraction of the time.

Rules:

- It is Java's own (class data sharing), and changes nothing that a program can see. Java leaves an archive
  alone that does not fit its version or the jars.
- The control run makes it anew as it ends, because the program may have been built again. A run that is
  killed, or a Java that cannot make one, leaves none: the program then starts as slowly as ever.
- Only a command that begins with ``{java}`` has one; the options of the file come later and win.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.services.service import user_cache

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
# The quick compiler: a program on trial lives for seconds.
_QUICK: Final = "-XX:TieredStopAtLevel=1"


def with_archive(family: ProgramFamily, words: list[str], *, makes: bool) -> list[str]:
    """Return a command with the options that use the archive of a program, or make it at the end."""
    archive = _archive_of(family)
    if archive is None:
        return words
    options = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.is_file() else []
    if makes:
        options = [f"-XX:ArchiveClassesAtExit={_unfinished(archive)}"]
    return [words[0], _QUICK, *options, *_QUIET, *words[1:]]


def keep_new(family: ProgramFamily) -> None:
    """Put a new archive in the place of an earlier one."""
    archive = _archive_of(family)
    if archive is None:
        return
    archive.unlink(missing_ok=True)
    if _unfinished(archive).is_file():
        _unfinished(archive).replace(archive)


def _archive_of(family: ProgramFamily) -> Path | None:
    """Return where the archive of a program is, or is to be; None if it has none."""
    words = family.file.program.command
    if words[:1] != ("{java}",):
        return None
    named = "\n".join((str(family.path.absolute()), *words))
    folder = user_cache() / "java-classes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}.jsa"


def _unfinished(archive: Path) -> Path:
    return archive.with_suffix(f".{os.getpid()}")
