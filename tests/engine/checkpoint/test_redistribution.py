"""Redistribution: nothing of a checkpoint is lost, doubled or misplaced at any parallelism."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, SubtaskState, handle_of
from onceproof.engine.checkpoint.redistribution import (
    RestoreRefused,
    Vertex,
    deal_out,
    effective_max_parallelism,
    read_assignment,
    redistribute,
)
from onceproof.engine.key_groups import key_group_of, key_group_range, operator_index
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.state.snapshot import encode_task_snapshot as encode
from onceproof.engine.state.stored import BROADCAST, SPLIT_DISTRIBUTE, UNION
from onceproof.engine.types import Types

KEYS = [f"key-{number}" for number in range(60)]
COUNT = ValueStateDescriptor("count", Types.LONG())
SPLIT = ListStateDescriptor("split")
ALL = ListStateDescriptor("all")


class Job:
    """A checkpoint of one operator with keyed, split and union state, its files in a dict."""

    def __init__(self, parallelism, max_parallelism=128, finished=()):
        self.files = {}
        subtasks = []
        for subtask in range(parallelism):
            backend = HashMapStateBackend(
                max_parallelism, key_group_range(max_parallelism, parallelism, subtask)
            )
            table = backend.table(COUNT)
            for number, key in enumerate(KEYS):
                if (
                    operator_index(max_parallelism, parallelism, key_group_of(key, max_parallelism, None))
                    == subtask
                ):
                    table[key] = number
            store = OperatorStateStore()
            store.get_list_state(SPLIT).update([(subtask, place) for place in range(subtask + 1)])
            store.get_union_list_state(ALL).update([subtask])
            encoded = encode(TaskSnapshot({"op": OperatorSnapshot(backend.snapshot(), store.snapshot())}))
            path = f"chk-1/op-{subtask}"
            self.files[path] = encoded.data
            subtasks.append(SubtaskState(handle_of(path, encoded), subtask in finished))
        operator = OperatorMetadata("op", "counter", "Count", parallelism, max_parallelism, tuple(subtasks))
        self.metadata = CheckpointMetadata(1, "j", "job", 0, "checkpoint", "1.1", (operator,))

    def restore(self, parallelism, max_parallelism=128):
        """Restore everything at another parallelism: (keyed, split, union) by subtask."""
        assignments = redistribute(self.metadata, [Vertex("op", parallelism, max_parallelism, False)])
        effective = effective_max_parallelism(self.metadata, [("op", parallelism, max_parallelism, False)])[
            "op"
        ]
        result = []
        for subtask in range(parallelism):
            state = read_assignment(assignments["op", subtask], self.files.__getitem__)
            backend = HashMapStateBackend(effective, key_group_range(effective, parallelism, subtask))
            backend.restore(state.keyed)
            store = OperatorStateStore()
            store.restore(state.operator)
            result.append(
                (
                    backend.table(COUNT),
                    store.get_list_state(SPLIT).get(),
                    store.get_union_list_state(ALL).get(),
                )
            )
        return result


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.sampled_from([7, 10, 128]))
def test_everything_is_restored_once_and_by_its_owner(old, new, max_parallelism):
    restored = Job(old, max_parallelism).restore(new)
    together = {}
    for subtask, (table, _, _) in enumerate(restored):
        for key, number in table.items():
            assert operator_index(max_parallelism, new, key_group_of(key, max_parallelism, None)) == subtask
            assert key not in together
            together[key] = number
    assert together == {key: number for number, key in enumerate(KEYS)}
    elements = [element for _, split, _ in restored for element in split]
    assert sorted(elements) == [(subtask, place) for subtask in range(old) for place in range(subtask + 1)]
    assert all(union == list(range(old)) for _, _, union in restored)


def test_same_parallelism_leaves_split_state_where_it_was():
    restored = Job(3).restore(3)
    assert [split for _, split, _ in restored] == [
        [(0, 0)],
        [(1, 0), (1, 1)],
        [(2, 0), (2, 1), (2, 2)],
    ]


STATES = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(
        st.sampled_from([SPLIT_DISTRIBUTE, UNION]), st.lists(st.integers(0, 5), min_size=1, max_size=5)
    ),
    min_size=1,
)


@settings(max_examples=300, deadline=None)
@given(STATES, st.integers(1, 5), st.integers(1, 6))
def test_elements_are_dealt_out_once_evenly_and_in_order(states, old, new):
    given_states = [
        (name, mode, list(enumerate(counts[:old]))) for name, (mode, counts) in sorted(states.items())
    ]
    dealt = deal_out(given_states, list(range(old)), old, new)
    for name, mode, counts in given_states:
        whole = [(place, element) for place, count in counts for element in range(count)]
        shares = [
            [(place, element) for place, elements in share.get(name, (mode, []))[1] for element in elements]
            for share in dealt
        ]
        if mode == UNION:
            assert all(share == whole for share in shares)
            continue
        assert sorted(element for share in shares for element in share) == whole
        assert all(share == sorted(share) for share in shares)
        if old != new:
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_odd_elements_of_several_states_do_not_pile_up_on_the_first_subtask():
    states = [(name, SPLIT_DISTRIBUTE, [(0, 1)]) for name in "abc"]
    dealt = deal_out(states, [0], 1, 3)
    assert [list(share) for share in dealt] == [["a"], ["b"], ["c"]]


def test_broadcast_copy_goes_to_all_subtasks_also_where_only_some_reported():
    dealt = deal_out([("b", BROADCAST, [(0, 1), (1, 1)])], [0, 2], 3, 3)
    assert dealt[0]["b"] == (BROADCAST, [(0, range(1))])
    assert dealt[1]["b"] == (BROADCAST, [(1, range(1))])
    assert (0, range(1)) in dealt[2]["b"][1]
    dealt = deal_out([("b", BROADCAST, [(0, 2), (1, 2)])], [0, 1], 2, 5)
    assert [share["b"][1][0][0] for share in dealt] == [0, 1, 0, 1, 0]


def test_operator_is_finished_only_when_all_its_subtasks_were():
    def is_finished(job):
        return redistribute(job.metadata, [("op", 1, 128, False)])["op", 0].finished

    assert is_finished(Job(2, finished=(0, 1)))
    assert not is_finished(Job(2, finished=(0,)))


def test_new_operator_starts_empty_and_knows_that_a_checkpoint_is_restored():
    assignments = redistribute(Job(1).metadata, [("op", 1, 128, False), ("new", 2, 128, False)])
    assert assignments["new", 1].restored
    assert not assignments["new", 1].keyed
    assert not assignments["new", 1].operator
    assert not assignments["new", 1].finished


def test_finished_subtask_without_a_file_contributes_nothing():
    job = Job(2)
    (operator,) = job.metadata.operators
    half = OperatorMetadata(
        "op", "counter", "Count", 2, 128, (SubtaskState(None, True), operator.subtasks[1])
    )
    job.metadata = CheckpointMetadata(1, "j", "job", 0, "checkpoint", "1.1", (half,))
    ((table, split, union),) = job.restore(1)
    assert split == [(1, 0), (1, 1)]
    assert union == [1]
    assert 0 < len(table) < len(KEYS)


@pytest.mark.parametrize(
    ("vertex", "words"),
    [
        (
            ("other", 1, 128, False),
            "state of operator 'counter', which the job lacks: give the operator its uid",
        ),
        (("op", 129, 256, False), "parallelism 129 exceeds the max parallelism 128 of its state"),
        (("op", 1, 64, True), "its state has max parallelism 128, the job sets 64"),
    ],
)
def test_job_that_does_not_fit_the_checkpoint_is_refused(vertex, words):
    with pytest.raises(RestoreRefused, match=words) as raised:
        redistribute(Job(1).metadata, [vertex])
    assert "\n" not in str(raised.value)
    assert "checkpoint 1" in str(raised.value)


def test_unclaimed_state_is_left_out_where_that_is_allowed():
    assignments = redistribute(Job(1).metadata, [("other", 1, 128, False)], allow_non_restored_state=True)
    assert list(assignments) == [("other", 0)]


def test_stateless_operator_that_is_gone_is_no_reason_to_refuse():
    gone = OperatorMetadata("map", "m", "Map", 1, 128, (SubtaskState(None, False),))
    metadata = CheckpointMetadata(1, "j", "job", 0, "checkpoint", "1.1", (gone,))
    assert redistribute(metadata, []) == {}


def test_each_file_is_read_for_no_more_than_the_groups_that_are_in_it():
    assignments = redistribute(Job(2).metadata, [("op", 3, 128, False)])
    ranges = [
        [(handle.path, key_groups) for handle, key_groups in assignments["op", subtask].keyed]
        for subtask in range(3)
    ]
    assert ranges == [
        [("chk-1/op-0", (0, 42))],
        [("chk-1/op-0", (43, 63)), ("chk-1/op-1", (64, 85))],
        [("chk-1/op-1", (86, 127))],
    ]


def test_stateless_operator_takes_the_parallelism_of_the_job():
    plain = OperatorMetadata("map", "m", "Map", 1, 8, (SubtaskState(None, False),))
    metadata = CheckpointMetadata(1, "j", "job", 0, "checkpoint", "1.1", (plain,))
    assert effective_max_parallelism(metadata, [("map", 9, 128, False)]) == {"map": 128}
    with pytest.raises(RestoreRefused, match="the job sets 128"):
        effective_max_parallelism(metadata, [("map", 9, 128, True)])


def test_derived_max_parallelism_gives_way_to_that_of_the_checkpoint():
    assert effective_max_parallelism(Job(1, 64).metadata, [("op", 4, 128, False)]) == {"op": 64}
    assert effective_max_parallelism(Job(1, 64).metadata, [("op", 4, 64, True)]) == {"op": 64}


def test_state_with_two_modes_in_one_checkpoint_is_refused():
    with pytest.raises(RestoreRefused, match="unknown mode"):
        deal_out([("x", "SPREAD", [(0, 1)])], [0], 1, 2)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:-1], r"truncated: \d+ bytes where the checkpoint lists \d+"),
        (lambda data: data + b"x", "overlong: .* the checkpoint lists"),
        (lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:], "does not match its checksum"),
        (lambda data: b"", "truncated"),
    ],
    ids=["truncated", "overlong", "flipped", "emptied"],
)
def test_file_that_is_not_as_listed_is_refused_naming_it(spoil, words):
    job = Job(2)
    job.files["chk-1/op-1"] = spoil(job.files["chk-1/op-1"])
    with pytest.raises(DamagedFile, match=rf"^chk-1/op-1: .*{words}"):
        job.restore(1)


def test_intact_file_of_another_checkpoint_is_refused():
    job = Job(2)
    backend = HashMapStateBackend(128, (0, 127))
    size = len(job.files["chk-1/op-1"])
    table = backend.table(ValueStateDescriptor("count", Types.STRING()))
    other = b""
    filler = 0
    while len(other) < size:
        table["k"] = "x" * filler
        other = encode(TaskSnapshot({"op": OperatorSnapshot(backend.snapshot())})).data
        filler += 1
    assert len(other) == size
    job.files["chk-1/op-1"] = other
    with pytest.raises(DamagedFile, match="another file than the one"):
        job.restore(1)


def test_shared_cache_reads_each_file_once():
    job = Job(2)
    reads = []

    def read(path):
        reads.append(path)
        return job.files[path]

    decoded = {}
    for assignment in redistribute(job.metadata, [("op", 3, 128, False)]).values():
        read_assignment(assignment, read, decoded)
    assert sorted(reads) == ["chk-1/op-0", "chk-1/op-1"]
