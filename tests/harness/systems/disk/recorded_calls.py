"""Records the file calls of a process, and replays them on a volatile disk, up to any call.

The rules this module lives by:

- Every change that the engine makes through its file calls is one entry, in the order in which the changes
  took place. Reads are not recorded.
- An entry is written to the log before the process does anything else, so a log is whole when the process is
  killed. The processes of a job write one log after another into the same file.
- A sync carries its call site, so that a replay can leave all syncs of one site out: the engine without it.
- A recorded sync is not performed: a kill loses nothing of what the operating system has in its cache.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import currentframe
from typing import Any, Final

import msgspec

from onceproof.engine import durable_files
from onceproof.engine.file_calls import SystemFileCalls
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.volatile_disk import VolatileDisk

MARK: Final = "mark"
START: Final = "start"
PUBLISH: Final = "publish"
"""From here on readers of a database see what was committed."""
_CHANGES: Final = ("rename", "link", "unlink", "mkdir", "rmdir")
_LENGTH_BYTES: Final = 4
_SYNCING: Final = frozenset({"sync_folder", "sync_file", "_sync"})
"""The functions of durable_files that do nothing but sync: the site is the function that calls them."""


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One change, or a mark: what the process had reported by then."""

    method: str
    path: str = ""
    other: str = ""
    """The target of a rename or link; the text of a mark; the call site of a sync."""
    descriptor: int = 0
    flags: int = 0
    """Of ``open``; of ``write_at`` the offset, of ``truncate`` the size."""
    data: bytes = b""


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(Call)


class CallLog:
    """The log of a process.

    With ``dies_after`` the process kills itself after so many calls, with ``dies_at`` after the first call of
    that method, such as ``rename``, whose path or target has that ending.
    """

    def __init__(
        self, path: str, root: str, dies_after: int = 0, dies_at: tuple[str, str] = ("", "")
    ) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._root = f"{root}/"
        self._left = dies_after
        self._dies_at = dies_at
        self.lock = threading.RLock()
        """Held during each change, so that the order of the log is that of the changes."""
        self._known: set[int] = set()
        """The descriptors of files and folders below the root."""
        self.write(Call(START))

    def write(self, call: Call) -> None:
        """Append an entry."""
        with self.lock:
            data = _ENCODE(call)
            os.write(self._descriptor, len(data).to_bytes(_LENGTH_BYTES) + data)
            self._left -= 1
            method, ending = self._dies_at
            if self._left == 0 or (call.method == method and (call.other or call.path).endswith(ending)):
                os.kill(os.getpid(), signal.SIGKILL)

    def mark(self, text: str) -> None:
        """Note what the process has reported to its user."""
        self.write(Call(MARK, other=text))

    def holds(self, path: str) -> bool:
        """Return whether a path is below the root, or the root itself."""
        return f"{path}/".startswith(self._root)

    def opened(self, path: str, flags: int, descriptor: int) -> None:
        """Enter an open file or folder."""
        if self.holds(path):
            self._known.add(descriptor)
            self.write(Call("open", path, descriptor=descriptor, flags=flags))

    def changed(
        self, descriptor: int, method: str, flags: int = 0, data: bytes = b"", site: str = ""
    ) -> None:
        """Enter a change of what a descriptor stands for."""
        if descriptor in self._known:
            self.write(Call(method, other=site, descriptor=descriptor, flags=flags, data=data))
            if method == "close":
                self._known.discard(descriptor)

    def removed(self, path: str) -> None:
        """Enter the removal of a file's name."""
        if self.holds(path):
            self.write(Call("unlink", path))

    def folder_synced(self, path: str, site: str, descriptor: int) -> None:
        """Enter the sync of the folder of a file, by a descriptor that stands for nothing else."""
        if self.holds(path):
            self.opened(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY, descriptor)
            self.changed(descriptor, "fsync", site=site)
            self.changed(descriptor, "close")


