"""The sinks and sources that a script defines itself: they run for real, with faults at each of their calls.

Rules:

- A sink runs for real if its class is the script's and derives from the interfaces alone (SinkFunction,
  TwoPhaseCommitSinkFunction, Sink and their like), and if nothing in it reaches further than files, SQLite
  and values of the program. A stand-in gets the same rows, so the computed results are judged in any case.
- Before and after a call a fault may kill the task. Any call may be refused, or answered with an error after
  it has taken place; so may what a sink calls in files and databases, where its own handling of errors runs.
- A source runs for real if its class is the script's, and two readers return the same records without
  waiting. Its positions are numbers of records to the harness, and its own to itself.
"""

from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.source import ForwardingReader, Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.protocol_points import ABORTED, ELEMENT, PRE_COMMITTED, RESTORING
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.user_file import modules_in
from onceproof.harness.scripts.outside import (
    ANSWERED,
    CallFault,
    Outside,
    is_entered,
    leave_out_frames,
    redirect_names,
)
from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.simulation.external_system import TransactionalSystem

_INTERFACES: Final = frozenset(
    {
        *("Function", "TypeParameters", "SinkFunction", "CheckpointedFunction", "CheckpointListener"),
        *("CommittingFunction", "TwoPhaseCommitSinkFunction", "GenericWriteAheadSink"),
        *("FlushedSinkFunction", "UpsertSinkFunction"),
        *("Sink", "SupportsCommitter", "SupportsWriterState", "Source"),
    }
)
_FAR: Final = frozenset(
    {
        *("asyncio", "ctypes", "email", "ftplib", "http", "imaplib", "multiprocessing", "poplib", "select"),
        *("selectors", "smtplib", "socket", "socketserver", "ssl", "subprocess", "telnetlib", "urllib"),
        *("webbrowser", "xmlrpc"),
    }
)
"""Modules of Python that reach other machines or start processes."""
_CONTAINERS: Final = (list, dict, set, deque)
_COMMITS: Final = ("commit", "recover_and_commit", "send_batch", "upsert")


class _Points(NamedTuple):
    """The protocol points at which a task can be killed around a call."""

    before: str | None
    after: str | None


_CALLS: Final[Mapping[str, _Points]] = {
    "initialize_state": _Points(None, RESTORING),
    "open": _Points(None, None),
    "invoke": _Points(None, ELEMENT),
    "write": _Points(None, ELEMENT),
    "begin_transaction": _Points(None, PRE_COMMITTED),
    "invoke_transaction": _Points(None, ELEMENT),
    "pre_commit": _Points(PRE_COMMITTED, None),
    "flush": _Points(None, PRE_COMMITTED),
    "prepare_commit": _Points(None, PRE_COMMITTED),
    "snapshot_state": _Points(None, PRE_COMMITTED),
    # The engine passes points around these.
    "commit": _Points(None, None),
    "recover_and_commit": _Points(None, None),
    "abort": _Points(ABORTED, None),
    "recover_and_abort": _Points(None, None),
    "abort_unknown": _Points(None, None),
    "send_batch": _Points(None, None),
    "upsert": _Points(None, None),
    "notify_checkpoint_complete": _Points(None, None),
    "notify_checkpoint_aborted": _Points(None, None),
    "finish": _Points(None, ELEMENT),
    "finish_processing": _Points(None, None),
    "close": _Points(ABORTED, None),
}


def is_of_script(kind: type, folder: Path) -> bool:
    """Return whether a class is the script's, and derives from interfaces of the engine alone.

    Args:
        folder: that of the script: modules in it belong to the script.
    """
    engines = [base for base in kind.__mro__ if base.__module__.startswith("onceproof.engine")]
    return _lies_in(kind.__module__, folder) and all(base.__name__ in _INTERFACES for base in engines)


def _lies_in(module_name: str, folder: Path) -> bool:
    return bool(modules_in((folder,), (module_name,)))


def far_module_of(end: Any, folder: Path) -> str:
    """Return a module by which a sink or source may reach more than the harness has; "": there is none.

    Args:
        folder: that of the script.
    """
    seen: set[int] = set()
    waiting: list[Any] = [end, *vars(end).values()]
    waiting = [each if isinstance(each, FunctionType | type) else type(each) for each in waiting]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if not isinstance(name, str):
            continue
        if not _lies_in(name, folder):
            top = name.partition(".")[0]
            if top in _FAR or (top not in sys.stdlib_module_names and top not in ("onceproof", "pyflink")):
                return top
            continue
        if isinstance(value, ModuleType):
            waiting += [each for each in vars(value).values() if getattr(each, "__module__", None) == name]
            continue
        for code, namespace in _codes_of(value):
            waiting += [namespace[each] for each in code.co_names if each in namespace]
            for step in dis.get_instructions(code):
                if step.opname == "IMPORT_NAME":
                    imported = str(step.argval)
                    waiting.append(sys.modules.get(imported) or ModuleType(imported))
    return ""


