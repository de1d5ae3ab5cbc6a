"""The requests to an object store with which the file sink writes, as one interface.

The rules this module lives by:

- An object in parts is invisible until its upload is completed, and then it is there whole. Nothing is ever
  renamed. An upload is known by its key and an id that the store gives.
- A request that fails may have been performed, and one that has had no answer may be performed later. So who
  completes an upload looks up what became of it.
- Every error is an OSError, whose ``strerror`` is one line.

A test records the requests through this interface, or lets the same sink run over a simulated store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class UploadMissing(OSError):
    """The store has no such upload: it was completed, aborted, or has expired."""


class ObjectInTheWay(OSError):
    """An upload is to be completed where there is an object already."""


class FoundObject(NamedTuple):
    """An object that readers see."""

    length: int
    """In bytes."""
    token: str | None
    """The token that its upload was begun with; None: the object has none."""


class FoundUpload(NamedTuple):
    """An upload that is neither completed nor aborted."""

    key: str
    upload_id: str


class ObjectCalls(Protocol):
    """The requests to one bucket. Each raises OSError."""

    def new_token(self) -> str:
        """Return a text that no other upload has."""
        ...

    def find(self, key: str) -> FoundObject | None:
        """Return the object under a key; None if readers see none."""
        ...

    def begin_upload(self, key: str, token: str) -> str:
        """Begin an upload, and return its id; the object will have the token."""
        ...

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Store a part of an upload, and return its tag. Numbers begin at 1; only the last part is small."""
        ...

    def complete_upload(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        """Show the object, made of the parts with these tags. Raises UploadMissing, ObjectInTheWay."""
        ...

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drop an upload and its parts; do nothing if there is none."""
        ...

    def has_upload(self, key: str, upload_id: str) -> bool:
        """Return whether an upload is neither completed nor aborted."""
        ...

    def uploads(self, prefix: str) -> Iterable[FoundUpload]:
        """Give the uploads whose keys begin with a prefix."""
        ...
