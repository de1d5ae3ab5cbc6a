"""From a graph to wired tasks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.engine import Types
from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.graph import (
    BROADCAST,
    FORWARD,
    GLOBAL,
    REBALANCE,
    RESCALE,
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorNode,
    Partitioner,
    PartitionerKind,
)
from onceproof.engine.job.channel_layout import layout_of, senders_of
from onceproof.engine.job.deployment import build_tasks
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.messages import AttemptId, TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.task import TaskSettings

SETTINGS = TaskSettings(AttemptId("1.1"), 1, lambda point, task, checkpoint_id: None, checkpointing=True)
HASH = Partitioner(PartitionerKind.HASH, lambda value: value, Types.STRING())


def graph_of(*vertices: tuple[str, int], edges: list[tuple[int, int, Partitioner]] = ()) -> JobGraph:  # type: ignore[assignment]
    """Vertices by name and parallelism; edges from one to another."""
    incoming: list[list[JobEdge]] = [[] for _ in vertices]
    outgoing: list[list[JobEdge]] = [[] for _ in vertices]
    for source, target, partitioner in edges:
        edge = JobEdge(source, target, partitioner, len(incoming[target]), len(outgoing[source]))
        incoming[target].append(edge)
        outgoing[source].append(edge)
    made = tuple(
        JobVertex(
            index,
            name,
            (OperatorNode(name, name, name, Operator),),
            parallelism,
            128,
            False,
            tuple(incoming[index]),
            tuple(outgoing[index]),
        )
        for index, (name, parallelism) in enumerate(vertices)
    )
    return JobGraph("job", "id", made, CheckpointSettings())


def receivers(graph: JobGraph, sender: TaskId) -> list[list[tuple[TaskId, int]]]:
    """For each output of a task: the (task, channel) behind each of its queues, in order."""
    tasks = build_tasks(graph, layout_of(graph), SETTINGS)
    owner = {
        id(queue): (task.id, channel) for task in tasks.values() for channel, queue in enumerate(task.queues)
    }
    return [[owner[id(queue)] for queue in output.queues] for output in tasks[sender].outputs]


# Channels.


@pytest.mark.parametrize("partitioner", [HASH, REBALANCE, BROADCAST, GLOBAL])
def test_every_sender_has_a_channel_to_every_receiver(partitioner):
    graph = graph_of(("a", 2), ("b", 3), edges=[(0, 1, partitioner)])
    for sender in range(2):
        assert receivers(graph, TaskId(0, sender)) == [[(TaskId(1, target), sender) for target in range(3)]]


def test_a_forward_edge_connects_equal_indexes():
    graph = graph_of(("a", 3), ("b", 3), edges=[(0, 1, FORWARD)])
    for subtask in range(3):
        assert receivers(graph, TaskId(0, subtask)) == [[(TaskId(1, subtask), 0)]]


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        (2, 4, [[0], [0], [1], [1]]),
        (2, 5, [[0], [0], [0], [1], [1]]),
        (3, 3, [[0], [1], [2]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1], [2, 3, 4]]),
        (5, 3, [[0], [1, 2], [3, 4]]),
        (1, 3, [[0], [0], [0]]),
        (3, 1, [[0, 1, 2]]),
    ],
)
def test_a_rescale_edge_connects_neighbours_as_in_flink(sources, targets, expected):
    graph = graph_of(("a", sources), ("b", targets), edges=[(0, 1, RESCALE)])
    assert [list(senders_of(RESCALE.kind, sources, targets, target)) for target in range(targets)] == expected
    for source in range(sources):
        ((*channels,),) = receivers(graph, TaskId(0, source))
        assert [task.subtask for task, _ in channels] == [
            target for target in range(targets) if source in expected[target]
        ]


def test_channels_are_numbered_by_edge_and_then_by_sender():
    graph = graph_of(("a", 2), ("b", 2), ("c", 2), edges=[(0, 2, HASH), (1, 2, FORWARD)])
    assert receivers(graph, TaskId(0, 1)) == [[(TaskId(2, 0), 1), (TaskId(2, 1), 1)]]
    assert receivers(graph, TaskId(1, 1)) == [[(TaskId(2, 1), 2)]]
    tasks = build_tasks(graph, layout_of(graph), SETTINGS)
    assert tasks[TaskId(2, 0)].queue_input == (0, 0, 0), "a union is one input"
    first, second = graph.vertices[2].inputs
    connected = replace(graph.vertices[2], inputs=(first, replace(second, input_number=1)))
    graph = replace(graph, vertices=(*graph.vertices[:2], connected))
    tasks = build_tasks(graph, layout_of(graph), SETTINGS)
    assert tasks[TaskId(2, 0)].queue_input == (0, 0, 1), "connected streams are two"


def test_two_edges_between_the_same_vertices_are_kept_apart():
    """A stream in union with itself."""
    graph = graph_of(("a", 1), ("b", 1), edges=[(0, 1, FORWARD), (0, 1, FORWARD)])
    assert receivers(graph, TaskId(0, 0)) == [[(TaskId(1, 0), 0)], [(TaskId(1, 0), 1)]]


def test_a_hash_edge_counts_in_the_key_groups_of_its_target():
    graph = graph_of(("a", 1), ("b", 4), edges=[(0, 1, HASH)])
    source, target = graph.vertices
    graph = replace(graph, vertices=(source, replace(target, max_parallelism=5)))
    tasks = build_tasks(graph, layout_of(graph), SETTINGS)
    words = [f"word {number}" for number in range(40)]
    tasks[TaskId(0, 0)].outputs[0].emit([(word, None) for word in words])
    for subtask in range(4):
        (queue,) = tasks[TaskId(1, subtask)].queues
        assert [value for buffer in queue for value, _ in buffer] == [
            word for word in words if operator_index(5, 4, key_group_of(word, 5, Types.STRING())) == subtask
        ]


def test_each_subtask_gets_operators_of_its_own():
    graph = graph_of(("a", 2), edges=[])
    tasks = build_tasks(graph, layout_of(graph), SETTINGS)
    assert list(tasks) == [TaskId(0, 0), TaskId(0, 1)]
    assert tasks[TaskId(0, 0)].operators[0] is not tasks[TaskId(0, 1)].operators[0]
    assert [task.name for task in tasks.values()] == ["a-0", "a-1"]


def test_the_layout_says_who_feeds_whom():
    graph = graph_of(("a", 2), ("b", 2), ("c", 1), edges=[(0, 1, FORWARD), (1, 2, HASH), (0, 2, REBALANCE)])
    a, b = [TaskId(0, 0), TaskId(0, 1)], [TaskId(1, 0), TaskId(1, 1)]
    assert layout_of(graph).upstreams == {
        a[0]: (),
        a[1]: (),
        b[0]: (a[0],),
        b[1]: (a[1],),
        TaskId(2, 0): (*b, *a),
    }