def _codes_of(value: Any) -> Iterator[tuple[CodeType, dict[str, Any]]]:
    """Yield the code of a function, or of the methods of a class, with its globals."""
    functions = [value]
    if isinstance(value, type):
        functions = [
            getattr(each, "__func__", getattr(each, "fget", each))
            for base in value.__mro__
            if base.__module__ == value.__module__
            for each in vars(base).values()
        ]
    waiting = [(each.__code__, each.__globals__) for each in functions if isinstance(each, FunctionType)]
    while waiting:
        code, namespace = waiting.pop()
        yield code, namespace
        waiting += [(each, namespace) for each in code.co_consts if isinstance(each, CodeType)]


# Sinks.


class WatchedSinks:
    """Lets the sinks of a script run in one attempt of the simulation.

    Args:
        outside: what they write to.
        system: the external system, which knows of the faults of commits.
        inside: containers that are no outside, as written: those of other operators, and buffers.
    """

    def __init__(self, outside: Outside, system: TransactionalSystem, inside: Container[str]) -> None:
        outside.has_sinks = True
        self._outside = outside
        self._system = system
        self._inside = inside

    def observe(self, name: str, sink: Any) -> None:
        """Watch the calls of a sink, and let the containers that it uses outlive the attempt."""
        kind = type(sink)
        redirect_names(vars(sys.modules[kind.__module__]))
        for shown, namespace, key in _containers_of(kind):
            if shown not in self._inside:
                self._outside.adopt(name, shown, namespace, key)
        if not isinstance(sink, Sink):
            self._watch(name, sink, None)
            return
        setattr(sink, "create_function", _WithoutTransactions(sink))  # noqa: B010
        for maker in ("create_writer", "restore_writer", "create_committer"):
            setattr(sink, maker, _Maker(self, name, sink, maker))

    def made(self, name: str, made: Any, context: Any) -> Any:
        """Watch a writer or committer."""
        self._watch(name, made, context.get_task_info())
        return made

    def within(self, name: str, attempt: str, function: Callable[..., Any], *values: Any) -> Any:
        """Call a method that makes a writer or committer."""
        self._outside.begin(attempt)
        with self._outside.entered(name):
            return function(*values)

    def _watch(self, name: str, target: Any, task: Any) -> None:
        kind = type(target)
        methods = {
            call: self._watched(name, call, getattr(kind, call), points, task)
            for call, points in _CALLS.items()
            if _defines(kind, call)
        }
        if task is None and "initialize_state" not in methods and "open" not in methods:
            methods["open"] = self._watched(name, "open", kind.open, _CALLS["open"], None)
        same = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        if hasattr(kind, "pending_transactions"):
            # Those of the harness are followed, which are in the history.
            methods["pending_transactions"] = lambda target: []
        metaclass: Any = type(kind)
        target.__class__ = metaclass(kind.__name__, (kind,), {**methods, **same})

    def _watched(
        self, name: str, call: str, method: Callable[..., Any], points: _Points, task: Any
    ) -> Callable[..., Any]:
        outside, system = self._outside, self._system
        commits = call in _COMMITS

        @wraps(method)
        def watched(target: Any, *values: Any, **named: Any) -> Any:
            context = task or target.get_runtime_context()
            outside.begin(context.get_attempt_id())
            if points.before is not None:
                context.probe(points.before, 0)
            # The outermost of calls that call each other is the one that fails.
            is_outermost = not is_entered()
            fault = system.commit_fault() if commits and is_outermost else None
            refuse(fault, f"a commit of {name} was refused", _ignore)
            failure = system.call_fault() if is_outermost and not commits else None
            if failure is not None and failure.means != ANSWERED:
                raise InjectedError(f"{call} of {name} failed")
            try:
                with outside.entered(name, system.call_fault):
                    result = method(target, *values, **named)
            except Exception as error:
                leave_out_frames(error)
                raise
            answer(fault, f"a commit of {name} timed out", _ignore)
            if failure is not None:
                raise InjectedError(f"{call} of {name} was answered with an error")
            if points.after is not None:
                context.probe(points.after, 0)
            return result

        return watched


class _Maker:
    """A method of a sink that makes a writer or a committer, which is watched then; copied with the sink."""

    def __init__(self, sinks: WatchedSinks, name: str, sink: Sink, maker: str) -> None:
        self._sinks, self._name, self._sink, self._maker = sinks, name, sink, maker

    def __deepcopy__(self, memo: object) -> _Maker:
        return self

    def __call__(self, context: Any, *values: Any) -> Any:
        method = partial(getattr(type(self._sink), self._maker), self._sink)
        attempt = context.get_task_info().get_attempt_id()
        made = self._sinks.within(self._name, attempt, method, context, *values)
        return self._sinks.made(self._name, made, context)


