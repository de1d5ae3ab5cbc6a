"""Records in flight as they are stored: what describes itself, and what only pickle takes."""

from __future__ import annotations

from threading import Lock

import pytest

from onceproof.engine.state.file_envelope import PickleRefused, StateError
from onceproof.engine.state.in_flight import INPUT, ChannelId, decode_channels, detached, encode_channels
from onceproof.engine.types import Row

CHANNEL = ChannelId(INPUT, "source", "target", 0, 1, 2)


class Opaque:
    """A value without a typed form."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)

    __hash__ = None


class Holder:
    """A mutable value."""

    def __init__(self, values):
        self.values = values


def round_trip(*values, allow_pickle=False):
    records = [(value, place) for place, value in enumerate(values)]
    data, index = encode_channels({CHANNEL: [records[:1], records[1:]]}, allow_pickle=allow_pickle)
    assert index.channels == ((CHANNEL, len(records)),)
    assert index.length == len(data)
    decoded = decode_channels(b"state" + data, index, "file", allow_pickle=allow_pickle)
    assert decoded == {CHANNEL: records}


def test_plain_values_come_back_as_they_were():
    round_trip("a", 1, 1 << 80, 2.5, None, b"b", ("t", [1, (2,)]), {"k": (1,)}, {1: 2}, True)


def test_rows_come_back_with_their_names_and_what_they_hold():
    round_trip(Row(1, None), Row(a=1, b=("t", Row())), [Row(number=1 << 80)], Row([Row(x=1)]))


def test_a_value_without_a_typed_form_is_refused_with_the_way_out():
    with pytest.raises(StateError, match=r"in flight is a Opaque, .* pipeline\.allow-pickled-state"):
        round_trip((1, Opaque()))


def test_value_without_typed_form_is_pickled_if_allowed():
    round_trip(Opaque(), (1, 2), allow_pickle=True)


def test_pickled_records_are_not_read_without_permission():
    data, index = encode_channels({CHANNEL: [[(Opaque(), None)]]}, allow_pickle=True)
    with pytest.raises(PickleRefused, match="file: a record in flight holds pickled objects"):
        decode_channels(data, index, "file", allow_pickle=False)


def test_later_changes_of_a_record_are_not_recorded():
    buffer = [(["a"], 1), (("b", ["c"]), 2), ({"k": {"d": 1}}, 3), (Holder(["e"]), 4)]
    recorded = detached(buffer)
    buffer[0][0].append("changed")
    buffer[1][0][1].append("changed")
    buffer[2][0]["k"].clear()
    buffer[3][0].values.append("changed")
    assert recorded[:3] == [(["a"], 1), (("b", ["c"]), 2), ({"k": {"d": 1}}, 3)]
    assert (recorded[3][0].values, recorded[3][1]) == (["e"], 4)


def test_immutable_values_are_not_copied():
    buffer = [("a", 1), (("b", 2, None), 2), (3.5, None)]
    assert all(copy is record for copy, record in zip(detached(buffer), buffer, strict=True))


def test_uncopyable_value_is_refused_by_the_encoder():
    lock = Lock()
    [(recorded, _)] = detached([(lock, None)])
    assert recorded is lock
