"""The families in files that have passed the short check, so that a run checks each version of a file once.

The rules this module lives by:

- A note is a file below the folder of the project, named by a digest of the family's path. It holds a digest
  of the source, so any change of the file is checked again. Modules that the file imports are not part of it.
- A note is only compared, never interpreted. A damaged one, or one that cannot be written, costs a check.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from onceproof.harness.generation.generator import GENERATION
from onceproof.harness.model.family import Family, source_file

FOLDER: Final = Path(".onceproof", "checked")
IGNORED: Final = "*\n"
_SIZE: Final = 32
_CHECK: Final = 2
"""Raised whenever the short check looks for more."""


def is_known_sound(family: Family, folder: Path = FOLDER) -> bool:
    """Return whether this version of a family has passed the short check."""
    place, digest = _note_of(family, folder)
    if place is None:
        return False
    try:
        with place.open("rb") as note:
            return note.read(_SIZE + 1) == digest
    except OSError:
        return False


def note_sound(family: Family, folder: Path = FOLDER) -> None:
    """Note that this version of a family has passed the short check."""
    place, digest = _note_of(family, folder)
    if place is None:
        return
    # Where nothing can be written, as in a read-only checkout, the next run checks again.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        place.write_bytes(digest)
        with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write(IGNORED)


def _note_of(family: Family, folder: Path) -> tuple[Path | None, bytes]:
    """Return the file of a family's note and what it holds; no file for a family without a source."""
    path = source_file(family)
    if path is None:
        return None, b""
    try:
        source = Path(path).read_bytes()
    except OSError:
        return None, b""
    address = f"{Path(path).resolve()}:{family.name}"
    name = blake2b(address.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return folder / name, blake2b(source, digest_size=_SIZE, salt=f"{GENERATION}/{_CHECK}".encode()).digest()
