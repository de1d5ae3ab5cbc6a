"""The REST API over a view by hand: shapes, refusals, tokens, changes."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.monitor.bounded_server import SAFETY_HEADERS, Gate, Refused, Request
from onceproof.engine.runtime.monitor.job_history import MOST_POINTS
from onceproof.engine.runtime.monitor.monitor_messages import Answered
from onceproof.engine.runtime.monitor.rest_api import MOST_OPEN, JobBoard, RestApi
from tests.engine.runtime.monitor.views import (
    JOB_ID,
    MAP_ID,
    MARKUP,
    NOW_MS,
    SINK_ID,
    SOURCE_ID,
    checkpoint,
    earlier_view,
    job_view,
)

TOKEN = "secret"
JOB = f"/jobs/{JOB_ID}"
HEADERS = {"host": "127.0.0.1:8081"}
AUTHORIZED = {**HEADERS, "authorization": f"Bearer {TOKEN}"}


class Bench:
    """An API with a job that keeps the changes asked of it."""

    def __init__(self, *, guards_reading=False):
        self.asked = []
        self.board = JobBoard(lambda number, request: self.asked.append((number, request)))
        gate = Gate(("localhost", "127.0.0.1", "::1"), TOKEN, guards_reading=guards_reading)
        self.api = RestApi(self.board, gate, b"<!doctype html>")

    def get(self, path, headers=HEADERS, **query):
        answer = self.api.respond(Request("GET", path, query, headers))
        assert answer.status == 200
        return msgspec.json.decode(answer.body)

    def change(self, method, path, body=None, headers=AUTHORIZED, **query):
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = self.api.respond(Request(method, path, query, headers, data))
        assert answer.status == 202
        return msgspec.json.decode(answer.body)

    def refusal(self, method, path, body=b"", headers=AUTHORIZED, **query):
        with pytest.raises(Refused) as refused:
            self.api.respond(Request(method, path, query, headers, body))
        assert msgspec.json.decode(refused.value.answer.body) == {"errors": [refused.value.said]}
        assert "\n" not in refused.value.said
        return refused.value


@pytest.fixture
def bench():
    made = Bench()
    made.board.show(earlier_view())
    made.board.show(job_view())
    return made


def test_job_is_shown_in_the_shape_of_flink(bench):
    assert bench.get("/overview")["jobs-running"] == 1
    assert bench.get("/v1/jobs") == {"jobs": [{"id": JOB_ID, "status": "RUNNING"}]}
    [listed] = bench.get("/jobs/overview")["jobs"]
    assert (listed["jid"], listed["tasks"]["running"], listed["tasks"]["total"]) == (JOB_ID, 3, 3)
    details = bench.get(JOB)
    assert [(each["id"], each["metrics"]["read-records"]) for each in details["vertices"]] == [
        (SOURCE_ID, 5000),
        (MAP_ID, 4000),
        (SINK_ID, 3000),
    ]
    assert details["plan"]["nodes"][1]["inputs"][0]["id"] == SOURCE_ID
    assert details["status-counts"]["RUNNING"] == 3
    assert details["restarts"] == 1


def test_rates_are_the_differences_of_two_views(bench):
    metrics = bench.get(JOB)["vertices"][1]["metrics"]
    assert metrics["read-records-per-second"] == 200
    assert (metrics["busy-ratio"], metrics["backpressured-ratio"], metrics["idle-ratio"]) == (0.2, 0.5, 0.3)
    found = bench.get(f"{JOB}/vertices/{MAP_ID}/backpressure")
    assert (found["backpressure-level"], found["subtasks"][0]["ratio"]) == ("low", 0.5)


def test_a_new_attempt_begins_new_rates(bench):
    bench.board.show(job_view(attempts=()))
    assert bench.get(JOB)["vertices"][1]["metrics"]["read-records-per-second"] == 0


def test_history_has_a_point_for_each_view_and_each_checkpoint(bench):
    found = bench.get(f"{JOB}/history")
    assert found["timestamps"] == [NOW_MS - 5000, NOW_MS]
    assert found["read-records-per-second"] == [0, 200]
    values = {each["id"]: each["values"] for each in found["watermarks"]}
    assert values == {SOURCE_ID: [None, None], MAP_ID: [NOW_MS - 2000] * 2, SINK_ID: [None, None]}
    assert [
        (each["id"], each["end_to_end_duration"], each["state_size"]) for each in found["checkpoints"]
    ] == [
        (1, 90, 3000),
        (3, 90, 3000),
    ]


def test_history_of_a_long_job_is_bounded_and_covers_its_whole_life(bench):
    for number in range(1, 2000):
        done = checkpoint(3 + number)
        seen = replace(job_view().checkpoints, history=(done,))
        bench.board.show(job_view(now_ms=NOW_MS + 1000 * number, checkpoints=seen))
    found = bench.get(f"{JOB}/history")
    times = found["timestamps"]
    assert MOST_POINTS // 4 < len(times) <= MOST_POINTS
    assert (times[0], len(found["watermarks"][1]["values"])) == (NOW_MS - 5000, len(times))
    longest = max(later - earlier for earlier, later in pairwise(times))
    assert times[-1] > NOW_MS + 1_999_000 - 2 * longest
    numbers = [each["id"] for each in found["checkpoints"]]
    assert MOST_POINTS // 4 < len(numbers) <= MOST_POINTS
    assert numbers[0] == 1
    assert numbers[-1] > 1950
    assert max(later - earlier for earlier, later in pairwise(numbers)) <= 2 * 2002 // len(numbers) + 2


def test_checkpoints_are_split_by_parts_and_sizes(bench):
    found = bench.get(f"{JOB}/checkpoints")
    assert found["counts"] == {"restored": 1, "total": 3, "in_progress": 0, "completed": 2, "failed": 1}
    newest = found["history"][0]
    assert (newest["id"], newest["end_to_end_duration"]) == (3, 90)
    assert (newest["state_size"], newest["checkpointed_size"], newest["persisted_data"]) == (3000, 1100, 30)
    assert found["history"][1]["failure_message"] == "DECLINED"
    assert found["latest"]["restored"]["id"] == 1
    assert found["summary"]["end_to_end_duration"]["p50"] == 90
    part = bench.get(f"{JOB}/checkpoints/details/3/subtasks/{MAP_ID}")["subtasks"][0]
    assert part["checkpoint"] == {"sync": 3, "async": 20}
    assert (part["alignment"]["duration"], part["start_delay"]) == (12, 5)
    assert part["unaligned_checkpoint"] is True
    assert bench.get(f"{JOB}/checkpoints/config")["mode"] == "exactly_once"


def test_attempts_and_transactions_are_shown(bench):
    [entry] = bench.get(f"{JOB}/exceptions")["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["stacktrace"], entry["taskName"]) == (
        "ValueError",
        MARKUP,
        "shop-0",
    )
    assert bench.get(f"{JOB}/exceptions", maxExceptions="0")["exceptionHistory"]["truncated"] is True
    now, before = bench.get(f"{JOB}/attempts")["attempts"]
    assert (now["attempt"], now["restored-checkpoint"], before["cause"]) == ("1.2", 1, MARKUP)
    [sink] = bench.get(f"{JOB}/transactions")["sinks"]
    assert (sink["id"], sink["open"], sink["pending"], sink["committed"]) == (SINK_ID, 1, 2, 9)


def test_metrics_are_listed_by_name_and_read_by_name(bench):
    path = f"{JOB}/vertices/{MAP_ID}/metrics"
    names = {each["id"] for each in bench.get(path)}
    assert {"0.numRecordsIn", "0.shop.shop.lines", "0.shop.rows", "0.shop.rows_count"} <= names
    asked = bench.get(path, get="0.numRecordsIn,0.shop.shop.lines,0.shop.state,none")
    assert asked == [
        {"id": "0.numRecordsIn", "value": "4000"},
        {"id": "0.shop.shop.lines", "value": "17"},
        {"id": "0.shop.state", "value": "open"},
    ]
    assert bench.get(f"{JOB}/metrics", get="numRestarts") == [{"id": "numRestarts", "value": "1"}]
    [mark] = bench.get(f"{JOB}/vertices/{MAP_ID}/watermarks")
    assert mark == {"id": "0.currentInputWatermark", "value": str(NOW_MS - 2000)}


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "query"),
    [
        (404, "GET", "/nothing", b"", {}),
        (404, "GET", "/jobs/", b"", {}),
        (400, "GET", "/jobs/xyz", b"", {}),
        (400, "GET", f"/jobs/{JOB_ID.upper()}", b"", {}),
        (404, "GET", f"/jobs/{'0' * 32}", b"", {}),
        (404, "GET", f"{JOB}/vertices/{'0' * 32}", b"", {}),
        (404, "GET", f"{JOB}/checkpoints/details/99", b"", {}),
        (404, "GET", f"{JOB}/checkpoints/details/../3", b"", {}),
        (404, "GET", f"{JOB}/savepoints/{'0' * 32}", b"", {}),
        (400, "GET", f"{JOB}/exceptions", b"", {"maxExceptions": "-1"}),
        (400, "GET", f"{JOB}/exceptions", b"", {"maxExceptions": "9" * 30}),
        (405, "POST", JOB, b"{}", {}),
        (405, "DELETE", JOB, b"", {}),
        (405, "OPTIONS", f"{JOB}/stop", b"", {}),
        (405, "POST", "/", b"", {}),
        (400, "PATCH", JOB, b"", {"mode": "stop"}),
        (400, "POST", f"{JOB}/stop", b"{", {}),
        (400, "POST", f"{JOB}/stop", b"[]", {}),
        (400, "POST", f"{JOB}/stop", b'{"drain": "yes"}', {}),
        (400, "POST", f"{JOB}/stop", b'{"force": true}', {}),
        (400, "POST", f"{JOB}/stop", b"\xff", {}),
        (400, "POST", f"{JOB}/savepoints", b'{"target-directory": 3}', {}),
        (400, "POST", f"{JOB}/savepoints", b'{"formatType": "NATIVE"}', {}),
        (400, "POST", f"{JOB}/savepoints", b'{"triggerId": "../../etc"}', {}),
        (404, "POST", f"/jobs/{'0' * 32}/stop", b"{}", {}),
    ],
)
def test_a_bad_request_is_refused_and_the_job_hears_nothing(bench, status, method, path, body, query):
    assert bench.refusal(method, path, body, **query).status == status
    assert bench.asked == []


@pytest.mark.parametrize("path", [f"{JOB}/stop", f"{JOB}/savepoints", JOB])
@pytest.mark.parametrize("token", [None, "", "Bearer ", "Bearer wrong", "Basic secret", "secret"])
def test_a_change_without_the_token_is_refused(bench, path, token):
    headers = HEADERS if token is None else {**HEADERS, "authorization": token}
    refused = bench.refusal("PATCH" if path == JOB else "POST", path, b"", headers)
    assert (refused.status, dict(refused.headers)["WWW-Authenticate"][:6]) == (401, "Bearer")
    assert bench.asked == []


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:8081", "127.0.0.1.evil.example", "[::2]"])
def test_a_request_to_another_host_is_refused_also_with_the_token(bench, host):
    assert bench.refusal("GET", "/jobs", headers={**AUTHORIZED, "host": host}).status == 403
    assert bench.refusal("POST", f"{JOB}/stop", b"", {**AUTHORIZED, "host": host}).status == 403
    assert bench.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8081", "127.0.0.1:1", "[::1]:8081", "[::1]"])
def test_the_own_host_is_served_with_any_port(bench, host):
    assert bench.get("/jobs", {"host": host})["jobs"]


@pytest.mark.parametrize(
    "header", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_page_of_another_origin_changes_nothing(bench, header):
    assert bench.refusal("POST", f"{JOB}/stop", b"", {**AUTHORIZED, **header}).status == 403
    assert bench.asked == []


def test_no_header_lets_another_origin_read():
    assert not [name for name, _ in SAFETY_HEADERS if name.startswith("Access-Control")]


def test_beyond_loopback_reading_needs_the_token_and_the_page_does_not():
    guarded = Bench(guards_reading=True)
    guarded.board.show(job_view())
    assert guarded.refusal("GET", "/jobs", headers=HEADERS).status == 401
    assert guarded.get("/jobs", AUTHORIZED)["jobs"]
    assert guarded.api.respond(Request("GET", "/", {}, HEADERS)).body == b"<!doctype html>"


def test_before_the_first_view_the_api_says_so():
    assert Bench().refusal("GET", "/jobs").status == 503


def test_savepoint_stop_and_cancel_reach_the_job(bench):
    bench.change("POST", f"{JOB}/savepoints", {"target-directory": "/sp"})
    bench.change("POST", f"{JOB}/savepoints", {"cancel-job": True})
    bench.change("POST", f"{JOB}/stop", {"targetDirectory": "/sp", "drain": True})
    bench.change("POST", f"{JOB}/stop")
    bench.change("PATCH", JOB, mode="cancel")
    assert [request for _, request in bench.asked] == [
        JobRequest("savepoint", "/sp"),
        JobRequest("cancel_with_savepoint"),
        JobRequest("stop", "/sp", drains=True),
        JobRequest("stop"),
        JobRequest("cancel"),
    ]


def test_the_outcome_of_a_change_is_asked_for_by_its_trigger(bench):
    trigger = bench.change("POST", f"{JOB}/savepoints")["request-id"]
    path = f"{JOB}/savepoints/{trigger}"
    assert bench.get(path)["status"] == {"id": "IN_PROGRESS"}
    [(number, _)] = bench.asked
    bench.board.answered(Answered(number, "/sp/savepoint-1", ""))
    assert bench.board.has_unread_outcomes
    assert bench.get(path) == {"status": {"id": "COMPLETED"}, "operation": {"location": "/sp/savepoint-1"}}
    assert not bench.board.has_unread_outcomes


def test_a_failed_change_gives_its_cause(bench):
    trigger = bench.change("POST", f"{JOB}/stop")["request-id"]
    bench.board.answered(Answered(1, "", "there is no savepoint: no room"))
    operation = bench.get(f"{JOB}/savepoints/{trigger}")["operation"]
    assert operation["failure-cause"]["stack-trace"] == "there is no savepoint: no room"


def test_the_same_trigger_twice_is_one_change(bench):
    body = {"triggerId": "f" * 32}
    assert bench.change("POST", f"{JOB}/stop", body) == bench.change("POST", f"{JOB}/stop", body)
    assert len(bench.asked) == 1


def test_too_many_open_changes_are_refused(bench):
    for _ in range(MOST_OPEN):
        bench.change("POST", f"{JOB}/savepoints")
    assert bench.refusal("POST", f"{JOB}/savepoints").status == 429
    assert len(bench.asked) == MOST_OPEN


def test_a_job_that_has_ended_is_shown_and_not_changed(bench):
    bench.board.show(job_view(state="FINISHED"))
    assert bench.get(f"{JOB}/status") == {"status": "FINISHED"}
    assert bench.refusal("POST", f"{JOB}/stop").status == 409
