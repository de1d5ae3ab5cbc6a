"""What a recovery store says, read without Bytewax and without unpickling anything."""

from __future__ import annotations

import pickle

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.systems.bytewax.recovery_store import StoreContents, int_in_pickle, read_store
from tests.harness.systems.bytewax.recovery_stores import of_split, write_part


def test_store_of_a_flow_that_never_started_is_empty(tmp_path):
    assert read_store(tmp_path) == StoreContents(0, 1, 1, {})
    write_part(tmp_path, 0)
    assert read_store(tmp_path) == StoreContents(0, 1, 1, {})


def test_next_execution_begins_where_the_slowest_worker_of_the_last_one_is(tmp_path):
    write_part(tmp_path, 0, exs=[(0, 1, 1), (1, 2, 4)], fronts=[(1, 1, 9)])
    write_part(tmp_path, 1, fronts=[(0, 0, 4), (1, 0, 7)])
    assert read_store(tmp_path) == StoreContents(2, 4, 7, {})


def test_worker_that_has_written_nothing_holds_the_next_execution_back(tmp_path):
    write_part(tmp_path, 0, exs=[(0, 2, 1)], fronts=[(0, 1, 5)])
    assert read_store(tmp_path).resumes_at == 1


def test_positions_are_those_of_the_last_complete_epoch(tmp_path):
    snaps = [of_split("a", 2, 7), of_split("a", 3, 12), of_split("a", 4, 20), of_split("b", 1, 300)]
    other = [("flow.sums.stateful", "a", 3, pickle.dumps("a state of a user")), of_split("c", 4, 70_000)]
    write_part(tmp_path, 0, exs=[(0, 1, 1)], fronts=[(0, 0, 4)], snaps=[*snaps, *other])
    assert read_store(tmp_path) == StoreContents(1, 1, 4, {"a": 12, "b": 300})


@pytest.mark.parametrize("position", [0, 1, 255, 256, 65_535, 65_536, 1 << 40])
def test_int_is_read_from_its_pickle(position):
    assert int_in_pickle(pickle.dumps(position)) == position


@pytest.mark.parametrize("state", [b"", b"\x80\x04K", b"nonsense", pickle.dumps("7"), pickle.dumps([7, 8])])
def test_state_that_is_no_int_is_refused(state):
    with pytest.raises(FamilyError, match="recovery store of Bytewax"):
        int_in_pickle(state)


def test_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "part-0.sqlite3").write_bytes(b"no database at all, but long enough to be looked at" * 20)
    with pytest.raises(FamilyError, match=r"part-0\.sqlite3: the recovery store of Bytewax cannot be read"):
        read_store(tmp_path)
