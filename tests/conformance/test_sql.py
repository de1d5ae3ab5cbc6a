"""Runs every vector of SQL: planned by Flink, executed by the engine."""

from __future__ import annotations

import pytest

from onceproof.engine.table.planner.planner_process import Planner
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.harness.services.service import ServiceMissing
from onceproof.harness.systems.flink.planner import find_planner
from tests.conformance.sql_compare import difference_of_refusal, difference_of_run, explained
from tests.conformance.sql_programs import answering, difference_of_program, functions_of, is_of_streams
from tests.conformance.sql_run import run_vector
from tests.conformance.sql_vectors import asked, digest_of, read_plans, request_of


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


def test_engine_answers_sql_as_flink_did(sql_vector, answer_to, record_property):
    if is_of_streams(sql_vector):
        difference = difference_of_program(sql_vector, answering(answer_to))
        assert not difference, f"area {sql_vector.area}, vector {sql_vector.id}: {difference}"
        return
    expected = sql_vector.content["result"]
    answer = answer_to(request_of(sql_vector))
    if "schema" in expected and "schema" in answer:
        assert answer["schema"] == expected["schema"]
    if "error" in answer:
        if answer["error"]["phase"] == "planner":
            miss(record_property, sql_vector, f"a plan: {answer['error']['message']}")
        difference = difference_of_refusal(expected, answer["error"])
    elif "text" in answer:
        difference = (
            "" if explained(answer["text"]) == expected["explain"] else str(explained(answer["text"]))
        )
    elif "plan" in answer:
        try:
            run = run_vector(sql_vector, answer["plan"], functions=functions_of(sql_vector))
        except UnsupportedPlan as missing:
            miss(record_property, sql_vector, missing.subject)
        difference = difference_of_run(expected, run, sql_vector.content.get("sink_keys", {}))
    else:
        difference = "" if answer["rows"] == expected["rows"] else f"{answer['rows']}"
    assert not difference, f"area {sql_vector.area}, vector {sql_vector.id}: {difference}"


def miss(record_property, vector, what):
    """Count the vector as missing what it needs."""
    record_property("misses", f"{vector.id}\n{what}")
    pytest.xfail(f"it needs {what}")
