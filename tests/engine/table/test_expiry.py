"""State expires: with a time to live row by row, and a match that takes longer than WITHIN."""

import copy

import pytest

from onceproof.engine.cep.automaton import MatchState
from tests.conformance.sql_run import run_vector
from tests.conformance.sql_vectors import SqlVector
from tests.engine.table.plan_runs import VECTORS, plan_of


def changed(plan, kind):
    """Return a copy of a plan and its node of a type."""
    plan = copy.deepcopy(plan)
    (node,) = [node for node in plan["nodes"] if node["type"].startswith(f"stream-exec-{kind}_")]
    return plan, node


def fed(name, table, rows, feed, **conf):
    """Return a recorded vector with other rows, delivered with pauses."""
    content = {**VECTORS[name].content, "feed": feed, "conf": conf}
    content["tables"] = {table: {**VECTORS[name].tables[table], "rows": rows}}
    return SqlVector(name, VECTORS[name].area, content)


@pytest.mark.parametrize("is_rows", [False, True])
def test_updating_over_goes_on_when_rows_expire_before_their_order(is_rows):
    plan, node = changed(plan_of("over.updating/n"), "over-aggregate")
    (group,) = node["overSpec"]["groups"]
    group["isRows"] = is_rows
    sent = (("a", 1), ("b", 5), ("c", 3), ("d", 2), ("b", 1))
    rows = [["+I", key, value, "2024-01-01T00:00:00.000"] for key, value in sent]
    feed = ["e", "e", "pause:6000", "e", "pause:6000", "e", "e"]
    vector = fed("over.updating/n", "e", rows, feed, **{"table.exec.state.ttl": "10 s"})
    run = run_vector(vector, plan)
    assert run.error is None
    (changes,) = run.changes.values()
    assert [change for change in changes if change[0] == 5] == [
        [5, "+I", ["d", 2]],
        [5, "-U", ["c", 4]],
        [5, "+U", ["c", 5]],
    ]
    # The row of b that goes has expired; only the one that comes is seen.
    assert [change for change in changes if change[0] == 6] == [[6, "+U", ["b", 11]]]


def test_match_in_processing_time_leaves_no_state_behind_within(monkeypatch):
    plan, node = changed(plan_of("mr.proctime"), "match")
    node["matchSpec"]["interval"] = {
        "kind": "LITERAL",
        "type": "INTERVAL SECOND(6) NOT NULL",
        "value": "3000",
    }
    kept = []
    store = MatchState.store

    def keep(self):
        kept.append(store(self))
        return kept[-1]

    monkeypatch.setattr(MatchState, "store", keep)
    rows = [["+I", "A", 12, "2024-01-01T00:00:01.000"]]
    run = run_vector(fed("mr.proctime", "tk", rows, ["tk", "pause:3000"]), plan)
    assert run.error is None
    assert kept[0] is not None
    assert kept[-1] is None
