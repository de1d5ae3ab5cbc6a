"""The envelope of stored files: every kind of damage is an error of one line."""

import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onceproof.engine.state.file_envelope import (
    FORMAT_VERSION,
    HEADER_BYTES,
    METADATA_MAGIC,
    SNAPSHOT_MAGIC,
    DamagedFile,
    seal,
    unseal,
)

BODY = b"the body of a file"
DATA, DIGEST = seal(SNAPSHOT_MAGIC, BODY)


def complaint(data: bytes) -> str:
    """Read a file that must be refused; give the message."""
    with pytest.raises(DamagedFile) as raised:
        unseal(SNAPSHOT_MAGIC, data, "chk-3/count-0")
    message = str(raised.value)
    assert message.startswith("chk-3/count-0: ")
    assert "\n" not in message
    return message


def test_sound_file_gives_its_body_and_checksum():
    body, digest = unseal(SNAPSHOT_MAGIC, DATA, "p")
    assert (bytes(body), digest) == (BODY, DIGEST)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
@example(9, FORMAT_VERSION ^ 1)
def test_any_changed_byte_is_noticed(place, change):
    damaged = bytearray(DATA)
    damaged[place] ^= change
    complaint(bytes(damaged))


@pytest.mark.parametrize("length", [*range(12), HEADER_BYTES - 1, HEADER_BYTES, len(DATA) - 1])
def test_any_missing_end_is_noticed(length):
    assert "truncated" in complaint(DATA[:length])


def test_file_with_something_behind_its_end_is_overlong():
    assert "overlong" in complaint(DATA + b"x")


def test_file_of_a_newer_format_asks_for_a_newer_onceproof():
    newer = bytearray(DATA)
    newer[9] = FORMAT_VERSION + 1
    assert "update onceproof" in complaint(bytes(newer))


@pytest.mark.parametrize("foreign", [b"PK\x03\x04", b"\x89PNG\r\n\x1a\n" + b"x" * 100, b"{}" * 50])
def test_foreign_file_is_named_as_such(foreign):
    assert "no state file of onceproof" in complaint(foreign)


def test_metadata_file_in_place_of_state_is_refused():
    data, _ = seal(METADATA_MAGIC, BODY)
    assert "a checkpoint metadata file where a state file is due" in complaint(data)


def test_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(DamagedFile("p", "torn", "mend it")))
    assert (str(error), error.path, error.what, error.mend) == ("p: torn: mend it", "p", "torn", "mend it")