def containers_used(functions: Iterable[Any]) -> set[str]:
    """Return the names of the containers that functions use, or the classes of functions."""
    kinds = [each if isinstance(each, FunctionType) else type(each) for each in functions]
    return {name for kind in kinds for name, _, _ in _containers_of(kind)}


class _WithoutTransactions:
    """Makes the function of a sink, which lists no transactions: the history has those of the harness."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __deepcopy__(self, memo: object) -> _WithoutTransactions:
        return self

    def __call__(self) -> Any:
        function: Any = type(self._sink).create_function(self._sink)
        function.pending_transactions = list
        return function


def _ignore() -> None:
    """Leave the history alone: it knows no transactions of these sinks."""


def _defines(kind: type, call: str) -> bool:
    """Return whether the script defines a method of a class, or of one that it derives from."""
    home = next((base for base in kind.__mro__ if call in vars(base)), None)
    return home is not None and home.__module__ == kind.__module__


def _containers_of(value: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the containers that a class or function uses: as written, the module or class, and the name."""
    seen: set[str] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, type):
            for name, held in vars(each).items():
                if isinstance(held, _CONTAINERS) and not name.startswith("__"):
                    yield f"{each.__name__}.{name}", each, name
        for code, namespace in _codes_of(each):
            for name in code.co_names:
                if name in seen or name not in namespace:
                    continue
                seen.add(name)
                held = namespace[name]
                if isinstance(held, _CONTAINERS):
                    yield name, namespace, name
                elif isinstance(held, FunctionType | type) and held.__module__ == namespace["__name__"]:
                    waiting.append(held)


# Sources.


def own_records(source: Source, folder: Path, most: int) -> tuple[list[Record] | None, dict[str, int]]:
    """Return the records of a source of the script that can run for real, and how many each split has.

    Args:
        folder: that of the script.
        most: how many records of a split are read.

    Returns:
        None and no splits if it cannot.
    """
    if not is_of_script(type(source), folder) or far_module_of(source, folder):
        return None, {}
    read = _splits_read(source, most) or {}
    records = [record for own in read.values() for record in own]
    return (records, {split: len(own) for split, own in read.items()}) if records else (None, {})


def _splits_read(source: Source, most: int) -> dict[str, list[Record]] | None:
    """Return the first records of each split; None if the source waits, or reads other ones next time."""
    runs = []
    for _ in range(2):
        run: dict[str, list[Record]] = {}
        for split in sorted(source.splits()):
            reader = source.open_split(split, None)
            records = run.setdefault(split, [])
            while len(records) < most and not reader.exhausted:
                found = reader.read(most - len(records))
                if not found and not reader.exhausted:
                    return None
                records += found
            reader.close()
        runs.append(run)
    return runs[0] if repr(runs[0]) == repr(runs[1]) else None


class CountingReader(ForwardingReader):
    """Reads as many records by the script's own reader as the harness has; its position is how many.

    Args:
        inner: the reader of the harness, which knows what has arrived.
        source: the script's source.
        split: the name of the split in it.
        start: how many records were read before; None: none.
        positions: by split and number of records, the position of the script's reader.
        is_bounded: whether the split has an end in this scenario.
        call_fault: returns the fault of the next read, if any.
    """

    def __init__(
        self,
        inner: SplitReader,
        source: Source,
        split: str,
        start: int | None,
        positions: dict[tuple[str, int], Any],
        is_bounded: bool,
        call_fault: CallFault,
    ) -> None:
        super().__init__(inner)
        self._split, self._positions, self._is_bounded = split, positions, is_bounded
        self._count = start or 0
        self._call_fault = call_fault
        self._owed = 0
        """How many records have arrived that the script's reader has not handed out."""
        self._own = source.open_split(split, positions.get((split, self._count)) if start else None)

    def read(self, limit: int) -> list[Record]:
        """Return the script's next records."""
        if self._owed < limit:
            self._owed += len(self._reader.read(limit - self._owed))
        if not self._owed:
            return []
        failure = self._call_fault()
        if failure is not None and failure.means != ANSWERED:
            raise InjectedError(f"a read of split {self._split} failed")
        records = self._own.read(min(limit, self._owed))
        if failure is not None:
            raise InjectedError(f"a read of split {self._split} was answered with an error")
        self._owed -= len(records)
        self._count += len(records)
        return records

    @property
    def position(self) -> int:
        """How many records were read, of which the script's own position is remembered."""
        self._positions[self._split, self._count] = self._own.position
        return self._count

    @property
    def exhausted(self) -> bool:
        """Whether the script's reader has no more, or the scenario."""
        if self._own.exhausted and self._is_bounded:
            return True
        return self._reader.exhausted and not self._owed

    def close(self) -> None:
        """Close both readers."""
        self._own.close()
        super().close()
