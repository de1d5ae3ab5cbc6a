"""Where the REST API of a running job is, and its token: a file in the job's checkpoint folder.

The rules this module lives by:

- Only the owner can read the file (mode 0600): who has the token can end the job.
- It stands beside the requests of commands, so it is deleted when a later process of the job begins.
- A note may be left by a job that was killed, or forged. Only a loopback or named http address is followed,
  by the commands of the file's own user.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from onceproof.engine.runtime.request_folder import FOLDER

FILE: Final = "rest.json"
MOST_BYTES: Final = 1 << 14
_OWNER_ONLY: Final = 0o600


class RestNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of a job's REST API, its token, and the process that serves the job."""

    url: str
    token: str
    process: int


_DECODER: Final = msgspec.json.Decoder(RestNote)


def note_path(root: Path) -> Path:
    """Return where the note of the job with this checkpoint folder is."""
    return root / FOLDER / FILE


def write_note(path: Path, note: RestNote) -> None:
    """Write the note for its owner only. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f".{FILE}")
    with suppress(FileNotFoundError):
        hidden.unlink()
    # Exclusively, so that a link in the folder leads nowhere, and no other process has the file open.
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(note))
    os.replace(hidden, path)


def read_note(root: Path) -> RestNote | None:
    """Return the note of a job; None: it offers no REST API, or the note cannot be read by this user."""
    try:
        descriptor = os.open(note_path(root), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            return _DECODER.decode(file.read(MOST_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
