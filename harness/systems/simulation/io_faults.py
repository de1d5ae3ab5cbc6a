"""What a fault does to a message or a write in the simulation: one function for each kind.

The rules this module lives by:

- A message or a write that no fault hits does not come here. A fault decides when it is performed, as far as
  it is: the message is put on the network now, later or never, the write is whole, torn or refused.
- Faults of commits are the same on every system (`commit_faults.py`), kills are in `fault_injection.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault


@dataclass(frozen=True, slots=True)
class Message:
    """What can become of a message that is about to be sent."""

    deliver: Callable[[int], None]
    """Puts a copy on the network, which may arrive once so many milliseconds have passed."""
    lose: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Write:
    """What can become of a write that has reached its turn."""

    store: Callable[[int], None]
    """Puts the whole file in place, and reports it to its writer after so many milliseconds."""
    tear: Callable[[], None]
    """Puts the first half of the file in place."""
    refuse: Callable[[], None]
    """Reports to the writer that the write has failed."""
    put_late: Callable[[int], None]
    """Performs the write after so many milliseconds, and before that reports to the writer a failure."""
    store_in_vain: Callable[[], None]
    """Puts the whole file in place, and reports to the writer a failure."""


def lose_message(message: Message, fault: Fault) -> None:
    """Never deliver the message."""
    message.lose()


def delay_message(message: Message, fault: Fault) -> None:
    """Put the message on the network when the fault's delay has passed."""
    message.deliver(fault.delay)


def duplicate_message(message: Message, fault: Fault) -> None:
    """Put the message on the network now, and a copy when the fault's delay has passed."""
    message.deliver(NOW)
    message.deliver(fault.delay)


def fail_write(write: Write, fault: Fault) -> None:
    """Store nothing, and report a failure."""
    write.refuse()


def tear_write(write: Write, fault: Fault) -> None:
    """Store half of the file, and report a failure."""
    write.tear()
    write.refuse()


def late_write(write: Write, fault: Fault) -> None:
    """Store the file, and report it when the fault's delay has passed."""
    write.store(fault.delay)


def late_put(write: Write, fault: Fault) -> None:
    """Have the put given up, and perform it when the fault's delay has passed, also under a later process."""
    write.put_late(fault.delay)


def write_error_after_success(write: Write, fault: Fault) -> None:
    """Store the file, and report a failure: its writer deletes what may be there."""
    write.store_in_vain()


NOW: Final = -1
"""The delay of a message that needs no timer."""
MESSAGE_METHODS: Final[Mapping[str, Callable[[Message, Fault], None]]] = {
    method.__name__: method for method in (lose_message, delay_message, duplicate_message)
}
"""By kind, as whose name it has, what carries a fault out."""
WRITE_METHODS: Final[Mapping[str, Callable[[Write, Fault], None]]] = {
    method.__name__: method
    for method in (fail_write, tear_write, late_write, late_put, write_error_after_success)
}


def is_stored(fault: Fault | None) -> bool:
    """Return whether the storage gets the whole file of a write that suffers a fault, or none."""
    return fault is None or FAULTS[fault.kind].takes_place
