"""What the sinks of a script write to in one run: files, databases of SQLite, values of the program, prints.

Rules:

- It outlives attempts, as the world outside of a job does. A sink reaches it in its own calls only, inside
  ``entered``; then the functions that open, move and delete files lead into a folder of the run. What the
  sink only reads, and has not written, is read where it is.
- Values are containers in globals and class attributes that only sinks use: what stands in for a server.
- A call to the system, or to a database, may fail by a fault, before or after it has taken place.
- A process that dies takes with it what a file has not flushed, and what a database has not committed.
- A row is a line of text, a row of a table, an entry of a container, or a printed line. Its first cell names
  the place. In names of files, what differs from run to run (numbers, random parts) is ``#``.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import finalize, ref
from zlib import crc32

from onceproof.harness.model.history import Row
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.scripts.rows import comparable
from onceproof.harness.systems.kit.sqlite_tables import SQLITE, tables_in

READ: Final[Row] = ("what the sinks have written was read",)
"""The row of a run whose sinks ran for real, beside what they have written."""
_FOLDER: Final = "onceproof-outside-"
_PLACE: Final = "written to "
_PRINTED: Final = "the output of print"
_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\btmp[a-z0-9_]{8}\b|[A-Za-z]*\d[A-Za-z0-9]*"
)
_WRITING: Final = frozenset("wax+")
_READS: Final = ("stat", "lstat", "listdir", "scandir", "access", "readlink")
_WRITES: Final = ("mkdir", "rmdir", "unlink", "remove", "chmod", "utime", "truncate")
_MOVES: Final = ("rename", "replace", "link", "symlink")
_OS: Final[Mapping[str, Callable[..., Any]]] = {
    name: getattr(os, name) for name in ("open", *_READS, *_WRITES, *_MOVES)
}
ANSWERED: Final = "answer"
"""The means of a failed call that has taken place."""
_OPEN: Final = builtins.open
_CONNECT: Final = sqlite3.connect


CallFault: TypeAlias = Callable[[], Fault | None]
_Error: TypeAlias = Callable[[Any], Exception]


class CallFailed(OSError, InjectedError):
    """A call to the system that a fault has answered with an error."""


class DatabaseAway(sqlite3.OperationalError, InjectedError):
    """A call to a database that a fault has answered with an error."""


def _no_fault() -> Fault | None:
    return None


def _failed(path: Any) -> Exception:
    return CallFailed(errno.EIO, os.strerror(errno.EIO), path)


def _away(path: Any) -> Exception:
    return DatabaseAway("disk I/O error")


class Written(NamedTuple):
    """A row that sinks have written."""

    sink: str
    row: Row
    """The place comes first."""


def is_entered() -> bool:
    """Return whether a sink runs."""
    return _running.outside is not None


def is_place(row: Row) -> bool:
    """Return whether a row is one that a sink has written for real."""
    return bool(row) and isinstance(row[0], str) and row[0].startswith(_PLACE)


def by_place(run: Counter[Row]) -> dict[str, Counter[Row]]:
    """Return the rows of a run by the place that sinks have written them to; "": what the job computes."""
    found: dict[str, Counter[Row]] = {"": Counter()}
    for row, count in run.items():
        if row != READ:
            found.setdefault(row[0] if is_place(row) else "", Counter())[row] = count
    return found


class Outside:
    """The world outside of the job, as far as the script's own sinks write to it."""

    def __init__(self) -> None:
        self._folder = ""
        self._owners: dict[str, str] = {}
        """By path as the sink names it, the sink that wrote it last."""
        self._values: dict[str, tuple[str, Any]] = {}
        """By name, the sink that uses a value, and the value."""
        self._printed: list[tuple[str, str]] = []
        self._console = _Console(self)
        self._held: list[Any] = []
        """Files and connections that sinks of this attempt have opened."""
        self._lost: list[Any] = []
        """Those of earlier attempts, of which one may live on without its job master."""
        self._attempt = ""
        self.has_sinks = False
        """Whether sinks run for real."""
        self._sink = ""
        """The sink that runs."""
        self.positions: dict[tuple[str, int], Any] = {}
        """By split and number of records, the position of a source that runs for real."""

    def copy(self) -> Outside:
        """Return the same world, which changes by itself from here on."""
        twin = Outside()
        twin._owners, twin._printed = dict(self._owners), list(self._printed)
        twin._values = deepcopy(self._values)
        twin.positions = dict(self.positions)
        if self._folder:
            copytree(self._folder, twin._root(), dirs_exist_ok=True)
        return twin

    def begin(self, attempt: str) -> None:
        """Note that the sinks of an attempt begin: what an earlier one has not flushed is lost."""
        if attempt == self._attempt:
            return
        self._attempt = attempt
        held, self._held = self._held, []
        self._lost += held
        for each in held:
            if isinstance(each, sqlite3.Connection):
                with suppress(sqlite3.Error):
                    each.rollback()
            elif not each.closed:
                with _OPEN(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), each.fileno())

    def close(self) -> None:
        """Close what sinks have left open when the run is over."""
        for each in (*self._lost, *self._held):
            each.close()

    def adopt(self, sink: str, name: str, namespace: Any, key: str) -> None:
        """Let a container of the program outlive attempts; ``namespace`` is a module's dict, or a class."""
        own = vars(namespace)[key] if isinstance(namespace, type) else namespace[key]
        _, value = self._values.setdefault(name, (sink, own))
        if isinstance(namespace, type):
            setattr(namespace, key, value)
        else:
            namespace[key] = value

    @contextmanager
    def entered(self, sink: str, call_fault: CallFault = _no_fault) -> Iterator[None]:
        """Lead what a sink writes in the block into the folder of the run.

        Args:
            call_fault: returns the fault of the next call to the system, if any.
        """
        if _running.outside is not None:
            yield
            return
        self._root()
        _running.outside, _running.call_fault, self._sink = self, call_fault, sink
        vars(os).update(_REDIRECTED)
        vars(builtins)["open"] = vars(io)["open"] = _open
        vars(sqlite3)["connect"] = _connect
        stdout, sys.stdout = sys.stdout, self._console
        try:
            yield
        finally:
            _running.outside, _running.call_fault = None, _no_fault
            sys.stdout = stdout
            vars(os).update(_OS)
            vars(builtins)["open"] = vars(io)["open"] = _OPEN
            vars(sqlite3)["connect"] = _CONNECT

    # Calls of a sink.

    def note_printed(self, text: str) -> None:
        """Note what a sink prints."""
        self._printed += [(self._sink, line) for line in text.splitlines()]

    def inside(self, path: Any, *, writes: bool) -> Any:
        """Return where a file of a sink is: in the folder of the run, unless it is only read."""
        if path is None or isinstance(path, int):
            return path
        text = os.path.abspath(os.fsdecode(path))
        root = self._root()
        if _FOLDER in text:
            # Of this run, or of an earlier one that is swept.
            return text
        within = root + text
        if not writes:
            return within if _exists(within) or not _exists(text) else text
        self._owners[text] = self._sink
        above = os.path.dirname(text)
        if _exists(above) and not _exists(root + above):
            self._make_folders(root + above)
        return within

    def hold(self, each: Any) -> Any:
        """Keep a file or connection, to end it with its attempt."""
        self._held.append(each)
        return each

    def _make_folders(self, path: str) -> None:
        if not _exists(path):
            self._make_folders(os.path.dirname(path))
            _OS["mkdir"](path)

    def _root(self) -> str:
        if not self._folder:
            self._folder = mkdtemp(prefix=_FOLDER)
            finalize(self, rmtree, self._folder, ignore_errors=True)
        return self._folder

    # What is there.

    def written(self) -> list[Written]:
        """Return what the sinks have written, in an order that does not depend on names."""
        for each in self._held:
            if not isinstance(each, sqlite3.Connection) and not each.closed:
                each.flush()
        found = [Written(sink, (f"{_PLACE}{_PRINTED}", line)) for sink, line in self._printed]
        for name, (sink, value) in self._values.items():
            found += [Written(sink, (f"{_PLACE}{name}", *cells)) for cells in _entries(value)]
        for path in sorted(Path(self._folder).rglob("*")) if self._folder else ():
            name = str(path).removeprefix(self._folder)
            # Others are of SQLite, beside its databases.
            if name in self._owners and path.is_file() and not path.is_symlink():
                place = f"{_PLACE}{_shown(name)}"
                found += [Written(self._owners[name], row) for row in _rows_in(path, place)]
        return sorted(found, key=repr)

    def owners(self) -> dict[str, str]:
        """Return the places with rows, and the sink that has written to each."""
        return {each.row[0]: each.sink for each in self.written()}

    def empty_containers(self) -> list[tuple[str, str]]:
        """Return the containers without entries: the name of each, and the sink that uses it."""
        return [(name, sink) for name, (sink, value) in self._values.items() if not value]

    def rows(self) -> list[Row]:
        """Return the same as rows of a history."""
        return [READ, *[each.row for each in self.written()]] if self.has_sinks else []


