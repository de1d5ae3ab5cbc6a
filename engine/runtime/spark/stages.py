"""Assigns the subtasks of a job to the stages of an epoch's Spark job.

The rules this module lives by:

- There is one stage for each level of the job graph, with a partition for each subtask of its vertices, and
  one shuffle between two stages, which carries all edges. With a shuffle for each edge, Spark would run a
  vertex with two consumers twice, with two snapshots and two transactions.
- A Spark task costs some 20 ms and more by itself. So a stage with many more subtasks than the cluster has
  cores has fewer partitions than subtasks, and each runs several of them, one after another.
- A parcel for a later stage than the next, or for the driver, passes through the stages in between. So an
  acknowledgement reaches the driver only together with the data of its epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.messages import TaskId

DRIVER: Final = -1
"""The stage number of parcels for the driver."""


SUBTASKS_PER_CORE: Final = 4
"""So many subtasks of a stage for each core have a Spark task each, which Spark spreads as it sees fit."""


class Place(NamedTuple):
    """Where a subtask runs: its stage, and its number there."""

    stage: int
    number: int


Parcel: TypeAlias = tuple[int, int, int, int, Any]
"""(stage, place, channel, sequence, element); in a parcel for the driver only the element matters."""


class Stages(Struct, frozen=True):
    """The stages of a job: their subtasks by number, and the place of each subtask."""

    tasks: tuple[tuple[TaskId, ...], ...]
    places: Mapping[TaskId, Place]


def stages_of(graph: JobGraph, layout: Layout) -> Stages:
    """Return the stages of an attempt of ``graph``."""
    levels: list[int] = []
    for vertex in graph.vertices:
        levels.append(1 + max([levels[edge.source] for edge in vertex.inputs], default=-1))
    stages: list[list[TaskId]] = [[] for _ in range(max(levels) + 1)]
    places: dict[TaskId, Place] = {}
    for task in layout.inputs:
        stage = levels[task.vertex]
        places[task] = Place(stage, len(stages[stage]))
        stages[stage].append(task)
    return Stages(tuple([tuple(tasks) for tasks in stages]), places)


def partitions_of(stages: Stages, cores: int) -> list[int]:
    """Return the number of partitions of each stage; subtask n of a stage runs in partition n modulo that."""
    counts = [len(tasks) for tasks in stages.tasks]
    return [count if count <= SUBTASKS_PER_CORE * cores else cores for count in counts]
