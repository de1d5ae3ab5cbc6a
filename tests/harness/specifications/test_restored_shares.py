"""Key groups and operator states over a rescale: who restores them, and what is wrong otherwise."""

from __future__ import annotations

from types import SimpleNamespace

from onceproof.harness.specifications.restored_shares import restored_mismatch


def index(groups=(), **operator):
    return SimpleNamespace(
        keyed={"sums": dict.fromkeys(groups, 1)} if groups else {}, operator=operator, is_native=False
    )


def stored(*indexes, most=8):
    subtasks = [SimpleNamespace(handle=SimpleNamespace(index={"id": each})) for each in indexes]
    return SimpleNamespace(operator_id="id", max_parallelism=most, subtasks=subtasks)


def restored(groups=(), **sizes):
    keyed = {"sums": SimpleNamespace(counts=dict.fromkeys(groups, 1))} if groups else {}
    operator = {name: SimpleNamespace(elements=[b""] * size) for name, size in sizes.items()}
    return SimpleNamespace(keyed=keyed, operator=operator)


def test_key_groups_are_restored_once_by_their_owner():
    two = stored(index((0, 3)), index((4, 7)))
    # Group g of 8 belongs to subtask g * 4 // 8.
    owners = [restored((0,)), restored((3,)), restored((4,)), restored((7,))]
    assert restored_mismatch(two, 8, owners) is None
    assert restored_mismatch(two, 8, [restored((0, 3)), restored((4, 7))]) is None
    assert restored_mismatch(two, 8, [restored((0, 3, 4, 7))]) is None
    assert restored_mismatch(two, 8, [restored((0, 3, 4)), restored((4, 7))]) is not None
    assert restored_mismatch(two, 8, [restored((0,)), restored((3, 4, 7))]) is not None
    assert restored_mismatch(two, 8, [restored((0, 3)), restored((7,))]) is not None


def test_number_of_key_groups_is_that_of_the_checkpoint():
    mismatch = restored_mismatch(stored(index((0,))), 16, [restored((0,))])
    assert mismatch == ("8 key groups", "16")


def test_list_state_is_dealt_out_evenly_from_where_the_last_one_ended():
    lists = {"first": ("SPLIT_DISTRIBUTE", 2), "second": ("SPLIT_DISTRIBUTE", 1)}
    two = stored(index(**lists), index(**lists))
    good = [restored(first=2), restored(first=1, second=1), restored(first=1, second=1)]
    assert restored_mismatch(two, 8, good) is None
    assert restored_mismatch(two, 8, [restored(first=4, second=2), restored(), restored()]) is not None
    assert restored_mismatch(two, 8, [restored(first=2, second=1), restored(first=2, second=1)]) is None


def test_union_and_broadcast_states_are_restored_in_full():
    both = {"all": ("UNION", 2), "map": ("BROADCAST", 3)}
    two = stored(index(**both), index(**both))
    assert restored_mismatch(two, 8, [restored(all=4, map=3)] * 3) is None
    assert restored_mismatch(two, 8, [restored(all=4, map=3), restored(all=2, map=3)]) is not None
    assert restored_mismatch(two, 8, [restored(all=4, map=3), restored(all=4)]) is not None


def test_subtask_that_has_no_broadcast_state_restores_the_copy_of_another():
    held = {"map": ("BROADCAST", 3)}
    three = stored(None, index(**held), index(**held))
    # Each gets a copy in turn: that of subtask 1, 2 and 1 again.
    assert restored_mismatch(three, 8, [restored(map=3), restored(map=6), restored(map=6)]) is None
    assert restored_mismatch(three, 8, [restored(), restored(map=3), restored(map=3)]) is not None
