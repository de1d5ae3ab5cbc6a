"""What the generator knows of a job before it draws faults and operations for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceproof.harness.model.family import Vertices
from onceproof.harness.model.fault_kinds import FaultKind

WRITE_AHEAD: Final = "write-ahead"
PART_FILES: Final = "part files"
OWN_CALLS: Final = "calls of the user's own"


@dataclass(slots=True)
class JobOutline:
    """The size of a job and estimates of its run, from which patterns draw tasks, checkpoints and delays."""

    tasks: tuple[str, ...]
    """All subtasks at the start."""
    sinks: tuple[str, ...]
    sources: int
    """How many subtasks of sources it has at the start."""
    records: int
    checkpoints: int
    """About how many checkpoints will complete."""
    checkpoint_steps: int
    """About how many steps a checkpoint takes, apart from the data in between."""
    interval: int
    restart_delay: int
    short_timeout: int
    """The steps after which a checkpoint expires, in scenarios with a short timeout."""
    max_parallelism: int
    kinds: frozenset[FaultKind] = frozenset()
    rescales: bool = False
    """Whether faults may bring the job back at another parallelism."""
    overtakes: bool = False
    """Whether barriers overtake records, which are then in flight."""
    unfit: frozenset[FaultKind] = frozenset()
    """The kinds of faults that the family's oracle does not allow for."""
    ends: frozenset[str] = frozenset()
    """What is at its ends, as far as faults are drawn for it: servers, and the kinds of sinks above."""


def writing_vertices(vertices: Vertices) -> list[str]:
    """Return the vertices that faults strike as sinks: those with that role, or else the last one.

    A sink that is chained to a keyed operator has the role of that operator, whose parallelism it takes.
    """
    return [name for name, role in vertices.items() if role == "sink"] or list(vertices)[-1:]
