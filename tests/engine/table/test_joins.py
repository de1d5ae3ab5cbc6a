"""Joins leave the same table whether or not the job fails on the way, on both backends."""

from collections import Counter

import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.engine.table.plans import UnsupportedPlan, read_plan
from onceproof.engine.table.translation import translate
from onceproof.engine.table.values import NANOS_PER_SECOND
from tests.engine.table.plan_runs import Ends, run, run_rescaled, table_of

TIME = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME", "nullable": True}
SIDE = {
    "type": "ROW",
    "nullable": True,
    "fields": [
        {"name": "k", "fieldType": "INT"},
        {"name": "v", "fieldType": "DOUBLE"},
        {"name": "ts", "fieldType": TIME},
    ],
}
ROW = "ROW<`k` INT, `v` DOUBLE, `ts` TIMESTAMP(3)>"
BOTH = "ROW<`k` INT, `v` DOUBLE, `ts` TIMESTAMP(3), `k0` INT, `v0` DOUBLE, `ts0` TIMESTAMP(3)>"
KEYS = {"leftKeys": [0], "rightKeys": [0], "filterNulls": [True], "nonEquiCondition": None}
TTL = [{"index": 0, "ttl": "0 ms", "name": "left"}, {"index": 1, "ttl": "0 ms", "name": "right"}]
BOUNDS = {
    "isEventTime": True,
    "leftLowerBound": -2000,
    "leftUpperBound": 3000,
    "leftTimeIndex": 2,
    "rightTimeIndex": 2,
}


def regular(kind, left=None, right=None):
    output = ROW if kind in ("SEMI", "ANTI") else BOTH
    return {
        "type": "stream-exec-join_1",
        "joinSpec": {"joinType": kind, **KEYS},
        "leftUpsertKeys": left,
        "rightUpsertKeys": right,
        "state": TTL,
        "outputType": output,
    }


def interval(kind, **bounds):
    spec = {"joinSpec": {"joinType": kind, **KEYS}, "windowBounds": {**BOUNDS, **bounds}}
    return {"type": "stream-exec-interval-join_1", "intervalJoinSpec": spec, "outputType": BOTH}


def temporal(kind):
    return {
        "type": "stream-exec-temporal-join_1",
        "joinSpec": {"joinType": kind, **KEYS},
        "isTemporalFunctionJoin": False,
        "leftTimeAttributeIndex": 2,
        "rightTimeAttributeIndex": 2,
        "outputType": BOTH,
    }


def plan(node):
    """Make a plan of two sources with watermarks, a join and a sink."""
    nodes = []
    for name in ("l", "r"):
        table = {"identifier": f"`c`.`d`.`{name}`", "resolvedTable": {"schema": {"columns": []}}}
        nodes += [
            {
                "type": "stream-exec-table-source-scan_2",
                "scanTableSource": {"table": table},
                "outputType": ROW,
            },
            {
                "type": "stream-exec-watermark-assigner_1",
                "watermarkExpr": {"kind": "INPUT_REF", "inputIndex": 2, "type": "TIMESTAMP(3)"},
                "rowtimeFieldIndex": 2,
                "outputType": SIDE,
            },
        ]
    sink = {
        "type": "stream-exec-sink_2",
        "dynamicTableSink": {"table": {"resolvedTable": {}}},
        "inputChangelogMode": ["INSERT"],
        "outputType": node["outputType"],
    }
    nodes = [{**each, "id": place} for place, each in enumerate([*nodes, node, sink], 1)]
    edges = [
        {"source": source, "target": target} for source, target in ((1, 2), (3, 4), (2, 5), (4, 5), (5, 6))
    ]
    return {"flinkVersion": "2.3", "nodes": nodes, "edges": edges}


def run_join(node, rows, *arguments, **options):
    """Run a join and return the table that it leaves."""
    return table_of(run(plan(node), lambda table: rows[table.name], *arguments, **options))


