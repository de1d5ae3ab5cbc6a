"""The simulated checkpoint storages: a disk that loses power, an object store whose writes come late.

Rules:

- Only a scenario with one of these faults has an object store. The engine learns of it from
  ``writes_may_be_late``, and tells the processes of the job apart by names and records
  (engine/runtime/checkpoint_history.py).
- The writer of a late put waits for half of the time, and then gives it up: to it, the put has failed. It may
  die while it waits; then no process declares the put void.
- A late put is performed whatever has become of its writer: the task, the attempt, the job master or the
  process may have died, and the job may have ended.
- A deletion that is late has failed to the one who asked for it, at once, and is performed later.
- A put that took place may be answered with an error, too. Its writer deletes what may be there, as every
  driver does; such a deletion can be late as well.
- Reads and listings are strong. An object is there whole or not at all: of one that was put in parts, and was
  not completed, no reader sees anything.
- Several processes that ask at the same time are on trial in ``systems/object_store``: here one lives.
- Only a scenario with a power cut has a disk, because its calls cost more than a dict. Everywhere else a file
  is durable as it is written.
- A power cut keeps what the engine has synced, and draws what else survives: of file contents, of names, of
  deletions (`disk/volatile_disk.py`). The draws follow from the scenario alone.
- A call of the storage is a step: the power is cut between two calls, not in the middle of one. Cuts between
  any two calls of the operating system are those of real files (`tests/harness/systems/local/power_cuts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Final

from onceproof.engine.checkpoint import snapshot_files
from onceproof.engine.errors import Ending
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MissingFile
from onceproof.engine.state.snapshot import EncodedSnapshot
from onceproof.engine.task.events import StoreSnapshot
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.fault_kinds import FaultKind, Target
from onceproof.harness.model.faults import leaving_files
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.simulated_storage import (
    SimulatedStorage,
    StorageUnavailable,
    no_fault,
)
from onceproof.harness.systems.volatile_disk import PowerCut, VolatileDisk

ROOT: Final = "/simulated-disk"
"""There is no such folder: no call reaches the machine."""


class StorageOnDisk(SimulatedStorage):
    """Files in the folder of a disk with a volatile cache."""

    __slots__ = ("_disk", "_power_cuts", "_seed", "_storage")

    def __init__(self, seed: int, clock: Clock) -> None:
        self.fault_of = no_fault
        self._clock = clock
        self._listed_until = {}
        self._disk = VolatileDisk(ROOT)
        self._storage = LocalCheckpointStorage(ROOT, calls=self._disk)
        self._seed = seed
        self._power_cuts = 0
        self.undeleted = set()

    @property
    def files(self) -> dict[str, bytes]:  # type: ignore[override]
        """All files as processes see them, by path."""
        return {path: content for path, content in self._disk.live().items() if content is not None}

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises as SimulatedStorage does."""
        self._suffer("read", path)
        try:
            return self._storage.read(path)
        except MissingFile:
            raise self._missing(path) from None

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, and sync it."""
        self._storage.write(path, data)

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store the local file ``source``; link ``earlier`` if it is stored there."""
        self._storage.adopt(path, source, earlier)

    def tear(self, path: str, data: bytes) -> None:
        """Store the first half of a file, as a crash in the middle of a write does."""
        self._storage.write(path, data[: len(data) // 2])

    def paths(self, prefix: str) -> list[str]:
        """Return all paths that begin with ``prefix``, sorted, whatever fault there is."""
        return self._storage.list(prefix)

    def delete(self, path: str) -> None:
        """Delete a file, without a sync; do nothing if it does not exist. Raises StorageUnavailable."""
        self._suffer("deletion", path)
        self._storage.delete(path)

    def exists(self, path: str) -> bool:
        return self._storage.exists(path)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file, atomically, and sync it. Return False if it exists already."""
        return self._storage.create_exclusive(path, data)

    def make_durable(self, path: str) -> None:
        """Sync the name of a file, which a dead process may not have done."""
        self._storage.make_durable(path)

    def lose_power(self) -> None:
        """Become the disk as it is found after a power cut."""
        self._power_cuts += 1
        before = self.files.keys()
        self._disk.lose_power(PowerCut(Random(derived_seed("power cut", self._seed, self._power_cuts))))
        self.undeleted |= self.files.keys() - before


LATE_PUT: Final[FaultKind] = "late_put"
LATE_DELETE: Final[FaultKind] = "late_delete"
WRITE_ERROR: Final[FaultKind] = "write_error_after_success"
LATE_PUTS: Final = tuple(each for each in leaving_files("write") if each[0] == LATE_PUT)
"""Faults after which files may appear that nothing lists, until a later start of the job."""

_STORE: Final = CLASS_INDEX["store"]


class NoAnswerYet(Ending):
    """The put is on its way, and its writer waits for the answer; no handler of the engine stops it."""


class LatePutStorage(SimulatedStorage):
    """Objects by path, and the puts that have had no answer and are still to be performed."""

    __slots__ = ("_agenda", "_on_the_way", "answers_with_an_error", "delay", "is_given_up")
    writes_may_be_late = True

    def __init__(self, clock: Clock, agenda: Agenda) -> None:
        super().__init__(clock)
        self._agenda = agenda
        self.delay = 0
        """After how many milliseconds the next put is performed; 0: it is performed at once."""
        self.is_given_up = False
        """Whether the writer of the next put has waited for its answer for too long."""
        self.answers_with_an_error = False
        """Whether the next put takes place, and its writer hears that it has failed."""
        self._on_the_way: list[Callable[[], object]] = []

    def write(self, path: str, data: bytes) -> None:
        """Put an object. Raises NoAnswerYet, and StorageUnavailable once the writer has waited."""
        self._put(path, lambda: SimulatedStorage.write(self, path, data))

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Put an object where there is none. Raises as ``write`` does."""
        return bool(self._put(path, lambda: SimulatedStorage.create_exclusive(self, path, data)))

    def tear(self, path: str, data: bytes) -> None:
        """Show nothing: only some parts of the object were put."""

    def _put(self, path: str, put: Callable[[], object]) -> object:
        if self.is_given_up:
            self.is_given_up = False
            raise StorageUnavailable(f"the put of {path!r} has no answer")
        if self.answers_with_an_error:
            self.answers_with_an_error = False
            put()
            raise StorageUnavailable(f"the put of {path!r} was answered with an error")
        if not self.delay:
            return put()
        self._perform_later(self.delay, f"late put {path}", put)
        self.delay = 0
        raise NoAnswerYet

    def _perform_later(self, delay: int, label: str, perform: Callable[[], object]) -> None:
        self._on_the_way.append(perform)
        self._agenda.add_later(self._clock.now + delay, _STORE, label, self._perform, perform)

    def _suffer(self, what: Target, path: str) -> Fault | None:
        # What a writer asks before its put it has asked already.
        if self.is_given_up:
            return None
        fault = super()._suffer(what, path)
        if fault is not None and fault.kind == LATE_DELETE:
            self._perform_later(fault.delay, f"late deletion {path}", lambda: self._delete_late(path))
            raise StorageUnavailable(f"the deletion of {path!r} has no answer")
        return fault

    def _delete_late(self, path: str) -> None:
        # A process that has begun meanwhile may have listed it, and is to be given the answer for that.
        if self.files.pop(path, None) is not None:
            self._listed_until[path] = self._clock.now

    def _perform(self, put: Callable[[], object]) -> None:
        self._on_the_way.remove(put)
        before = set(self.files)
        put()
        self.undeleted |= self.files.keys() - before

    def perform_all(self) -> None:
        """Perform what is still on its way when the job is over."""
        for put in tuple(self._on_the_way):
            self._perform(put)


def storage_for(scenario: Scenario, clock: Clock, agenda: Agenda) -> SimulatedStorage:
    """Return the storage of a scenario: an object store if a call is late, a disk if the power is cut."""
    kinds = {fault.kind for fault in scenario.faults}
    if not kinds.isdisjoint((LATE_PUT, LATE_DELETE, WRITE_ERROR)):
        return LatePutStorage(clock, agenda)
    if "power_cut" in kinds:
        return StorageOnDisk(scenario.schedule.seed, clock)
    return SimulatedStorage(clock)


def put_late(storage: SimulatedStorage, delay: int, perform: Callable[[], object]) -> bool:
    """Do what puts an object, and have the put performed ``delay`` milliseconds later.

    Returns whether the put is on its way; False where ``perform`` has put nothing.
    """
    assert isinstance(storage, LatePutStorage)
    storage.delay = delay
    try:
        perform()
    except NoAnswerYet:
        return True
    finally:
        storage.delay = 0
    return False


def store_in_vain(storage: SimulatedStorage, effect: StoreSnapshot, encoded: EncodedSnapshot) -> None:
    """Store a snapshot whose last put is answered with an error, and delete it as each driver then does."""
    assert isinstance(storage, LatePutStorage)
    storage.answers_with_an_error = True
    with suppress(StorageUnavailable):
        snapshot_files.store_encoded(storage, effect.path, encoded)
    snapshot_files.delete_unstored(storage, effect.path, effect.snapshot)


@contextmanager
def put_is_given_up(storage: SimulatedStorage) -> Iterator[None]:
    """Let the writer of a late put, which comes as far as the put once more, hear that there is no answer."""
    assert isinstance(storage, LatePutStorage)
    storage.is_given_up = True
    try:
        yield
    finally:
        storage.is_given_up = False


def given_up_after(delay: int) -> int:
    """Return for how many milliseconds the writer of a late put waits for its answer."""
    return 1 + delay // 2