@contextmanager
def recorded(log: CallLog) -> Iterator[None]:
    """Record the file calls that the engine makes in this process."""
    system = SystemFileCalls()
    plain = {name: getattr(SystemFileCalls, name) for name in ("open", "write", "close", *_CHANGES)}

    def open_(self: Any, path: str, flags: int) -> int:
        with log.lock:
            descriptor: int = plain["open"](system, path, flags)
            log.opened(os.path.abspath(path), flags, descriptor)
        return descriptor

    def write(self: Any, descriptor: int, data: bytes | memoryview) -> int:
        with log.lock:
            count: int = plain["write"](system, descriptor, data)
            log.changed(descriptor, "write", data=bytes(data[:count]))
        return count

    def fsync(self: Any, descriptor: int) -> None:
        with log.lock:
            log.changed(descriptor, "fsync", site=call_site())

    def close(self: Any, descriptor: int) -> None:
        with log.lock:
            log.changed(descriptor, "close")
            plain["close"](system, descriptor)

    with ExitStack() as stack:
        for name, method in (("open", open_), ("write", write), ("fsync", fsync), ("close", close)):
            stack.enter_context(replaced(SystemFileCalls, name, method))
        for name in _CHANGES:
            stack.enter_context(replaced(SystemFileCalls, name, _recorder(log, name, plain[name])))
        yield


@contextmanager
def unsynced() -> Iterator[None]:
    """Let the engine sync nothing: for a process during which the power is not cut."""

    def nothing(self: Any, descriptor: int) -> None:
        pass

    with replaced(SystemFileCalls, "fsync", nothing):
        yield


def _recorder(log: CallLog, name: str, plain: Callable[..., None]) -> Callable[..., None]:
    def change(self: Any, path: str, *others: str) -> None:
        with log.lock:
            plain(self, path, *others)
            places = [os.path.abspath(each) for each in (path, *others)]
            if not log.holds(places[-1]):
                return
            if name == "link" and not log.holds(places[0]):
                # The file of another disk: here its content is new and not synced.
                with open(path, "rb") as file:
                    log.write(Call("adopt", places[1], data=file.read()))
            else:
                log.write(Call(name, places[0], places[1] if others else ""))

    return change


def call_site() -> str:
    """Return the function that asked for the sync, and the one outside of durable_files that called it."""
    frame = currentframe()
    # Above this function stands the recording call.
    frame = frame and frame.f_back and frame.f_back.f_back
    functions: list[str] = []
    while frame is not None:
        functions.append(frame.f_code.co_qualname)
        if frame.f_code.co_filename != durable_files.__file__:
            break
        frame = frame.f_back
    kind = "folder" if "sync_folder" in functions else "file"
    inner = next(name for name in functions if name not in _SYNCING)
    return f"{kind} in {inner}" if inner == functions[-1] else f"{kind} in {inner} for {functions[-1]}"


def read_log(path: str) -> list[Call]:
    """Return the entries of a log."""
    calls: list[Call] = []
    with open(path, "rb") as file:
        while head := file.read(_LENGTH_BYTES):
            calls.append(_DECODER.decode(file.read(int.from_bytes(head))))
    return calls


class Replay:
    """Performs the calls of a log on a volatile disk; ``without`` are call sites whose syncs are left out."""

    def __init__(self, calls: Sequence[Call], root: str, without: Collection[str] = ()) -> None:
        self.disk = VolatileDisk(root)
        self.marks: list[str] = []
        """The marks that were passed."""
        self.processes = 0
        """How many processes have started."""
        self.published = 0
        """The number of the last call after which readers of a database may have seen more."""
        self._calls = calls
        self._without = without
        self._done = 0
        self._descriptors: dict[int, int] = {}

    def run_to(self, count: int) -> None:
        """Perform the calls up to number ``count``."""
        for call in self._calls[self._done : count]:
            self._done += 1
            self._perform(call)

    def _perform(self, call: Call) -> None:
        disk, descriptors = self.disk, self._descriptors
        match call.method:
            case "start":
                self.processes += 1
                descriptors.clear()
            case "mark":
                self.marks.append(call.other)
            case "publish":
                self.published = self._done
            case "open":
                descriptors[call.descriptor] = disk.open(call.path, call.flags)
            case "write":
                disk.write(descriptors[call.descriptor], call.data)
            case "write_at":
                disk.write_at(descriptors[call.descriptor], call.flags, call.data)
            case "truncate":
                disk.truncate(descriptors[call.descriptor], call.flags)
            case "fsync":
                if call.other not in self._without:
                    disk.fsync(descriptors[call.descriptor])
            case "close":
                disk.close(descriptors.pop(call.descriptor))
            case "adopt":
                descriptor = disk.open(call.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                disk.write(descriptor, call.data)
                disk.close(descriptor)
            case "rename":
                disk.rename(call.path, call.other)
            case "link":
                disk.link(call.path, call.other)
            case "unlink":
                disk.unlink(call.path)
            case "mkdir":
                disk.mkdir(call.path)
            case "rmdir":
                disk.rmdir(call.path)
            case _:
                raise ValueError(f"call {call.method} is unknown: the log is of another version")
