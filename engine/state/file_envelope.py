"""The envelope of files with state, checked before anything in it is read, and their names.

Rules:

- The header holds a magic (the kind of file), a format version, the length of the body, and its SHA-256.
- A file that fails a check is a DamagedFile: one line that names the file, what is wrong, and the mend.
- The body of a damaged file is never interpreted.
- A checkpoint may be damaged or forged, so a name in it proves nothing. A plain name is one entry of a
  folder; a path is plain names with ``/`` between them, relative to the folder of its checkpoint or job.
- Neither can leave its folder: no separator or ``..`` in a name, no NUL, nothing that the file system would
  refuse or read differently.
- Symbolic links are the storage's to refuse, because only it sees the disk.
"""

from __future__ import annotations

import re
import struct
from hashlib import sha256
from typing import Final

from onceproof.engine.errors import UnrecoverableError

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


SNAPSHOT_MAGIC = b"\x89OPSTATE"
METADATA_MAGIC = b"\x89OPMETA\n"
CHANNELS_MAGIC = b"\x89OPFLOW\n"
FORMAT_VERSION = 2
"""Version 2 stores a keyed table in columns, version 1 (up to release 0.2) in pairs: see ``stored``."""

_HEADER = struct.Struct(">8sHQ32s")
HEADER_BYTES = _HEADER.size
_NAMES = {
    SNAPSHOT_MAGIC: "state file",
    METADATA_MAGIC: "checkpoint metadata file",
    CHANNELS_MAGIC: "part with records in flight",
}
_OTHER_COPY = "restore an older checkpoint or another copy of this one"


class StateError(UnrecoverableError):
    """The job uses state in a way that is not possible. The message is one line."""


class PickleRefused(StateError):
    """A checkpoint holds pickled state, and the job does not allow reading it."""


def pickle_refused(what: str) -> PickleRefused:
    """Return the error that ``what`` holds a pickle, which is run only where the job allows it."""
    return PickleRefused(
        f"{what} holds pickled objects, and reading pickle runs code: "
        "set pipeline.allow-pickled-state to true if you trust the checkpoint"
    )


class DamagedFile(StateError):
    """A file of a checkpoint cannot be read: its ``path``, ``what`` is wrong, and how to ``mend`` it."""

    def __init__(self, path: str, what: str, mend: str = _OTHER_COPY) -> None:
        self.path = path
        self.what = what
        self.mend = mend
        super().__init__(f"{path}: {what}: {mend}")

    def __reduce__(self) -> tuple[type[DamagedFile], tuple[str, str, str]]:
        return type(self), (self.path, self.what, self.mend)


def seal(magic: bytes, body: bytes) -> tuple[bytes, str]:
    """Return the file for a body, and its checksum in hex."""
    digest = _digest(FORMAT_VERSION, body)
    return _HEADER.pack(magic, FORMAT_VERSION, len(body), digest) + body, digest.hex()


def _digest(version: int, body: bytes | memoryview) -> bytes:
    """Return the checksum of a body; from version 2 on it covers the version, which says how to read it."""
    digest = sha256(b"" if version == 1 else b"%d" % version)
    digest.update(body)
    return digest.digest()


def first_part(data: bytes) -> bytes:
    """Return the state part of a file, without the records in flight that may follow it."""
    if len(data) > HEADER_BYTES:
        end = HEADER_BYTES + int(_HEADER.unpack_from(data)[2])
        if data[end : end + len(CHANNELS_MAGIC)] == CHANNELS_MAGIC:
            return data[:end]
    return data


def format_version(data: bytes) -> int:
    """Return the format version of a file that ``unseal`` has checked."""
    return int(_HEADER.unpack_from(data)[1])


def unseal(magic: bytes, data: bytes, path: str) -> tuple[memoryview, str]:
    """Check the envelope, and return the body and its checksum in hex.

    ``path`` names the file in the error. Raises DamagedFile.
    """
    if len(data) < HEADER_BYTES:
        if magic.startswith(data[:8]) or data[:8] == magic:
            raise DamagedFile(path, f"truncated: {len(data)} bytes do not hold even the header")
        raise DamagedFile(path, f"no {_NAMES[magic]} of onceproof", "check the path")
    found, version, length, checksum = _HEADER.unpack_from(data)
    if found != magic:
        if found in _NAMES:
            raise DamagedFile(path, f"a {_NAMES[found]} where a {_NAMES[magic]} is due", "check the path")
        raise DamagedFile(path, f"no {_NAMES[magic]} of onceproof, or its first bytes are damaged")
    if version > FORMAT_VERSION:
        raise DamagedFile(
            path,
            f"format version {version} is newer than {FORMAT_VERSION}, the last that this onceproof reads",
            "update onceproof (or, if it is new enough, restore another checkpoint: the file is damaged)",
        )
    if version < 1:
        raise DamagedFile(path, f"format version {version} never existed: the file is damaged")
    body = memoryview(data)[HEADER_BYTES:]
    if len(body) != length:
        kind = "truncated" if len(body) < length else "overlong"
        raise DamagedFile(path, f"{kind}: {len(body)} bytes follow the header where {length} should")
    digest = _digest(version, body)
    if digest != checksum:
        raise DamagedFile(path, "damaged: its content does not match its checksum")
    return body, digest.hex()
