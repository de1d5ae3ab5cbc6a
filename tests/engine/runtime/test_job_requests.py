"""Requests of users that cannot be met are refused before they reach the job, whatever their folder is."""

from __future__ import annotations

import pytest

from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, OpenRequests


@pytest.mark.parametrize("kind", ["savepoint", "stop", "cancel_with_savepoint"])
@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("bogus://x/y", "nothing is known of bogus://"),
        ("hdfs://a/b", "write webhdfs://"),
        ("webhdfs://", "recursion"),
        ("/tmp/a\0b", "null byte"),
        ("/" + "a/" * 20_000, ""),
        ("/dev/null/x", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_is_refused_and_the_job_hears_nothing(kind, directory, why):
    answers = []
    requests = OpenRequests("a" * 32, None)
    assert requests.take(JobRequest(kind, directory), answers.append) is None
    [answer] = answers
    assert why in answer.error
    assert answer.error.startswith("folder ")
    assert answer.error.endswith(": name another one")
    assert "\n" not in answer.error
    assert requests.latest_number == 0


def test_without_any_folder_the_request_says_what_to_set():
    answers = []
    assert OpenRequests("a" * 32, None).take(JobRequest("stop"), answers.append) is None
    assert answers == [
        JobAnswer(error="no folder for the savepoint: name one, or set execution.checkpointing.savepoint-dir")
    ]
