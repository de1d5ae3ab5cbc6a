"""Key groups: every key has one owner at any parallelism, and equal keys share it."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.java_hashes import InvalidKey, java_hash
from onceproof.engine.key_groups import (
    default_max_parallelism,
    key_group_of,
    key_group_range,
    murmur,
    operator_id,
    operator_index,
)
from onceproof.engine.types import Row, Types
from onceproof.engine.types.scalars import key_rule_of

PARALLELISMS = st.tuples(st.integers(1, 300), st.integers(0, 32468)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=200, deadline=None)
@given(PARALLELISMS)
def test_ranges_cover_every_group_once_and_agree_with_the_owner_of_each(sizes):
    parallelism, max_parallelism = sizes
    ranges = [key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == max_parallelism - 1
    for (_, end), (start, _) in pairwise(ranges):
        assert start == end + 1
    for index, (low, high) in enumerate(ranges):
        assert operator_index(max_parallelism, parallelism, low) == index
        assert operator_index(max_parallelism, parallelism, high) == index


def test_python_int_without_a_type_is_a_java_long_and_with_int_an_integer():
    assert java_hash(-1) == 0
    assert Types.INT().java_hash(-1) == -1
    assert key_group_of(-1, 128, None) != key_group_of(-1, 128, Types.INT())


@pytest.mark.parametrize(
    ("key", "kind", "expected"),
    [
        ("", None, 0),
        ("The quick brown fox jumps over the lazy dog", "string", -609428141),
        ("\U0001f600", None, 1772899),
        (True, "bool", 1231),
        (1.5, None, 1073217536),
        (-0.0, "double", -2147483648),
        (float("nan"), "double", 2146959360),
        (1.5, "float", 1069547520),
        (b"\x01\xff", None, 1 * 31 * 31 + 31 - 1),
        (("a", 1), None, 97 * 31 + 1),
        (("a", (None, 2)), "tuple", 97 * 31 + 2),
        (1 << 64, None, 31 * 31),
        (-(1 << 64), "bigint", -31 * 31),
    ],
)
def test_hash_is_that_of_java(key, kind, expected):
    assert java_hash(key, kind) == expected


def test_murmur_of_the_one_code_without_a_positive_counterpart_is_zero():
    assert murmur(-2089875627) == 0


def test_lone_surrogate_in_a_key_hashes_as_its_utf16_unit():
    assert java_hash("\ud800") == 0xD800


def test_row_by_position_hashes_as_its_fields_in_an_array():
    array = (1 * 31 + 97) * 31 + 7
    assert Types.ROW([Types.STRING(), Types.INT()]).java_hash(Row("a", 7)) == array * 961


@pytest.mark.parametrize(
    ("one", "other", "key_type"),
    [
        (0.0, -0.0, Types.DOUBLE()),
        (0.0, -0.0, None),
        ((0.0,), (-0.0,), Types.TUPLE([Types.DOUBLE()])),
        (1, True, None),
        (1, 1.0, None),
        (0, False, None),
        (1 << 70, float(1 << 70), None),
        ((1, ("a",)), (True, ("a",)), None),
        (1, True, Types.LONG()),
    ],
)
def test_keys_that_are_equal_in_python_share_their_group(one, other, key_type):
    code = java_hash if key_type is None else key_type.java_hash
    assert one == other
    assert code(one) == code(other)


@pytest.mark.parametrize(
    ("key", "key_type", "words"),
    [
        ({"a": 1}, Types.STRING(), "no STRING"),
        ((None,), Types.TUPLE([Types.LONG()]), "None .NoneType. is no LONG"),
        ([1], None, "of type list cannot be a key: it may change: give a tuple"),
        ((1, [2]), None, "list"),
        (5, Types.DOUBLE(), "no DOUBLE"),
        (True, Types.LONG(), "no LONG"),
        (HTTPStatus.OK, None, "give a plain int, not an object of a subclass"),
        (datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), None, "not a fixed offset"),
        (datetime(2020, 1, 1, tzinfo=UTC), Types.SQL_TIMESTAMP(), "drop the zone"),
        (1 << 40, Types.INT(), "declare Types.LONG"),
        ("a", Types.LONG(), "no LONG"),
        (("a",), Types.TUPLE([Types.STRING(), Types.LONG()]), "no TUPLE"),
        (1, Types.SQL_DATE(), "no SQL_DATE"),
        ([1], Types.LIST(Types.LONG()), "cannot be a key type"),
    ],
)
def test_value_that_cannot_be_a_key_is_refused_by_name(key, key_type, words):
    _, identify = key_rule_of(key_type)
    with pytest.raises(InvalidKey, match=words) as raised:
        identify(key)
    assert "\n" not in str(raised.value)


def test_unknown_kind_of_hash_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="known are string"):
        java_hash("a", "strnig")


def test_groups_do_not_depend_on_the_salt_of_the_process():
    program = (
        "from onceproof.engine.key_groups import key_group_of\n"
        "print([key_group_of(k, 128, None) for k in ('a', ('b', 1), 1.5, b'c')])"
    )
    outputs = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_default_max_parallelism_has_flinks_bounds():
    assert default_max_parallelism(1) == 128
    assert default_max_parallelism(32768) == 32768


def test_operator_ids_of_different_uids_differ_and_are_32_hex_digits():
    assert operator_id("a") != operator_id("b")
    assert len(operator_id("a")) == 32
    assert int(operator_id("a"), 16)
