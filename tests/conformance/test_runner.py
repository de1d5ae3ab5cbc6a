"""The runner itself: a wrong answer or row fails, an area without an adapter is said to be not covered."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.conftest import load_jobs, load_vectors

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


PLAIN = "def plain(value):\n    return list(value) if isinstance(value, tuple) else value"
SOURCE = """
from pyflink.common import Types
T = Types.TUPLE([Types.STRING(), Types.{type}()])
def job(env):
    env.set_parallelism({parallelism})
    rows = env.from_collection([("a", 1), ("b", 2), ("a", 2), ("a", 32767)], T)
    sums = rows.key_by(lambda row: row[0], Types.STRING()).sum(1)
    return {{"main": sums, "none": rows.filter(lambda row: False)}}
"""
SUMS = ["['a', 1]", "['a', 3]", "['b', 2]", "['a', 32770]"]


def recorded_job(name, rows, *, parallelism=1, type="LONG"):
    """Make a job of rolling sums and the rows that Flink is said to have had."""
    source = SOURCE.format(parallelism=parallelism, type=type)
    return {"id": name, "options": {}, "source": source, "flink": {"main": rows}}


def run_jobs(tmp_path, jobs):
    """Run a file of jobs; give exit code, output and the figures by area."""
    return run(tmp_path, "jobs", {"meta": {"plain": PLAIN}, "jobs": jobs})


def run_vectors(tmp_path, vectors, *arguments):
    """Run a file of vectors; give exit code, output and the figures by area."""
    return run(tmp_path, "vectors", {"vectors": vectors}, *arguments)


def run(tmp_path, kind, content, *arguments):
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(content))
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / f"test_{kind}.py")]
    done = subprocess.run(
        [*command, f"--{kind}={path}", f"--conformance-json={figures}", *arguments],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, json.loads(figures.read_text())


def test_passed_failed_and_not_covered_vectors_of_two_workers_are_counted_apart(tmp_path):
    code, output, areas = run_vectors(tmp_path, [RIGHT, WRONG, BROKEN, UNKNOWN], "-n", "2")
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
    code, output, areas = run_vectors(tmp_path, [RIGHT, DEPARTS])
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
    code, output, areas = run_vectors(tmp_path, [UNKNOWN])
    assert code == 5
    assert "not covered: some.area 0/1" in output
    assert areas["some.area"]["failed"] == ["unknown"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no file of vectors"),
        ("{}", "no file of vectors: KeyError: 'vectors'"),
        (json.dumps({"vectors": [RIGHT, RIGHT]}), "the id 'right' occurs twice"),
    ],
    ids=["no JSON", "no vectors", "one id twice"],
)
def test_unreadable_file_of_vectors_is_a_usage_error_that_names_it(tmp_path, content, words):
    path = tmp_path / "vectors.json"
    path.write_text(content)
    with pytest.raises(pytest.UsageError, match=re.escape(f"vectors.json: {words}")):
        load_vectors([path])


def test_rows_of_each_key_come_in_flinks_order_and_only_a_recorded_number_departs(tmp_path):
    other_mixture = ["['b', 2]", *(row for row in SUMS if "b" not in row)]
    disordered = [SUMS[1], SUMS[0], *SUMS[2:]]
    jobs = [
        recorded_job("right-0", SUMS),
        recorded_job("right-1", other_mixture),
        recorded_job("wrong-0", ["['a', 9]", *SUMS[1:]]),
        recorded_job("wrong-1", SUMS[1:]),
        recorded_job("wrong-2", disordered),
        # The order of several subtasks is chance.
        recorded_job("chance-0", disordered, parallelism=2),
        recorded_job("overflow-0", SUMS, type="SHORT"),
        recorded_job("overflow-1", [*SUMS[:3], "['a', -32766]"], type="SHORT"),
        recorded_job("overflow-2", SUMS[:3], type="SHORT"),
    ]
    code, output, areas = run_jobs(tmp_path, jobs)
    assert code == 1, output
    nothing = {"failed": [], "departs": [], "covered": True}
    assert areas == {
        "job.chance": {**nothing, "passed": 1, "total": 1},
        "job.overflow": {
            **nothing,
            "passed": 0,
            "total": 3,
            "departs": ["overflow-0", "overflow-1"],
            "failed": ["overflow-2"],
        },
        "job.right": {**nothing, "passed": 2, "total": 2},
        "job.wrong": {**nothing, "passed": 0, "total": 3, "failed": ["wrong-0", "wrong-1", "wrong-2"]},
    }
    assert "is no SHORT" in output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no file of jobs"),
        ("{}", "no file of jobs: KeyError: 'meta'"),
        (
            json.dumps({"meta": {"plain": PLAIN}, "jobs": [recorded_job("sum-0", SUMS)] * 2}),
            "the id 'sum-0' occurs twice",
        ),
    ],
    ids=["no JSON", "no jobs", "one id twice"],
)
def test_unreadable_file_of_jobs_is_a_usage_error_that_names_it(tmp_path, content, words):
    path = tmp_path / "jobs.json"
    path.write_text(content)
    with pytest.raises(pytest.UsageError, match=re.escape(f"jobs.json: {words}")):
        load_jobs(path)