def rows_of(changes):
    return [(kind, (key, value, at * NANOS_PER_SECOND)) for kind, key, value, at in changes]


INSERTS = {
    "l": rows_of((0, key, 0.5 * at, 10 + at) for at, key in enumerate((1, 2, 1, None, 3, 2, 1, 4))),
    "r": rows_of((0, key, -0.0, 11 + at) for at, key in enumerate((2, 1, 2, None, 5, 1, 3))),
}
UPDATES = {
    "l": rows_of(
        [
            (0, 1, 1.0, 1),
            (0, 2, 1.0, 2),
            (1, 1, 1.0, 1),
            (2, 1, 2.0, 3),
            (3, 2, 1.0, 2),
            (0, 2, 3.0, 4),
            (0, 5, 1.0, 5),
        ]
    ),
    "r": rows_of(
        [(0, 1, 9.0, 1), (0, 3, 9.0, 2), (1, 1, 9.0, 1), (2, 1, 8.0, 3), (3, 3, 9.0, 2), (0, 2, 7.0, 4)]
    ),
}
NODES = [
    *[(regular(kind), INSERTS) for kind in ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")],
    *[(regular(kind, [[0]], [[0, 1], [1, 2]]), UPDATES) for kind in ("LEFT", "FULL", "ANTI")],
    *[(interval(kind), INSERTS) for kind in ("INNER", "FULL")],
    *[(temporal(kind), INSERTS) for kind in ("INNER", "LEFT")],
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("number", range(len(NODES)))
def test_join_leaves_the_same_table_after_a_failure(number, backend):
    node, rows = NODES[number]
    changes = len(run(plan(node), lambda table: rows[table.name]))
    undisturbed = run_join(node, rows)
    assert undisturbed
    assert run_join(node, rows, None, backend, parallelism=2) == undisturbed
    for fails_at in (changes // 2, changes - 1):
        assert run_join(node, rows, fails_at, backend) == undisturbed


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("number", range(len(NODES)))
def test_join_leaves_the_same_table_after_rescaling(tmp_path, number, backend):
    node, rows = NODES[number]
    changes = run_rescaled(plan(node), lambda table: rows[table.name], tmp_path, (2, 3, 1), backend)
    assert table_of(changes) == run_join(node, rows)


def test_temporal_join_keeps_the_versions_that_are_still_to_come(tmp_path):
    rows = {
        "l": rows_of([(0, 1, 1.0, at) for at in (5, 6, 25, 26, 45, 46)]),
        "r": rows_of([(0, 1, float(at), at) for at in range(20, 110, 10)]),
    }
    # The first left row goes out when three versions are there, all of them later.
    changes = run_rescaled(plan(temporal("LEFT")), lambda table: rows[table.name], tmp_path, (1, 1, 1))
    assert sorted(str(row[4]) for _, row in changes) == ["20.0", "20.0", "40.0", "40.0", "None", "None"]


def test_negative_interval_pads_the_outer_side_only():
    found = run_join(interval("LEFT", leftLowerBound=5, leftUpperBound=-5), INSERTS)
    assert found == Counter([repr((*row, None, None, None)) for _, row in INSERTS["l"]])


def test_zeros_of_both_signs_and_nan_are_rows_of_their_own():
    nan = float("nan")
    left = rows_of([(0, 1, value, 1) for value in (0.0, -0.0, nan, nan)] + [(3, 1, nan, 1), (3, 1, -0.0, 1)])
    found = run_join(regular("INNER"), {"l": left, "r": rows_of([(0, 1, 1.0, 1)])})
    assert sorted(row.split(", ")[1] for row in found) == ["0.0", "nan"]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({**temporal("INNER"), "rightTimeAttributeIndex": -1}, "a temporal join in processing time"),
        (interval("SEMI"), "an interval join of type SEMI"),
    ],
)
def test_joins_that_flink_refuses_are_named(node, words):
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(UnsupportedPlan, match=words):
        translate(read_plan(plan(node)), Ends(lambda table: INSERTS[table.name]), env)
