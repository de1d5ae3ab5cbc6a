"""From a checkpoint to what each subtask restores, at the max parallelism of its state."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine import MapFunction, PrintSinkFunction, StreamExecutionEnvironment, Types
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    handle_of,
)
from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.job.deployment import fit_max_parallelism, restore_events
from onceproof.engine.key_groups import key_group_of, key_group_range, operator_index
from onceproof.engine.messages import TaskId
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot, encode_task_snapshot
from onceproof.engine.state.stored import SnapshotIndex

COUNT = ValueStateDescriptor("count", Types.LONG())
KEYS = [f"key {number}" for number in range(300)]


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def counting_job(parallelism, max_parallelism=None, chained=True, another_source=False):
    """Words -> sum by word -> map -> files; the sum and what follows make one chain."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if max_parallelism is not None:
        env.set_max_parallelism(max_parallelism)
    words = env.from_collection([("a", 1)]).uid("words")
    if another_source:
        words = words.union(env.from_collection([("b", 1)]).uid("more words"))
    counted = words.key_by(lambda value: value[0], Types.STRING()).sum(1).uid("count")
    mapped = counted.map(Same()).uid("map")
    if not chained:
        mapped.start_new_chain()
    mapped.add_sink(PrintSinkFunction()).uid("print")
    return env.get_job_graph("words")


def counted_checkpoint(graph):
    """A checkpoint of that job with every key counted, and its files."""
    files: dict[str, bytes] = {}
    operators = []
    for vertex in graph.vertices:
        for node in vertex.operators:
            subtasks = []
            for subtask in range(vertex.parallelism):
                state = SubtaskState(None, False)
                if node.uid == "count":
                    groups = key_group_range(vertex.max_parallelism, vertex.parallelism, subtask)
                    backend = HashMapStateBackend(vertex.max_parallelism, groups, Types.STRING())
                    table = backend.table(COUNT)
                    for number, key in enumerate(KEYS):
                        group = key_group_of(key, vertex.max_parallelism, Types.STRING())
                        if operator_index(vertex.max_parallelism, vertex.parallelism, group) == subtask:
                            table[key] = number
                    path = f"chk-1/count-{subtask}"
                    snapshot = TaskSnapshot({node.operator_id: OperatorSnapshot(backend.snapshot(), None)})
                    encoded = encode_task_snapshot(snapshot)
                    files[path] = encoded.data
                    state = SubtaskState(handle_of(path, encoded), False)
                subtasks.append(state)
            operators.append(
                OperatorMetadata(
                    node.operator_id,
                    node.uid,
                    node.name,
                    vertex.parallelism,
                    vertex.max_parallelism,
                    tuple(subtasks),
                )
            )
    return CheckpointMetadata(1, "id", "words", 0, "checkpoint", "1.1", tuple(operators)), files


def restored_counts(graph, metadata, files):
    """What the subtasks of the sum would hold, by subtask, at the max parallelism of the restore."""
    graph = fit_max_parallelism(graph, metadata)
    events = restore_events(graph, layout_of(graph), metadata, files.__getitem__)
    (vertex,) = [each for each in graph.vertices if any(node.uid == "count" for node in each.operators)]
    (node,) = [node for node in vertex.operators if node.uid == "count"]
    tables = []
    for subtask in range(vertex.parallelism):
        groups = key_group_range(vertex.max_parallelism, vertex.parallelism, subtask)
        backend = HashMapStateBackend(vertex.max_parallelism, groups, Types.STRING())
        backend.restore(events[TaskId(vertex.index, subtask)].operators[node.operator_id].keyed)
        tables.append(backend.table(COUNT))
    return vertex, tables


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize(("before", "after"), [(1, 100), (100, 2), (2, 3), (90, 100)])
def test_every_key_is_restored_where_its_records_will_go(chained, before, after):
    """From 86 subtasks on the derived max parallelism is 256, and must give way to the 128 of the state."""
    metadata, files = counted_checkpoint(counting_job(before, chained=chained))
    vertex, tables = restored_counts(counting_job(after, chained=chained), metadata, files)
    assert vertex.max_parallelism == (128 if before < 86 else 256)
    for subtask, table in enumerate(tables):
        for key in table:
            group = key_group_of(key, vertex.max_parallelism, Types.STRING())
            assert operator_index(vertex.max_parallelism, vertex.parallelism, group) == subtask
    assert sorted(number for table in tables for number in table.values()) == list(range(len(KEYS)))


