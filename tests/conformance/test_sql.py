"""Runs every vector of SQL: planned by Flink, executed by the engine."""

from __future__ import annotations

from typing import Final

import pytest

from onceproof.engine.table.planner.planner_process import Planner
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.harness.services.service import ServiceMissing
from onceproof.harness.systems.flink.planner import find_planner
from tests.conformance.sql_compare import difference_of_refusal, difference_of_run, explained
from tests.conformance.sql_programs import answering, difference_of_program, functions_of, is_of_streams
from tests.conformance.sql_run import run_vector
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    asked,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)

EXPECTED_MISSES: Final = {
    "new.parse_json": "the planner has no way to write the type VARIANT into a plan",
    "new.to_changelog": "the engine has no process table functions",
    "udtaf.group": "the planner cannot write table aggregates into a plan",
}
"""The vectors of the project's file that may miss what they need, and why.

Any other one that misses something fails, and so does one of these that misses nothing.
"""


KNOWN_DIFFERENCES: Final = {
    "set.with.twice": "a join of a table with itself gets a whole batch at one input, then at the other",
}
"""The vectors of the project's file whose tables are right, and that differ within a step."""


@pytest.fixture(scope="session")
def answer_to():
    """Give the planner's answer to a request: from the file, else of the installed planner."""
    plans = read_plans()
    planners = []

    def answer(request):
        digest = digest_of(request)
        if digest not in plans:
            if not planners:
                try:
                    planners.append(Planner(find_planner()))
                except ServiceMissing as missing:
                    pytest.fail(f"no plan of it is kept, and {missing}")
            plans[digest] = asked(planners[0], request)
        return plans[digest]

    yield answer
    for planner in planners:
        planner.close()


def test_engine_answers_sql_as_flink_did(sql_vector, answer_to, record_property, request):
    difference, what = outcome_of(sql_vector, answer_to)
    if what:
        record_property("misses", f"{sql_vector.id}\n{what}")
    if request.config.getoption("--sql-vectors") is None:
        assert not unlisted(sql_vector.id, what)
    if what:
        pytest.xfail(f"it needs {what}")
    known = KNOWN_DIFFERENCES.get(sql_vector.id)
    if known is not None:
        assert difference, f"vector {sql_vector.id} differs no more, but KNOWN_DIFFERENCES lists it"
        pytest.xfail(known)
    assert not difference, f"area {sql_vector.area}, vector {sql_vector.id}: {difference}"


def unlisted(vector_id, what):
    """Say how what a vector needs and misses ("": nothing) contradicts the list; "": it does not."""
    if what and vector_id not in EXPECTED_MISSES:
        return f"vector {vector_id} needs {what}, and EXPECTED_MISSES does not list it"
    if not what and vector_id in EXPECTED_MISSES:
        return f"vector {vector_id} misses nothing, but EXPECTED_MISSES lists it"
    return ""


def test_miss_outside_the_list_and_stale_entry_are_failures():
    assert "needs node wonder_1, and" in unlisted("join.inner", "node wonder_1")
    assert "misses nothing, but" in unlisted("udtaf.group", "")
    assert not unlisted("udtaf.group", "a plan")
    assert not unlisted("join.inner", "")
    vectors = {vector.id for vector in read_sql_vectors(DEFAULT_SQL_VECTORS) if not vector.suspect}
    assert set(EXPECTED_MISSES) <= vectors, "an entry is no vector that runs"


def outcome_of(sql_vector, answer_to):
    """Run a vector; return how its result differs, and what it needs that is missing; "" each: nothing."""
    if is_of_streams(sql_vector):
        return difference_of_program(sql_vector, answering(answer_to)), ""
    expected = sql_vector.content["result"]
    answer = answer_to(request_of(sql_vector))
    if "schema" in expected and "schema" in answer:
        assert answer["schema"] == expected["schema"]
    if "error" in answer:
        if answer["error"]["phase"] == "planner":
            return "", f"a plan: {answer['error']['message']}"
        difference = difference_of_refusal(expected, answer["error"])
    elif "text" in answer:
        difference = (
            "" if explained(answer["text"]) == expected["explain"] else str(explained(answer["text"]))
        )
    elif "plan" in answer:
        try:
            run = run_vector(sql_vector, answer["plan"], functions=functions_of(sql_vector))
        except UnsupportedPlan as missing:
            return "", missing.subject
        difference = difference_of_run(expected, run, sql_vector.content.get("sink_keys", {}))
    else:
        difference = "" if answer["rows"] == expected["rows"] else f"{answer['rows']}"
    return difference, ""
