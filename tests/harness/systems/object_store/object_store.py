"""An object store: what it promises, and what it does not.

The rules this module lives by (as in S3, Google Cloud Storage and Azure Blob Storage today):

- A put shows a whole object or none. One in parts is invisible until it is completed; a client that dies
  before leaves parts that no reader sees.
- A conditional put creates an object where there is none, and is refused otherwise.
- Reads and listings are strong: they show what was performed before them.
- The network promises nothing. A request may be performed twice, because a client repeats what has had no
  answer. It may fail for its client and be performed later, even after the client has died.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from onceproof.engine.runtime.storage import MissingFile, StorageError, check_inside
from onceproof.harness.model.injected_error import InjectedError

PART_BYTES: Final = 512
"""Larger objects are put in parts."""


class RequestLost(StorageError, InjectedError):
    """A request has had no answer; it may have been performed, or be performed later."""


@dataclass(slots=True)
class ObjectStore:
    """The objects by path, and the requests that are still on their way."""

    objects: dict[str, bytes] = field(default_factory=dict)
    on_the_way: list[Callable[[], object]] = field(default_factory=list)
    """Requests whose clients do not wait for them any more."""
    parts: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """By upload, the parts of objects that are not complete."""
    uploads: int = 0

    def put(self, path: str, data: bytes, *, is_exclusive: bool) -> bool:
        """Show an object; return False if the put is exclusive and there is one."""
        if is_exclusive and path in self.objects:
            return False
        self.objects[path] = data
        return True

    def delete(self, path: str) -> None:
        """Remove an object, if there is one."""
        self.objects.pop(path, None)

    def land_one(self, random: Random) -> None:
        """Perform one of the requests on their way; they keep no order."""
        if self.on_the_way:
            self.on_the_way.pop(random.randrange(len(self.on_the_way)))()


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """How often, from 0 to 1, a write is performed a second time later, or fails and is performed later."""

    repeated: float = 0.0
    late: float = 0.0


class StoreClient:
    """The checkpoint storage of one process over an object store.

    ``turn`` is called before each request and may pause or kill the process.
    """

    root = ""
    writes_may_be_late = True
    is_in_place = True

    def __init__(
        self, store: ObjectStore, turn: Callable[[str], None], random: Random, faults: NetworkFaults
    ) -> None:
        self._store = store
        self._turn = turn
        self._random = random
        self._faults = faults

    def write(self, path: str, data: bytes) -> None:
        """Put an object, in parts if it is large."""
        self._put(path, data, is_exclusive=False)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create an object; return False if it exists."""
        return self._put(path, data, is_exclusive=True)

    publish = write

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Put a local file."""
        self._put(path, Path(source).read_bytes(), is_exclusive=False)

    def read(self, path: str) -> bytes:
        """Return an object. Raises MissingFile."""
        self._turn(f"read {path}")
        if path not in self._store.objects:
            raise MissingFile(f"checkpoint file {path} cannot be read: it is not there")
        return self._store.objects[path]

    def list(self, prefix: str) -> list[str]:
        """Return the paths that begin with ``prefix``, sorted."""
        self._turn(f"list {prefix}")
        return sorted(path for path in self._store.objects if path.startswith(prefix))

    def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        self._turn(f"look for {path}")
        return path in self._store.objects

    def delete(self, path: str) -> None:
        """Delete an object."""
        check_inside(path, "the object store")
        self._turn(f"delete {path}")
        self._perform(f"delete {path}", lambda: self._store.delete(path))

    def make_durable(self, path: str) -> None:
        """Do nothing: an object that can be read is durable."""

    def place_of(self, path: str) -> str:
        """Return the path itself."""
        return path

    def exclusive(self) -> AbstractContextManager[None]:
        """Return an empty context: nothing keeps a second process out."""
        return nullcontext()

    def _put(self, path: str, data: bytes, *, is_exclusive: bool) -> bool:
        check_inside(path, "the object store")
        if len(data) > PART_BYTES:
            data = self._upload(path, data)
        self._turn(f"put {path}")
        put: bool = self._perform(
            f"put {path}", lambda: self._store.put(path, data, is_exclusive=is_exclusive)
        )
        return put

    def _upload(self, path: str, data: bytes) -> bytes:
        """Send the parts of an object; return what its completion shows."""
        store = self._store
        store.uploads += 1
        parts = store.parts[store.uploads] = {}
        for number, offset in enumerate(range(0, len(data), PART_BYTES)):
            self._turn(f"put part {number} of {path}")
            parts[number] = data[offset : offset + PART_BYTES]
        whole = b"".join(parts[number] for number in sorted(parts))
        del store.parts[store.uploads]
        return whole

    def _perform(self, what: str, request: Callable[[], bool | None]) -> bool:
        drawn = self._random.random()
        if drawn < self._faults.late:
            self._store.on_the_way.append(request)
            raise RequestLost(f"{what}: no answer")
        if drawn < self._faults.late + self._faults.repeated:
            self._store.on_the_way.append(request)
        return bool(request())