def printed(*values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, **_: Any) -> None:
    """Stand in for ``print`` in a script: what a sink prints is noted, and anything else dropped."""
    outside = _running.outside
    if outside is None:
        return
    text = (" " if sep is None else sep).join(map(str, values))
    if file not in (None, sys.stdout, sys.stderr):
        file.write(text + ("\n" if end is None else end))
    elif file is not sys.stderr:
        outside.note_printed(text)


def redirect_names(namespace: dict[str, Any]) -> None:
    """Let names of a module that were imported from ``os`` and the like lead into the folder of a run."""
    for name, value in list(namespace.items()):
        found = _BY_FUNCTION.get(value) if callable(value) and getattr(value, "__hash__", None) else None
        if found is not None:
            namespace[name] = found


def leave_out_frames(error: BaseException) -> None:
    """Let the traceback of an error end in the code of the sink that has called this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if trace.tb_frame.f_code.co_filename != __file__ == trace.tb_next.tb_frame.f_code.co_filename:
            trace.tb_next = None
        else:
            trace = trace.tb_next


class _Console(io.TextIOBase):
    """What sinks print by other ways than the name ``print`` of the script."""

    def __init__(self, outside: Outside) -> None:
        self._outside = ref(outside)
        self._line = ""

    def write(self, text: str) -> int:
        """Note the lines that are complete."""
        *lines, self._line = f"{self._line}{text}".split("\n")
        outside = self._outside()
        if outside is not None:
            for line in lines:
                outside.note_printed(line)
        return len(text)


class _Running:
    """What runs now."""

    outside: Outside | None = None
    """The world of the sink that runs; None: none does."""
    call_fault: CallFault = staticmethod(_no_fault)


_running: Final = _Running()


def _exists(path: str) -> bool:
    try:
        _OS["lstat"](path)
    except OSError:
        return False
    return True


def answered(function: Callable[..., Any], *values: Any, error: Exception, **named: Any) -> Any:
    """Call the outside, and raise an error if a fault says so: before the call, or after it."""
    fault = _running.call_fault()
    if fault is not None and fault.means != ANSWERED:
        raise error
    result = function(*values, **named)
    if fault is not None:
        # A file that was opened, or a cursor, which the caller does not get.
        if hasattr(result, "close"):
            result.close()
        raise error
    return result


def _called(
    function: Callable[..., Any],
    paths: tuple[Any, ...],
    writes: bool,
    rest: Any,
    named: Any,
    failure: _Error = _failed,
) -> Any:
    """Call a function with paths inside of the run; its errors name the paths of the sink."""
    outside = _running.outside
    if outside is None or "dir_fd" in named or "src_dir_fd" in named:
        return function(*paths, *rest, **named)
    places = [outside.inside(path, writes=writes) for path in paths]
    try:
        return answered(function, *places, *rest, error=failure(paths[0]), **named)
    except OSError as error:
        error.filename = paths[0]
        if len(paths) > 1:
            error.filename2 = paths[1]
        raise


def _reading(name: str) -> Callable[..., Any]:
    return lambda path=".", *rest, **named: _called(_OS[name], (path,), False, rest, named)


def _writing(name: str) -> Callable[..., Any]:
    return lambda path, *rest, **named: _called(_OS[name], (path,), True, rest, named)


def _moving(name: str) -> Callable[..., Any]:
    return lambda src, dst, *rest, **named: _called(_OS[name], (src, dst), True, rest, named)


def _os_open(path: Any, flags: int, *rest: Any, **named: Any) -> Any:
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return _called(_OS["open"], (path,), writes, (flags, *rest), named)


def _open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
    outside = _running.outside
    if outside is None:
        return _OPEN(file, mode, *rest, **named)
    writes = bool(set(mode) & _WRITING)
    if named.get("opener") is None:
        opened = _called(_OPEN, (file,), writes, (mode, *rest), named)
    else:
        opened = _OPEN(file, mode, *rest, **named)
    return outside.hold(opened) if writes else opened


def _connect(database: Any, *rest: Any, **named: Any) -> Any:
    outside = _running.outside
    if outside is None or (isinstance(database, str) and database.startswith((":", "file:"))):
        return _CONNECT(database, *rest, **named)
    # The tasks of a simulated process have one thread, so that none would ever end a lock.
    settings = {"timeout": 0.0, "factory": _Connection, **named}
    return outside.hold(_called(_CONNECT, (database,), True, rest, settings, _away))


class _Connection(sqlite3.Connection):
    """A connection whose calls may fail."""

    def execute(self, *values: Any) -> Any:
        return answered(super().execute, *values, error=_away(None))

    def executemany(self, *values: Any) -> Any:
        return answered(super().executemany, *values, error=_away(None))

    def commit(self) -> None:
        answered(super().commit, error=_away(None))


_REDIRECTED: Final[Mapping[str, Callable[..., Any]]] = {
    "open": _os_open,
    **{name: _reading(name) for name in _READS},
    **{name: _writing(name) for name in _WRITES},
    **{name: _moving(name) for name in _MOVES},
}
_BY_FUNCTION: Final[Mapping[Any, Callable[..., Any]]] = {
    **{_OS[name]: function for name, function in _REDIRECTED.items()},
    _OPEN: _open,
    _CONNECT: _connect,
}


def _shown(path: str) -> str:
    """Return a path as rows name it: below the current folder if it is there, and without random parts."""
    with suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    folder, name = os.path.split(path)
    return os.path.join(_RANDOM.sub("#", folder), _RANDOM.sub("#", name))


def _entries(value: Any) -> Iterator[Row]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(each, list | set | frozenset):
                yield from _entries(each)
            else:
                yield comparable(key), comparable(each)
        return
    for each in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
        cells = comparable(each)
        yield cells if isinstance(cells, tuple) else (cells,)


def _rows_in(path: Path, place: str) -> Iterator[Row]:
    content = path.read_bytes()
    if content.startswith(SQLITE):
        for table, rows in tables_in(path).items():
            for row in rows:
                yield (f"{place}, table {table}", *map(comparable, row))
        return
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        lines = [f"{len(content)} bytes, checksum {crc32(content):08x}"]
    for line in lines:
        yield place, line
