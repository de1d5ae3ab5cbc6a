"""Plans become jobs: what is unknown is refused by name, and state survives a failure."""

import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.engine.table.plans import InvalidPlan, UnsupportedPlan, duration_ms, read_plan
from onceproof.engine.table.translation import MISSING_NODES, load_translators, translate
from tests.engine.table.plan_runs import Ends, run

ROW = "ROW<`k` STRING, `v` INT>"
TABLE = {
    "identifier": "`default_catalog`.`default_database`.`e`",
    "resolvedTable": {"schema": {"columns": []}, "options": {"connector": "vec"}},
}

PLANNED = """
    async-calc_1 async-correlate_1 calc_1 changelog-normalize_1 correlate_1 deduplicate_1 delta-join_1
    delta-join_2 drop-update-before_1 exchange_1 expand_1 global-group-aggregate_1
    global-window-aggregate_1 group-aggregate_1 group-window-aggregate_1 incremental-group-aggregate_1
    interval-join_1 join_1 limit_1 local-group-aggregate_1 local-window-aggregate_1 lookup-join_1
    match_1 mini-batch-assigner_1 ml-predict-table-function_1 multi-join_1 over-aggregate_1
    process-table-function_1 python-async-calc_1 python-calc_1 python-correlate_1
    python-group-aggregate_1 python-group-window-aggregate_1 python-over-aggregate_1 rank_1 sink_1
    sink_2 sort_1 sort-limit_1 table-source-scan_1 table-source-scan_2 temporal-join_1 temporal-sort_1
    union_1 values_1 vector-search-table-function_1 watermark-assigner_1 window-aggregate_1
    window-deduplicate_1 window-join_1 window-rank_1 window-table-function_1
"""
"""What ExecNodeMetadataUtil of flink-table-planner 2.3.0 lists for streams."""


def plan(*middle, version="2.3"):
    """Make a plan of a source, nodes one behind the other, and a sink."""
    sink = {
        "type": "stream-exec-sink_2",
        "dynamicTableSink": {"table": {"resolvedTable": {}}},
        "inputChangelogMode": ["INSERT"],
        "outputType": ROW,
    }
    scan = {"type": "stream-exec-table-source-scan_2", "scanTableSource": {"table": TABLE}, "outputType": ROW}
    nodes = [{**node, "id": place} for place, node in enumerate((scan, *middle, sink), 1)]
    edges = [{"source": place, "target": place + 1} for place in range(1, len(nodes))]
    return {"flinkVersion": version, "nodes": nodes, "edges": edges}


COUNT = {
    "type": "stream-exec-group-aggregate_1",
    "grouping": [0],
    "aggCalls": [{"internalName": "$COUNT$1", "argList": [], "filterArg": -1, "type": "BIGINT NOT NULL"}],
    "aggCallNeedRetractions": [False],
    "needRetraction": False,
    "generateUpdateBefore": True,
    "state": [{"index": 0, "ttl": "0 ms", "name": "groupAggregateState"}],
    "outputType": "ROW<`k` STRING, `c` BIGINT NOT NULL>",
}


def test_unknown_node_function_and_version_are_refused_by_name():
    env = StreamExecutionEnvironment.get_execution_environment()
    unknown = {"type": "stream-exec-wonder_7", "outputType": ROW, "description": "Wonder(all)"}
    with pytest.raises(UnsupportedPlan, match=r"node wonder_7.*node 2, Wonder\(all\)"):
        translate(read_plan(plan(unknown)), Ends(lambda table: []), env)
    call = {"kind": "CALL", "internalName": "$WONDER$1", "operands": [], "type": "INT"}
    calc = {"type": "stream-exec-calc_1", "projection": [call], "outputType": "ROW<`w` INT>"}
    with pytest.raises(UnsupportedPlan, match=r"function \$WONDER\$1.*node 2"):
        translate(read_plan(plan(calc)), Ends(lambda table: []), env)
    assert not env.operators
    with pytest.raises(UnsupportedPlan, match=r"Flink 9\.9"):
        read_plan(plan(version="9.9"))


@pytest.mark.parametrize("source", ["{", "[]", "{}", '{"flinkVersion": "2.3"}'])
def test_what_is_no_plan_is_refused_in_a_line(source):
    with pytest.raises(InvalidPlan, match="no compiled plan"):
        read_plan(source)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"grouping": None}, "TypeError"),
        ({"aggCallNeedRetractions": None}, "TypeError"),
        ({"grouping": [7]}, "IndexError"),
        ({"state": [{"index": 0, "ttl": "1 fortnight"}]}, "'1 fortnight' is no duration"),
        ({"state": [{"index": 0}]}, "KeyError: 'ttl'"),
        ({"outputType": "ROW<`k` WONDER"}, "InvalidType"),
        ({"inputProperties": [{}]}, "KeyError: 'requiredDistribution'"),
    ],
)
def test_malformed_node_is_named_in_a_line(changed, words):
    env = StreamExecutionEnvironment.get_execution_environment()
    wrong = plan({**COUNT, "description": "GroupAggregate(k)", **changed})
    with pytest.raises(InvalidPlan, match=r"node 2, GroupAggregate\(k\): ") as raised:
        translate(read_plan(wrong), Ends(lambda table: []), env)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_edge_from_nowhere_is_refused_in_a_line():
    env = StreamExecutionEnvironment.get_execution_environment()
    wrong = plan(COUNT)
    wrong["edges"][0]["source"] = 9
    with pytest.raises(InvalidPlan, match="node 2, group-aggregate_1: KeyError: 9"):
        translate(read_plan(wrong), Ends(lambda table: []), env)


def test_each_node_of_the_planner_has_a_translator_or_a_reason():
    translated = {f"{kind}_{version}" for kind, version in load_translators()}
    assert translated <= {*PLANNED.split()}
    assert {each.partition("_")[0] for each in {*PLANNED.split()} - translated} == set(MISSING_NODES)


def test_node_that_is_missing_is_refused_with_its_remedy():
    missing = {"type": "stream-exec-multi-join_1", "outputType": ROW, "description": "MultiJoin(all)"}
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(
        UnsupportedPlan, match=r"multi-join_1 \(set table.optimizer.multi-join.enabled to false"
    ):
        translate(read_plan(plan(missing)), Ends(lambda table: []), env)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7", 7),
        ("1999999 ns", 1),
        ("5 nanos", 0),
        ("2000 us", 2),
        ("3000 \u00b5s", 3),
        ("4000micros", 4),
        ("2 MIN", 120_000),
        ("1 d", 86_400_000),
    ],
)
def test_durations_have_all_units_of_flink(text, milliseconds):
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("parallelism", [1, 2])
def test_group_aggregate_goes_on_after_a_failure(parallelism):
    changes = [(0, (key, place)) for place, key in enumerate("ababacabab")]
    seen = run(plan(COUNT), lambda table: changes, 7, parallelism=parallelism)
    last = {row[0]: (kind, row) for kind, row in seen}
    assert last == {"a": (2, ("a", 5)), "b": (2, ("b", 4)), "c": (0, ("c", 1))}
