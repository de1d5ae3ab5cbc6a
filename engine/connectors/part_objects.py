"""Part files of the file sink in an object store: how one is named, written, shown and dropped.

The rules this module lives by:

- A part file is an upload in parts, begun with its first row. Its rows are stored while they are written, and
  no reader sees any of them before the upload is completed: that is the commit.
- A store takes parts from 5 MiB on, and a last one of any size. A file ends with each checkpoint at the
  latest, so no other part is small. (Flink's writer goes on with a file behind a checkpoint, and keeps what
  is too small for a part in an object of its own.)
- A checkpoint lists the id of the upload, the tags of its parts and a token, which the object has later. So
  any process can complete it, and tell that it was completed before from an object of another writer.
- A completion that fails is looked up: the object with the token is there, or the upload still waits, or the
  rows are lost. That is an error which names them, never silence.
- A name carries its mark whole: ``<prefix>-<owner>-<subtask>-<epoch>-<attempt>-<number><suffix>``. There are
  no hidden names, so prefixes and suffixes that look like a mark are refused. A sink drops only uploads with
  its own owner.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.part_files import FileSinkBroken, Mark, OutputFileConfig
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.locations import scheme_of
from onceproof.engine.object_calls import FoundObject, ObjectCalls
from onceproof.engine.owner_ids import OWNER_DIGITS
from onceproof.engine.state.file_envelope import is_plain_name

PART_BYTES: Final = 5 << 20
"""The smallest part that S3 takes, but for the last one."""
_LARGER_AFTER: Final = 1_000
"""After so many parts they become larger: a store takes 10,000 of them."""
LONGEST_KEY: Final = 1_024
"""In bytes, as in S3."""

_MARK: Final = rf"-([0-9a-f]{{{OWNER_DIGITS}}})-([0-9]{{1,9}})-([0-9]{{1,18}})-([0-9A-Za-z.]{{1,40}})-[0-9]+"
_NAME: Final = re.compile(rf"[^/]+?{_MARK}[^/]*", re.DOTALL)
_LIKE_A_MARK: Final = re.compile(rf"[0-9a-f]{{{OWNER_DIGITS}}}-[0-9]")

Upload = list[Any]
"""[id, token, tags of the parts so far], plain data for checkpoints."""


class WrongAddress(UnrecoverableError, ValueError):
    """The base path of a file sink is not an address that it can write to. The message is one line."""


class PartObjectLost(FileSinkBroken):
    """Neither a part file nor its upload exists. The message is one line."""


class ObjectFolder(NamedTuple):
    """The place of the part files: a bucket, and the beginning of the keys in it."""

    bucket: str
    prefix: str
    """"" or a text that ends with a slash."""

    def key_of(self, bucket: str, name: str) -> str:
        """Return the key of a part file in a bucket of the sink, "" being the base path."""
        return f"{self.prefix}{bucket}/{name}" if bucket else f"{self.prefix}{name}"


def object_folder(address: str) -> ObjectFolder:
    """Return the place that an address such as ``s3://bucket/words`` names. Raises WrongAddress."""
    bucket, _, path = address.partition("://")[2].partition("/")
    path = path.strip("/")
    if not scheme_of(address) or not bucket or "//" in path:
        raise WrongAddress(f"{address!r} is not a place for part files: write s3://BUCKET/FOLDER")
    return ObjectFolder(bucket, f"{path}/" if path else "")


def checked_affixes(config: OutputFileConfig) -> OutputFileConfig:
    """Return a configuration of names. Raises WrongAddress for one that looks like the mark of a sink."""
    for what, text in (("prefix", config.part_prefix), ("suffix", config.part_suffix)):
        if _LIKE_A_MARK.search(text):
            raise WrongAddress(
                f"part {what} {text!r} looks like the mark of a sink in a name: choose another one"
            )
    return config


def object_name(prefix: str, mark: Mark, number: int, suffix: str) -> str:
    """Return the name of a part file."""
    return f"{prefix}-{mark.owner}-{mark.subtask}-{mark.epoch}-{mark.attempt}-{number}{suffix}"


