"""The runner itself: a wrong answer or row fails, an area without an adapter is said to be not covered."""

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


def run_jobs(tmp_path, jobs, *arguments):
    """Run a file of jobs; give exit code, output and the figures by area."""
    content = jobs if isinstance(jobs, str) else {"meta": {"plain": PLAIN}, "jobs": jobs}
    return run(tmp_path, content, *arguments, kind="jobs")


def run(tmp_path, vectors, *arguments, kind="vectors"):
    """Run a file of vectors; give exit code, output and the figures by area."""
    path = tmp_path / f"{kind}.json"
    content = {"vectors": vectors} if isinstance(vectors, list) else vectors
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / f"test_{kind}.py")]
    done = subprocess.run(
        [*command, f"--{kind}={path}", f"--conformance-json={figures}", *arguments],
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


def test_job_passes_where_the_rows_of_each_key_come_in_flinks_order(tmp_path):
    other_mixture = ["['b', 2]", *(row for row in SUMS if "b" not in row)]
    jobs = [recorded_job("sum-0", SUMS), recorded_job("sum-1", other_mixture)]
    code, output, areas = run_jobs(tmp_path, jobs)
    assert code == 0, output
    assert areas == {"job.sum": {"passed": 2, "total": 2, "failed": [], "departs": [], "covered": True}}


def test_job_fails_on_another_row_a_missing_one_and_another_order_of_a_key(tmp_path):
    jobs = [
        recorded_job("sum-0", ["['a', 9]", *SUMS[1:]]),
        recorded_job("sum-1", SUMS[1:]),
        recorded_job("sum-2", [SUMS[1], SUMS[0], *SUMS[2:]]),
        recorded_job("other-0", [SUMS[1], SUMS[0], *SUMS[2:]], parallelism=2),
    ]
    code, _, areas = run_jobs(tmp_path, jobs)
    assert code == 1
    assert areas["job.sum"]["failed"] == ["sum-0", "sum-1", "sum-2"]
    # The order of several subtasks is chance.
    assert areas["job.other"]["passed"] == 1


def test_job_that_overflows_departs_only_if_flink_has_the_number(tmp_path):
    wrapped = [*SUMS[:3], "['a', -32766]"]
    jobs = [
        recorded_job("sum-0", SUMS, type="SHORT"),
        recorded_job("sum-1", wrapped, type="SHORT"),
        recorded_job("sum-2", SUMS[:3], type="SHORT"),
    ]
    code, output, areas = run_jobs(tmp_path, jobs)
    assert code == 1
    assert areas["job.sum"]["departs"] == ["sum-0", "sum-1"]
    assert areas["job.sum"]["failed"] == ["sum-2"]
    assert "is no SHORT" in output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no file of jobs"),
        ("{}", "no file of jobs: KeyError: 'meta'"),
        ([recorded_job("sum-0", SUMS)] * 2, "the id 'sum-0' occurs twice"),
    ],
    ids=["no JSON", "no jobs", "one id twice"],
)
def test_unreadable_file_of_jobs_is_a_usage_error_that_names_it(tmp_path, content, words):
    code, output, _ = run_jobs(tmp_path, content)
    assert code == 4
    assert f"jobs.json: {words}" in output