@pytest.mark.parametrize(("chained", "expected"), [(True, [256]), (False, [256, 128])])
def test_in_a_chain_the_first_state_decides(chained, expected):
    """The sink ran by itself before, at another max parallelism; only keyed state knows key groups."""
    graph = counting_job(100, chained=chained)
    metadata, _ = counted_checkpoint(graph)
    operators = list(metadata.operators)
    sink = operators.pop()
    assert sink.uid == "print"
    index = SnapshotIndex({}, {"state": ("SPLIT_DISTRIBUTE", 1)})
    state = SubtaskState(StateHandle("path", 1, "", {sink.operator_id: index}), False)
    operators.append(OperatorMetadata(sink.operator_id, "print", sink.name, 100, 128, (state,)))
    metadata = CheckpointMetadata(1, "id", "words", 0, "checkpoint", "1.1", tuple(operators))
    fitted = fit_max_parallelism(graph, metadata)
    assert [vertex.max_parallelism for vertex in fitted.vertices[1:]] == expected


def test_an_explicit_max_parallelism_does_not_give_way():
    metadata, _ = counted_checkpoint(counting_job(2, max_parallelism=64))
    with pytest.raises(RestoreRefused, match="its state has max parallelism 64, the job sets 128"):
        fit_max_parallelism(counting_job(2, max_parallelism=128), metadata)


def test_more_subtasks_than_key_groups_are_refused():
    metadata, _ = counted_checkpoint(counting_job(2, max_parallelism=4))
    with pytest.raises(RestoreRefused, match="parallelism 5 exceeds the max parallelism 4"):
        fit_max_parallelism(counting_job(5), metadata)


def test_without_a_checkpoint_everything_starts_afresh():
    graph = counting_job(2)
    assert fit_max_parallelism(graph, None) is graph
    events = restore_events(graph, layout_of(graph), None, {}.__getitem__)
    assert list(events) == [
        TaskId(vertex, subtask) for vertex, width in ((0, 1), (1, 2)) for subtask in range(width)
    ]
    assert all(event.checkpoint_id is None and event.operators == {} for event in events.values())


def test_operator_unknown_to_the_checkpoint_restores_as_new():
    """Unlike one that it knows, but whose subtask gets nothing."""
    metadata, files = counted_checkpoint(counting_job(1))
    graph = counting_job(2, another_source=True)
    events = restore_events(graph, layout_of(graph), metadata, files.__getitem__)
    for vertex in graph.vertices:
        for subtask in range(vertex.parallelism):
            event = events[TaskId(vertex.index, subtask)]
            assert event.checkpoint_id == 1
            for node in vertex.operators:
                assert (node.operator_id in event.operators) == (node.uid != "more words")


def test_state_of_an_operator_that_the_job_lacks_is_refused():
    metadata, files = counted_checkpoint(counting_job(1))
    graph = counting_job(1)
    fewer = JobGraph(graph.name, graph.job_id, graph.vertices[:1], graph.settings)
    with pytest.raises(RestoreRefused, match="has state of operator 'count', which the job lacks"):
        restore_events(fewer, layout_of(fewer), metadata, files.__getitem__)


def test_a_file_is_read_once_for_all_who_share_it():
    metadata, files = counted_checkpoint(counting_job(1))
    reads: list[str] = []

    def read(path):
        reads.append(path)
        return files[path]

    restore_events(counting_job(4), layout_of(counting_job(4)), metadata, read)
    assert reads == ["chk-1/count-0"]
