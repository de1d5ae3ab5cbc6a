"""Abstract states of the checkpoint protocol that a run was in, as numbers.

A search that keeps what reached something new needs to know what is new. Situations are few, and most are met
within some hundred scenarios. An abstract state is finer: which event of the protocol came, and what the job
was in at the time.

The rules this module lives by:

- A state is read off the visible events of a run, in one pass. It judges nothing.
- Each part of it is counted up to a small bound, so that the states of a family are some thousands, and a
  search can come to the end of them.
- A state is a whole number that follows from its parts alone: it is the same in every process and every
  version with the same ``STATES_VERSION``. A change of the parts raises that version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_DECLINED,
    CHECKPOINT_TRIGGERED,
    COMMIT_FAILED,
    FAULT_FIRED,
    JOB_FINISHED,
    JOB_STOPPED,
    SAVEPOINT_COMPLETED,
    STOP_FAILED,
    TRANSACTION_VISIBLE,
    WRITE_REFUSED,
    History,
)

STATES_VERSION: Final = 1

_EVENTS: Final[Mapping[str, int]] = {
    kind: number
    for number, kind in enumerate(
        (
            ATTEMPT_STARTED,
            FAULT_FIRED,
            CHECKPOINT_TRIGGERED,
            CHECKPOINT_COMPLETED,
            CHECKPOINT_ABORTED,
            CHECKPOINT_DECLINED,
            TRANSACTION_VISIBLE,
            COMMIT_FAILED,
            WRITE_REFUSED,
            SAVEPOINT_COMPLETED,
            JOB_STOPPED,
            STOP_FAILED,
            JOB_FINISHED,
        )
    )
}
_GROUPS: Final = (
    ("tasks",),
    ("process", "master"),
    ("message",),
    ("write", "read", "deletion"),
    ("commit", "abort"),
    ("clock",),
)
"""What a fault strikes, in groups that bring a job into similar trouble."""
_FAULTS: Final[Mapping[str, int]] = {
    kind: 1 + next((place for place, group in enumerate(_GROUPS) if row.strikes in group), len(_GROUPS))
    for kind, row in FAULTS.items()
}
_RADIXES: Final = (len(_EVENTS), len(_GROUPS) + 2, 3, 3, 3, 3, 3, 3, 2)
STATES: Final = 13 * 8 * 3**6 * 2
"""Above every state."""


def protocol_states_of(history: History) -> frozenset[int]:
    """Return the abstract states that a run was in."""
    found = set()
    attempts = completed = restored = rescaled = fault = trouble = parallelism = 0
    restored_from: int | None = None
    pending: set[Any] = set()
    prepared: set[str] = set()
    listed = 0
    for _, kind, subject, payload in history.events:
        event = _EVENTS.get(kind)
        if event is None:
            continue
        if kind == TRANSACTION_VISIBLE:
            if subject not in prepared:
                continue
            prepared.discard(subject)
        elif kind == CHECKPOINT_TRIGGERED:
            pending.add(subject)
        elif kind == CHECKPOINT_COMPLETED:
            pending.discard(subject)
            completed += 1
            prepared.update(payload["transactions"])
            listed = len(prepared)
        elif kind == CHECKPOINT_ABORTED:
            pending.discard(subject)
            trouble = 1
        elif kind == FAULT_FIRED:
            fault = _FAULTS[subject]
        elif kind == ATTEMPT_STARTED:
            attempts += 1
            source = payload["restored"]
            restored = 0 if source is None else 2 if source == restored_from else 1
            restored_from = source
            before, parallelism = parallelism, payload["parallelism"]
            rescaled = 0 if before in (0, parallelism) else 1 if parallelism < before else 2
            completed = fault = trouble = 0
            pending.clear()
        elif kind in _TROUBLES:
            trouble = 1
        left = 0 if not prepared else 2 if len(prepared) == listed else 1
        number = 0
        for radix, part in zip(
            _RADIXES,
            (
                event,
                fault,
                min(attempts, 3) - 1 if attempts else 0,
                min(len(pending), 2),
                min(completed, 2),
                left,
                restored,
                rescaled,
                trouble,
            ),
            strict=True,
        ):
            number = number * radix + part
        found.add(number)
    return frozenset(found)


_TROUBLES: Final = frozenset((CHECKPOINT_DECLINED, COMMIT_FAILED, WRITE_REFUSED, STOP_FAILED))
