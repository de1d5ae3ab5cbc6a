"""Which subtasks run in which stage of an epoch's Spark job, and how records get from one to another.

The rules this module lives by:

- One stage for each level of the job graph, a partition for each subtask of the level's vertices; one shuffle
  between two stages, which carries all edges. A shuffle for each edge would make Spark run a vertex with two
  consumers twice, and its snapshots and transactions would exist twice.
- Whatever is for a later stage than the next, or for the driver, passes through the stages in between. Thus
  an acknowledgement arrives at the driver only with the data that went with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.messages import TaskId

DRIVER: Final = -1
"""The stage of what the driver shall get."""


class Place(NamedTuple):
    """Where a subtask runs: its stage, and its partition there."""

    stage: int
    partition: int


Parcel: TypeAlias = tuple[int, int, int, int, Any]
"""What travels: (stage, partition, channel, sequence, element). For the driver only the element counts."""


class Stages(Struct, frozen=True):
    """The stages of a job: the subtasks of each, by partition, and the place of each subtask."""

    tasks: tuple[tuple[TaskId, ...], ...]
    places: Mapping[TaskId, Place]


def stages_of(graph: JobGraph, layout: Layout) -> Stages:
    """The stages of an attempt over ``graph``."""
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
