"""What user functions keep outside Flink state: found, and carried over a restore.

The explanation of a failure runs a job under an ``OutsideState``. Other runs know nothing of it.

Rules:

- Watched are attributes of function objects, class attributes, globals that the functions use, cells of
  closures, and files that they write through ``open``. State handles of the engine are not: they are state.
- A value counts as changed if it differs from what it was at the end of ``open``.
- Each snapshot of an operator saves the values that are to be carried over. They are set to the saved value
  as soon as the operator is opened again from that checkpoint, or to the first value without a checkpoint.
  No other value is copied: a handle of state would bring the whole backend with it.
- The first run of a scenario takes the checkpoints that later ones restore or are compared with. What those
  save under the same numbers is theirs alone.
- A value that cannot be copied or compared is left alone.
- Files are written in a folder of the run, never where the job says. Only those beside the job's module are
  read where they are.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from itertools import count, cycle
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from types import CellType, CodeType, FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple
from weakref import finalize

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.owned import PLAIN
from onceproof.harness.model.history import History
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.simulation.world import World

Fingerprint = Any
"""Equal for equal values."""
MOST_LEVELS: Final = 8


class Place(NamedTuple):
    """Where a function keeps a value."""

    operator: str
    owner: str
    """The class or function that changes it."""
    name: str
    """As the user writes it: self.seen, Dedup.seen, SEEN."""


class _Slot(NamedTuple):
    """A place in a living function."""

    place: Place
    get: Callable[[], Any]
    put: Callable[[Any], None]
    is_shared: bool
    """Whether all subtasks and attempts have the same one."""


class _Opaque(Exception):
    """A value that cannot be compared."""


class _Subtask(NamedTuple):
    """One of the parallel instances of an operator."""

    operator: str
    number: int
    parallelism: int
    attempt: str
    """With the number of the run."""


class _Saved(NamedTuple):
    """What the subtasks kept in a place when a checkpoint was taken; checkpoint 0 is the beginning."""

    attempt: str
    parallelism: int
    values: dict[int, Any]
    common: Any
    """What each of them had at first: its first value, or what all subtasks of an earlier attempt had."""


class _Opened(NamedTuple):
    """An operator that was opened, with what its function keeps outside."""

    slots: tuple[_Slot, ...]
    first: dict[Place, Fingerprint]
    function: Any


class OutsideState:
    """Watches the functions of the user's modules in one run of a job.

    Args:
        modules: names of the user's modules.
        inputs: the folder whose files are read as they are.
        carried: places whose values survive a restore.
        is_traced: whether the user's module calls ``executed`` for each line.
        written: the files that the functions write; others are learnt when they are first written.
    """

    def __init__(
        self,
        modules: Collection[str],
        inputs: Path,
        carried: Collection[Place] = (),
        written: Mapping[str, Place] = MappingProxyType({}),
        *,
        is_traced: bool = False,
    ) -> None:
        self._modules = frozenset(modules)
        self._carried = frozenset(carried)
        self.is_traced = is_traced
        self._living: dict[tuple[str, int], _Opened] = {}
        self._saved: dict[tuple[int, Place], _Saved] = {}
        self._saved_first: dict[tuple[int, Place], _Saved] = {}
        """By the first run of a scenario."""
        self._runs = 0
        self._common: dict[Place, Any] = {}
        """What the subtasks of this attempt had at first."""
        self._returned: set[tuple[str, Place]] = set()
        """By attempt, the shared places that were set to their saved value."""
        self._folder = ""
        self._inputs = inputs
        self._numbers: dict[str, int] = {}
        self.files = dict(written)
        """By path, the files that the functions have written."""
        self._last = 0
        self.changed: dict[Place, int] = {}
        """The places that changed, each with the line that changed it first; 0 where it is not known."""
        self.lines: set[int] = set()
        """The lines of the user's that were executed."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the operators of the runs of one scenario, which are made inside the ``with`` block."""
        self._runs = 0
        self._saved = {(number, place): saved for (number, place), saved in self._saved.items() if not number}
        make, run = OperatorFactory.__call__, World.run

        def made(factory: OperatorFactory) -> Any:
            operator = make(factory)
            self._watch(operator)
            return operator

        def begun(world: World) -> History:
            self._begin_run()
            return run(world)

        with ExitStack() as stack:
            if self._carried or self.is_traced:
                stack.enter_context(replaced(OperatorFactory, "__call__", made))
                stack.enter_context(replaced(World, "run", begun))
            yield
        self._look()

    def _begin_run(self) -> None:
        self._look()
        self._living.clear()
        self._returned.clear()
        self._runs += 1
        if self._runs == 2:
            self._saved_first = self._saved
        if self._runs > 1:
            self._saved = dict(self._saved_first)

    def open(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        """Open a file for the user's module: an input where it is, any other in the folder of the run."""
        is_written = bool(set(mode) & _WRITING)
        if isinstance(file, int) or not (is_written or self._is_own(str(file))):
            return builtins.open(file, mode, *arguments, **options)
        path = str(file)
        if is_written:
            frame = sys._getframe(1)
            owner = type(frame.f_locals.get("self")).__name__
            place = self.files.setdefault(
                path, Place(self._operator_of(frame), owner, f"the file {Path(path).name!r}")
            )
            self.changed.setdefault(place, frame.f_lineno)
        return builtins.open(self._own_file(path), mode, *arguments, **options)

    def _is_own(self, path: str) -> bool:
        """Return whether a file is no input of the job; in the folder of a run it is missing at first."""
        return path in self.files or not Path(path).absolute().is_relative_to(self._inputs)

    def _own_file(self, path: str) -> Path:
        if not self._folder:
            self._folder = mkdtemp(prefix="onceproof-files-")
            finalize(self, rmtree, self._folder, ignore_errors=True)
        return Path(self._folder, f"{self._numbers.setdefault(path, len(self._numbers))}")

    def _operator_of(self, frame: FrameType) -> str:
        function = frame.f_locals.get("self")
        found = (key[0] for key, opened in self._living.items() if opened.function is function)
        return next(found, "")

    # Operators.

    def _watch(self, operator: Any) -> None:
        open_operator, snapshot = operator.open, operator.snapshot
        subtask: _Subtask

        def opened(context: Any) -> None:
            nonlocal subtask
            name = context.operator_name or context.task_name
            attempt = f"{self._runs}/{context.attempt}"
            subtask = _Subtask(name, context.subtask, context.parallelism, attempt)
            for slot in map(self._file_slot, self.files):
                if slot.place in self._carried:
                    self._carry(slot, subtask, context.restored_checkpoint_id)
            open_operator(context)
            self._opened(operator, subtask, context.restored_checkpoint_id)

        def taken(checkpoint_id: int, timestamp_ms: int) -> Any:
            result = snapshot(checkpoint_id, timestamp_ms)
            self._save(subtask, checkpoint_id)
            return result

        if hasattr(operator, "function"):
            operator.open, operator.snapshot = opened, taken

    def _opened(self, operator: Any, subtask: _Subtask, restored: int | None) -> None:
        slots = tuple(self._slots_of(operator.function, subtask.operator))
        carried = [slot for slot in slots if slot.place in self._carried]
        for slot in carried:
            if slot.is_shared and (0, slot.place) not in self._saved:
                self._keep(slot, subtask, 0)
        for slot in carried:
            self._carry(slot, subtask, restored)
        first = {slot.place: fingerprint for slot in slots for fingerprint in _fingerprints(slot)}
        self._living[subtask[:2]] = _Opened(slots, first, operator.function)

    def _carry(self, slot: _Slot, subtask: _Subtask, restored: int | None) -> None:
        if slot.is_shared:
            if (subtask.attempt, slot.place) in self._returned:
                return
            self._returned.add((subtask.attempt, slot.place))
        saved = self._saved.get((restored or 0, slot.place))
        if saved is None:
            self._common[slot.place] = _copy_of(slot)
            if slot.place in self.files.values():
                slot.put(None)
            return
        self._common[slot.place] = saved.common
        if slot.is_shared or saved.parallelism == subtask.parallelism:
            number = 0 if slot.is_shared else subtask.number
            if number in saved.values:
                slot.put(deepcopy(saved.values[number]))
            return
        # After a change of parallelism each subtask gets what all have, and the first one all lists.
        parts = list(saved.values.values())
        if parts and all(isinstance(part, list) for part in parts):
            if subtask.number == 0:
                slot.put(deepcopy([each for part in parts for each in part]))
        elif (merged := _merged(parts, saved.common)) is not None:
            self._common[slot.place] = merged
            slot.put(deepcopy(merged))

    def _save(self, subtask: _Subtask, checkpoint_id: int) -> None:
        opened = self._living.get(subtask[:2])
        if opened is None:
            return
        self._note_changes(opened)
        for slot in opened.slots:
            if slot.place in self._carried:
                self._keep(slot, subtask, checkpoint_id)
        for path, place in self.files.items():
            if place in self._carried and place.operator in ("", subtask.operator):
                self._keep(self._file_slot(path), subtask, checkpoint_id)

    def _keep(self, slot: _Slot, subtask: _Subtask, checkpoint_id: int) -> None:
        """Save a value. An id may be taken again after a restart; only the last attempt's values count."""
        saved = self._saved.get((checkpoint_id, slot.place))
        if saved is None or saved.attempt != subtask.attempt:
            saved = _Saved(subtask.attempt, subtask.parallelism, {}, self._common.get(slot.place))
            self._saved[checkpoint_id, slot.place] = saved
        value = _copy_of(slot)
        if value is not _MISSING:
            saved.values[0 if slot.is_shared else subtask.number] = value

    def _look(self) -> None:
        for opened in self._living.values():
            self._note_changes(opened)

    def _note_changes(self, opened: _Opened) -> None:
        for slot in opened.slots:
            first = opened.first.get(slot.place, _MISSING)
            if slot.place not in self.changed and any(each != first for each in _fingerprints(slot)):
                self.changed[slot.place] = self._last

    def _file_slot(self, path: str) -> _Slot:
        own = self._own_file(path)

        def get() -> bytes | None:
            return own.read_bytes() if own.exists() else None

        def put(content: bytes | None) -> None:
            if content is None:
                own.unlink(missing_ok=True)
            else:
                own.write_bytes(content)

        return _Slot(self.files[path], get, put, is_shared=True)

    # Places.

    def _slots_of(self, function: Any, operator: str) -> Iterator[_Slot]:
        seen: set[int] = set()
        for each in self._own_objects(function, seen):
            kind = type(each)
            # An attribute may appear later than in open: the class tells its names.
            for name in dict.fromkeys([*vars(each), *_assigned_in(kind)]):
                if name != "_runtime_context" and not isinstance(vars(each).get(name), FunctionType):
                    place = Place(operator, kind.__name__, f"self.{name}")
                    yield _slot_of(place, vars(each), name, False)
            functions: list[Any] = []
            for base in kind.__mro__:
                if base.__module__ in self._modules:
                    functions += [value for value in vars(base).values() if isinstance(value, FunctionType)]
                    yield from _class_slots(base, operator)
            yield from self._used_by(functions, operator, kind.__name__)
        plain = [value for value in vars(function).values() if isinstance(value, FunctionType)]
        plain = [value for value in plain if value.__module__ in self._modules]
        for value in plain:
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                place = Place(operator, value.__qualname__.partition(".")[0], name)
                yield _Slot(place, partial(_content, cell), partial(setattr, cell, "cell_contents"), True)
            yield from self._used_by([value], operator, value.__name__)

    def _own_objects(self, value: Any, seen: set[int], levels: int = 3) -> Iterator[Any]:
        """Yield the objects of the user's classes that a function consists of."""
        if id(value) in seen or not hasattr(value, "__dict__") or isinstance(value, type | ModuleType):
            return
        seen.add(id(value))
        if type(value).__module__ in self._modules:
            yield value
        if levels:
            for inner in list(vars(value).values()):
                if not isinstance(inner, FunctionType):
                    yield from self._own_objects(inner, seen, levels - 1)

    def _used_by(self, functions: list[Any], operator: str, owner: str) -> Iterator[_Slot]:
        """Yield the globals that functions use, and those of the functions that they call."""
        seen: set[str] = set()
        waiting = list(functions)
        while waiting:
            function = waiting.pop()
            namespace = function.__globals__
            for name in _names_in(function.__code__):
                value = namespace.get(name)
                if name in seen or name not in namespace:
                    continue
                seen.add(name)
                if isinstance(value, FunctionType):
                    if value.__module__ in self._modules:
                        waiting.append(value)
                elif isinstance(value, type):
                    if value.__module__ in self._modules:
                        yield from _class_slots(value, operator)
                elif not isinstance(value, ModuleType) and not name.startswith("__"):
                    yield _slot_of(Place(operator, owner, name), namespace, name, True)

    def executed(self, line: int) -> None:
        """Note that a line of the user's comes next: what has changed was changed by the last one."""
        for opened in self._living.values():
            self._note_changes(opened)
        self._last = line
        self.lines.add(line)


def _copy_of(slot: _Slot) -> Any:
    """Return a copy of the value in a place; one that cannot be copied counts as missing."""
    try:
        return deepcopy(slot.get())
    except Exception:
        return _MISSING


def _merged(parts: list[Any], common: Any) -> Any:
    """Return what all subtasks have together, each part as the one that changed it.

    None: several have changed it, or there is nothing that can be compared.

    Args:
        common: what each subtask had at first.
    """
    if parts and all(isinstance(part, set) for part in parts):
        before = common if isinstance(common, set) else set()
        gone = {each for part in parts for each in before - part}
        return deepcopy(set().union(*parts) - gone)
    if parts and all(isinstance(part, dict) for part in parts):
        return _merged_entries(parts, common if isinstance(common, dict) else {})
    try:
        before = _fingerprint(common, MOST_LEVELS)
        changed = [part for part in parts if _fingerprint(part, MOST_LEVELS) != before] or parts[:1]
    except (_Opaque, ValueError, AttributeError):
        return None
    return deepcopy(changed[0]) if len(changed) == 1 else None


def _merged_entries(parts: list[dict[Any, Any]], before: dict[Any, Any]) -> dict[Any, Any]:
    merged = dict(before)
    for part in parts:
        merged.update({key: value for key, value in part.items() if before.get(key, _MISSING) != value})
        for key in before.keys() - part.keys():
            merged.pop(key, None)
    return deepcopy(merged)


_MISSING: Final = object()
_WRITING: Final = frozenset("wax+")
"""Characters in the mode of a file that is written."""


def _slot_of(place: Place, namespace: dict[str, Any], name: str, is_shared: bool) -> _Slot:
    def put(value: Any) -> None:
        namespace[name] = value

    return _Slot(place, partial(namespace.__getitem__, name), put, is_shared)


def _class_slots(kind: type, operator: str) -> Iterator[_Slot]:
    for name, value in list(vars(kind).items()):
        if not (
            name.startswith("_abc") or name.startswith("__") or callable(value) or hasattr(value, "__get__")
        ):
            place = Place(operator, kind.__name__, f"{kind.__name__}.{name}")
            yield _Slot(place, partial(getattr, kind, name), partial(setattr, kind, name), True)


def _content(cell: CellType) -> Any:
    return cell.cell_contents


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _assigned_in(kind: type) -> Iterator[str]:
    """Yield the names that methods of a class mention as attributes: one of them may appear after open."""
    for base in kind.__mro__:
        for value in vars(base).values():
            if isinstance(value, FunctionType) and not base.__module__.startswith("onceproof.engine"):
                yield from (name for name in _names_in(value.__code__) if not hasattr(kind, name))


def _fingerprints(slot: _Slot) -> Iterator[Fingerprint]:
    """Yield the fingerprint of the value in a slot; none if there is no value, or none that is compared."""
    try:
        yield _fingerprint(slot.get(), MOST_LEVELS)
    except (_Opaque, KeyError, ValueError, AttributeError):
        return


def _fingerprint(value: Any, levels: int) -> Fingerprint:
    kind: Any = type(value)
    if kind in PLAIN:
        return kind.__name__, repr(sorted(map(repr, value)) if kind is frozenset else value)
    if not levels:
        raise _Opaque
    if isinstance(value, Mapping):
        return kind.__name__, [
            (_fingerprint(key, levels - 1), _fingerprint(each, levels - 1)) for key, each in value.items()
        ]
    if isinstance(value, set):
        return kind.__name__, sorted(repr(_fingerprint(each, levels - 1)) for each in value)
    if isinstance(value, list | tuple | deque):
        return kind.__name__, [_fingerprint(each, levels - 1) for each in value]
    if isinstance(value, count | cycle | bytearray):
        return kind.__name__, repr(value)
    if isinstance(value, Random):
        return kind.__name__, value.getstate()
    if kind.__module__.startswith("onceproof.") or not hasattr(value, "__dict__") or callable(value):
        raise _Opaque
    return kind.__name__, [(name, _fingerprint(each, levels - 1)) for name, each in vars(value).items()]
