"""The simulated checkpoint storage as an object store: what was given up may come later, or have taken place.

The rules this module lives by:

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from onceproof.engine.checkpoint import snapshot_files
from onceproof.engine.errors import Ending
from onceproof.engine.state.snapshot import EncodedSnapshot
from onceproof.engine.task.events import StoreSnapshot
from onceproof.harness.model.fault_kinds import FaultKind, Target
from onceproof.harness.model.faults import leaving_files
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda
from onceproof.harness.systems.simulation.clock import Clock
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage, StorageUnavailable
from onceproof.harness.systems.simulation.storage_on_disk import StorageOnDisk

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
        put()

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
