"""Names and paths that a file of a checkpoint gives, checked before any other file is touched.

The rules this module lives by:

- A checkpoint may be damaged or forged, so a name in it proves nothing. A plain name is one entry of a
  folder; a path is plain names with ``/`` between them, relative to the folder of its checkpoint or job.
- Neither can leave its folder: no separator or ``..`` in a name, no NUL, nothing that the file system would
  refuse or read differently.
- Symbolic links are the storage's to refuse, because only it sees the disk.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 255
"""The bytes that file systems allow in a name."""
LARGEST_NUMBER: Final = 1 << 63
"""Numbers in files are below it: ids, lengths and counts fit 64 bits with a sign."""
_DATABASE_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NAMES_OF_THE_BINDING: Final = frozenset(("rocksdict-config.json",))
"""Read by the binding when it opens a database, and able to change how values are decoded."""


def is_plain_name(name: str) -> bool:
    """Return whether a name denotes one entry of a folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def leads_out(path: str) -> bool:
    """Return whether a path is not a valid path within a folder."""
    return not all(map(is_plain_name, path.split("/")))


def is_database_file(name: str) -> bool:
    """Return whether a name may be that of a file of a stored database."""
    return _DATABASE_FILE.fullmatch(name) is not None and name not in _NAMES_OF_THE_BINDING