def mark_of_object(name: str) -> Mark | None:
    """Return the mark in the name of a part file; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else Mark(match[1], int(match[2]), int(match[3]), match[4])


class PartObject(NamedTuple):
    """A part file, as a checkpoint lists it."""

    name: str
    length: int
    """In bytes."""
    owner: str
    upload_id: str
    """"": nothing was written."""
    token: str
    tags: list[str]

    def commit(self, calls: ObjectCalls, key: str) -> None:
        """Make the file visible unless it is.

        Raises FileSinkBroken if its rows are lost or another object has its name; OSError if the store does
        not answer, also where the file may be visible by now.
        """
        try:
            calls.complete_upload(key, self.upload_id, self.tags)
        except OSError:
            found = calls.find(key)
            if found is None and calls.has_upload(key, self.upload_id):
                raise
            # Another process may have completed it between the two questions.
            self._check(found or calls.find(key), key)

    def _check(self, found: FoundObject | None, key: str) -> None:
        """Raise FileSinkBroken unless the object is this part file."""
        if found is None:
            raise PartObjectLost(
                f"transaction {self.name} is lost: neither the object {key} nor its upload exists, though a"
                f" checkpoint lists it with {self.length} bytes: it was aborted or deleted, or the"
                " bucket's rule for incomplete uploads is shorter than the job was down: restore the object"
                " from a copy, or start afresh; where a consumer removes objects, build the sink with"
                " with_consumed_objects()"
            )
        if found.token != self.token:
            raise FileSinkBroken(
                f"{key} exists already, but is not what transaction {self.name} wrote: move it away, and"
                " start the job again"
            )
        if found.length != self.length:
            raise FileSinkBroken(
                f"transaction {self.name} is damaged: {key} has {found.length} bytes, the checkpoint lists"
                f" {self.length}: restore it from a copy"
            )


def listed_object(name: object, length: object, address: object, upload: object) -> PartObject:
    """Return the part file that a checkpoint lists. Raises FileSinkBroken if no file sink has listed it."""
    foreign = "the checkpoint that lists it is not ours"
    mark = mark_of_object(name) if isinstance(name, str) and is_plain_name(name) else None
    if mark is None:
        raise FileSinkBroken(f"transaction {name!r} is not a name of a part file: {foreign}")
    if not isinstance(address, str) or not scheme_of(address):
        raise FileSinkBroken(f"transaction {name!r} cannot be at {address!r}: {foreign}")
    if type(length) is not int:
        raise FileSinkBroken(f"transaction {name!r} cannot have {length!r} bytes: {foreign}")
    match upload:
        case [str(upload_id), str(token), list(tags)] if all(isinstance(tag, str) for tag in tags):
            return PartObject(str(name), length, mark.owner, upload_id, token, tags)
    raise FileSinkBroken(f"transaction {name!r} cannot have the upload {upload!r}: {foreign}")


class PartObjectWriter:
    """Writes a part file into its upload, one part after the other."""

    __slots__ = ("_calls", "_chunks", "_gathered", "_key", "_part_bytes", "_upload", "_written")

    def __init__(self, calls: ObjectCalls, key: str, upload: Upload, part_bytes: int = PART_BYTES) -> None:
        self._calls = calls
        self._key = key
        self._upload = upload
        self._part_bytes = part_bytes
        self._chunks: list[bytes] = []
        self._gathered = 0
        self._written = 0

    def write(self, data: bytes) -> None:
        """Gather data, and store them when they are enough for a part."""
        self._chunks.append(data)
        self._gathered += len(data)
        if self._gathered >= self._part_bytes * (1 + len(self._upload[2]) // _LARGER_AFTER):
            self._store()

    @property
    def length(self) -> int:
        """The bytes that were given to it."""
        return self._written + self._gathered

    def finish(self) -> int:
        """Store the rest, and return the length in bytes."""
        if self._gathered:
            self._store()
        return self._written

    def close(self) -> None:
        """Forget what is gathered; the upload stays."""
        self._chunks.clear()

    def _store(self) -> None:
        upload_id, _, tags = self._upload
        tags.append(self._calls.put_part(self._key, upload_id, len(tags) + 1, b"".join(self._chunks)))
        self._written += self._gathered
        self._chunks.clear()
        self._gathered = 0
