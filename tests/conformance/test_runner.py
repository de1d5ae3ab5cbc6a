"""The runner itself: a wrong answer fails, an area without an adapter is said to be not covered."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def vector(name, area, given, expected):
    return {"id": name, "area": area, "input": given, "expected": expected}


RIGHT = vector("right", "keygroup.murmur", {"hash_codes": [0]}, {"murmur": [593689054]})
WRONG = vector("wrong", "keygroup.murmur", {"hash_codes": [0]}, {"murmur": [1]})
BROKEN = vector("broken", "barrier.aligned", {"channels": 1, "events": [["X", 0]]}, {})
UNKNOWN = vector("unknown", "some.area", {}, {})
DEPARTS = vector(
    "departs",
    "kafka.transactional_ids",
    {"strategy": "POOLING", "prefix": "p", "subtask": 0, "ongoing": []},
    {"used": "p-0-0"},
)


def run(tmp_path, vectors, *arguments):
    """Run a file of vectors; give exit code, output and the figures by area."""
    path = tmp_path / "vectors.json"
    path.write_text(vectors if isinstance(vectors, str) else json.dumps({"vectors": vectors}))
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_vectors.py")]
    done = subprocess.run(
        [*command, f"--vectors={path}", f"--conformance-json={figures}", *arguments],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    areas = json.loads(figures.read_text()) if figures.exists() else None
    return done.returncode, done.stdout + done.stderr, areas


@pytest.mark.parametrize("arguments", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_passed_failed_and_not_covered_vectors_are_counted_separately(tmp_path, arguments):
    code, output, areas = run(tmp_path, [RIGHT, WRONG, BROKEN, UNKNOWN], *arguments)
    assert code == 1
    assert areas == {
        "barrier.aligned": {"passed": 0, "total": 1, "failed": ["broken"], "departs": [], "covered": True},
        "keygroup.murmur": {"passed": 1, "total": 2, "failed": ["wrong"], "departs": [], "covered": True},
        "some.area": {"passed": 0, "total": 1, "failed": ["unknown"], "departs": [], "covered": False},
    }
    assert "keygroup.murmur 1/2  failed: wrong" in output
    assert "not covered: some.area 0/1" in output
    assert "unknown event ['X', 0]" in output


def test_departure_with_a_recorded_reason_is_counted_apart_from_what_passes(tmp_path):
    code, output, areas = run(tmp_path, [RIGHT, DEPARTS])
    assert code == 0
    assert areas["kafka.transactional_ids"] == {
        "passed": 0,
        "total": 1,
        "failed": [],
        "departs": ["departs"],
        "covered": True,
    }
    assert "1 of 2, and 1 that departs for a recorded reason" in output


def test_file_of_which_nothing_is_covered_ends_as_nothing_ran(tmp_path):
    code, output, areas = run(tmp_path, [UNKNOWN])
    assert code == 5
    assert "not covered: some.area 0/1" in output
    assert areas["some.area"]["failed"] == ["unknown"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no file of vectors"),
        ("{}", "no file of vectors: KeyError: 'vectors'"),
        ([RIGHT, RIGHT], "the id 'right' occurs twice"),
    ],
    ids=["no JSON", "no vectors", "one id twice"],
)
def test_unreadable_file_of_vectors_is_a_usage_error_that_names_it(tmp_path, content, words):
    code, output, _ = run(tmp_path, content)
    assert code == 4
    assert f"vectors.json: {words}" in output
