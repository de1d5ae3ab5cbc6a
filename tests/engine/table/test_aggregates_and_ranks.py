"""Aggregates, ranks, bundles and sinks: what the recorded vectors do not reach."""

import copy
import random
from collections import Counter
from decimal import Decimal

import pytest

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, create_aggregate
from onceproof.engine.table.hash_order import HashOrder, in_hash_map
from onceproof.engine.table.nodes.group_aggregate import result_equality
from onceproof.engine.table.ordering import SortField, sort_key
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import parse_type
from onceproof.engine.table.values import DELETE, INSERT, KIND_OF, UPDATE_AFTER, row_decoder
from tests.engine.table.plan_runs import VECTORS, changes_in, plan_of, run, table_of

EXACT = [
    "agg.distinct.multi/b",
    "agg.array_agg/b",
    "agg.listagg/b",
    "retr.dups",
    "retr.minmax.key/n",
    "retr.first_last/n",
    "agg.cube/n",
    "topn.top2/n",
    "topn.updating.norank/n",
    "topn.updating.count/n",
    "limit.updating/n",
    "limit.2/a",
    "cls.upsert.filter",
    "dedup.event.first/a",
    "dedup.proc.first/b",
    "dedup.then.agg/b",
    "order.time.second/b",
    "sink.upsert.otherkey.conflict",
]
IN_BUNDLES = ["minibatch.size3.agg", "minibatch.all.agg_of_agg", "minibatch.onephase.agg_of_agg"]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", [*EXACT, *IN_BUNDLES])
def test_changes_are_the_same_after_a_failure(name, backend):
    plan, changes_of = plan_of(name), changes_in(name)
    expected = run(plan, changes_of, backend=backend)
    for fails_at in {len(expected) // 2, len(expected) - 1}:
        changes = run(plan, changes_of, fails_at, backend)
        if name in IN_BUNDLES:
            assert table_of(changes) == table_of(expected)
        else:
            assert changes == expected


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_first_row_of_a_primary_key_is_kept_where_nothing_is_done_on_conflict(backend):
    name = "sink.upsert.append_query.error"
    vector, plan = VECTORS[name], copy.deepcopy(plan_of(name))
    plan["nodes"][-1]["conflictStrategy"] = {"behavior": "NOTHING"}

    def changes_of(table):
        decode = row_decoder(table.type)
        return [(KIND_OF[op], decode(values)) for op, *values in vector.tables[table.name]["rows"]]

    first = {}
    for _, key, value, *_ in vector.tables["e"]["rows"]:
        first.setdefault(key, value)
    for fails_at in (None, 0, len(first) - 1):
        changes = run(plan, changes_of, fails_at, backend)
        assert table_of(changes) == Counter(map(repr, first.items()))


# ---- Top-N

RANK_ROW = "ROW<`k` INT, `v` DOUBLE, `id` INT>"


def rank_plan(strategy, start, end, numbered, keys=(2,)):
    row = "ROW<`k` INT, `v` DOUBLE, `id` INT, `rn` BIGINT NOT NULL>" if numbered else RANK_ROW
    nodes = [
        {
            "type": "stream-exec-table-source-scan_2",
            "scanTableSource": {"table": {"identifier": "`c`.`d`.`e`", "resolvedTable": {}}},
            "outputType": RANK_ROW,
        },
        {
            "type": "stream-exec-rank_1",
            "rankType": "ROW_NUMBER",
            "partition": {"fields": [0]},
            "orderBy": {"fields": [{"index": 1, "isAscending": False, "nullIsLast": True}]},
            "rankRange": {"type": "Constant", "start": start, "end": end},
            "rankStrategy": {"type": strategy, "primaryKeys": list(keys)},
            "outputRowNumber": numbered,
            "generateUpdateBefore": True,
            "outputType": row,
        },
        {
            "type": "stream-exec-sink_2",
            "dynamicTableSink": {"table": {"resolvedTable": {}}},
            "inputChangelogMode": ["INSERT"],
            "outputType": row,
        },
    ]
    nodes = [{**node, "id": place} for place, node in enumerate(nodes, 1)]
    return {
        "flinkVersion": "2.3",
        "nodes": nodes,
        "edges": [{"source": 1, "target": 2}, {"source": 2, "target": 3}],
    }


def changes_for(strategy, generator):
    """Return random changes of a strategy, and the rows that they leave in order of arrival."""
    changes, rows = [], []
    for number in range(60):
        value = generator.choice([None, -1.0, 0.5, 2.0, 7.0])
        if strategy == "AppendFast" and number % 7 == 0:
            # Flink never finds a row with NaN again, to retract it.
            value = float("nan")
        row = (generator.randrange(2), value, number)
        if strategy == "Retract" and rows and generator.random() < 0.45:
            gone = rows.pop(generator.randrange(len(rows)))
            changes.append((DELETE, gone))
        elif strategy == "UpdateFast" and rows and generator.random() < 0.5:
            old = rows.pop(generator.randrange(len(rows)))
            row = (old[0], (old[1] or 0.0) + generator.choice([1.0, 2.0]), old[2])
            changes.append((UPDATE_AFTER, row))
            rows.append(row)
        else:
            changes.append((INSERT, row))
            rows.append(row)
    return changes, rows


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(("start", "end"), [(1, 1), (1, 3), (2, 4)])
@pytest.mark.parametrize("strategy", ["AppendFast", "Retract", "UpdateFast"])
def test_top_n_leaves_the_first_rows(strategy, start, end, numbered):
    if strategy == "UpdateFast" and start == end:
        # Flink's function for the first row needs the partition as the key of the input.
        return
    order = sort_key([SortField(1, False, True)], parse_type(RANK_ROW).types)
    for seed in range(3):
        changes, rows = changes_for(strategy, random.Random(seed))
        left = table_of(run(rank_plan(strategy, start, end, numbered), lambda table, all=changes: all))
        expected = Counter()
        for key in (0, 1):
            ranked = sorted([row for row in rows if row[0] == key], key=order)
            for rank, row in enumerate(ranked[start - 1 : end], start):
                expected[repr((*row, rank) if numbered else row)] += 1
        if strategy == "UpdateFast":
            # Only rows within the bounds are kept, so that rows which fell out do not come back, and equal
            # values have the order in which they got there.
            assert sorted(map(order, left)) == sorted(map(order, expected))
        else:
            assert repr(sorted(left.items(), key=repr)) == repr(sorted(expected.items(), key=repr))


# ---- aggregates


def call(name, *types, result=None, distinct=False, condition=None):
    kinds = tuple(map(parse_type, types))
    result = parse_type(result or types[0])
    places = tuple(range(len(types)))
    return AggregateCall(name, places, kinds, result, condition, distinct, retracts=True)


MERGED = {
    "count": call("$COUNT$1", "INT", result="BIGINT"),
    "sum": call("$SUM$1", "INT"),
    "sum or zero": call("$$SUM0$1", "INT"),
    "average": call("$AVG$1", "INT"),
    "least": call("$MIN$1", "INT"),
    "greatest": call("$MAX$1", "INT"),
    "collected": call("$COLLECT$1", "INT", result="MULTISET<INT>"),
    "array": call("$ARRAY_AGG$1", "INT", result="ARRAY<INT>"),
    "percentile": call("$PERCENTILE$1", "INT", "DOUBLE", result="DOUBLE"),
    "bitmap": call("$BITMAP_BUILD_AGG$1", "INT", result="BITMAP"),
    "distinct count": call("$COUNT$1", "INT", result="BIGINT", distinct=True),
    "distinct sum, filtered": call("$SUM$1", "INT", distinct=True, condition=2),
    "distinct average": call("$AVG$1", "INT", distinct=True),
}


def comparable(value):
    if isinstance(value, float):
        return round(value, 6)
    return sorted(map(repr, value)) if isinstance(value, tuple) else value


def test_merged_accumulators_have_the_result_of_all_rows():
    aggregates = AggregateSet(list(MERGED.values()), TableSettings())
    for seed in range(30):
        generator = random.Random(seed)
        rows, whole, merged = [], aggregates.create(), aggregates.create()
        for _ in range(6):
            part = aggregates.create()
            for _ in range(generator.randrange(5)):
                if rows and generator.random() < 0.4:
                    row = rows.pop(generator.randrange(len(rows)))
                    aggregates.retract(whole, row)
                    aggregates.retract(part, row)
                else:
                    row = (generator.choice([None, 1, 2, 3, 50]), 0.5, generator.random() < 0.5)
                    rows.append(row)
                    aggregates.add(whole, row)
                    aggregates.add(part, row)
            before = repr(part)
            aggregates.merge(merged, part)
            aggregates.merge(aggregates.create(), part)
            assert repr(part) == before
        fresh = aggregates.create()
        for row in rows:
            aggregates.add(fresh, row)
        for name, *results in zip(
            MERGED, *[aggregates.results(each) for each in (whole, merged, fresh)], strict=True
        ):
            one, two, three = map(comparable, results)
            assert one == two == three, (seed, name)


def test_squared_distances_from_the_mean_are_merged():
    aggregates = AggregateSet([call("$$WELFORD_M2$1$1", "INT", result="DOUBLE")], TableSettings())
    merged = aggregates.create()
    for values in ((), (1,), (2, None, 3, 9)):
        part = aggregates.create()
        for value in values:
            aggregates.add(part, (value,))
        aggregates.merge(merged, part)
    aggregates.add(merged, (4,))
    aggregates.retract(merged, (9,))
    assert aggregates.results(merged) == [pytest.approx(5.0)]


def test_calls_with_distinct_share_their_values():
    calls = [MERGED["distinct count"], call("$SUM$1", "INT", distinct=True), MERGED["sum"]]
    aggregates = AggregateSet(calls, TableSettings())
    accumulators = aggregates.create()
    for value in (3, 3, 4, None):
        aggregates.add(accumulators, (value,))
    assert aggregates.results(accumulators) == [2, 7, 10]
    assert len(accumulators) == 2


def test_floats_differ_by_their_bits_where_they_are_counted():
    nan = float("nan")
    aggregates = AggregateSet(
        [
            call("$COUNT$1", "DOUBLE", result="BIGINT", distinct=True),
            call("$MAX$1", "DOUBLE"),
            call("$COLLECT$1", "DOUBLE", result="MULTISET<DOUBLE>"),
        ],
        TableSettings(),
    )
    accumulators = aggregates.create()
    for value in (nan, float("nan"), 0.0, -0.0, 1.0):
        aggregates.add(accumulators, (value,))
    distinct, greatest, collected = aggregates.results(accumulators)[0:3]
    assert (distinct, repr(greatest), len(collected)) == (4, "nan", 4)
    aggregates.retract(accumulators, (nan,))
    aggregates.retract(accumulators, (nan,))
    assert aggregates.results(accumulators)[:2] == [3, 1.0]


def test_user_function_is_called_as_pyflink_does():
    class Weighted:
        def create_accumulator(self):
            return [0, 0]

        def accumulate(self, accumulator, value, weight):
            accumulator[0] += value * weight
            accumulator[1] += weight

        def retract(self, accumulator, value, weight):
            self.accumulate(accumulator, value, -weight)

        def get_value(self, accumulator):
            return accumulator[0] // accumulator[1] if accumulator[1] else None

    kinds = (parse_type("INT"),) * 2
    asked = AggregateCall("wavg", (0, 1), kinds, kinds[0], retracts=True, is_user_function=True)
    aggregates = AggregateSet([asked], TableSettings(functions={"wavg": Weighted}))
    accumulators = aggregates.create()
    aggregates.add(accumulators, (2, 1))
    aggregates.add(accumulators, (8, 2))
    assert aggregates.results(accumulators) == [6]
    aggregates.retract(accumulators, (8, 2))
    assert aggregates.results(accumulators) == [2]


def test_keys_of_a_bundle_have_the_order_of_javas_hash_map():
    order = HashOrder([parse_type("STRING")])
    keys = [("a",), ("b",), ("c",), (None,), ("a longer text",)]
    assert sorted(order.sorted(keys)) == [0, 1, 2, 3, 4]
    # As recorded in minibatch.size3.agg.
    assert order.sorted([("c",), ("b",), ("a",)])[0] == 1


@pytest.mark.parametrize(
    ("function", "kind", "with_null", "without", "is_same"),
    [
        ("$ARRAY_AGG$1", "ARRAY<INT>", (1, None), (1, 2), False),
        ("$FIRST_VALUE$1", "ARRAY<INT>", (1, None), (1, 2), True),
        ("$FIRST_VALUE$1", "MAP<INT, INT>", ((1, None),), ((1, 2),), False),
    ],
)
def test_result_with_null_among_its_values_is_emitted_anew(function, kind, with_null, without, is_same):
    same = result_equality([AggregateCall(function, (0,), (parse_type("INT"),), parse_type(kind))])
    assert same((with_null,), (with_null,)) is is_same
    assert same((without,), (without,))
    assert same((None,), (None,))
    assert not same((without,), (with_null,))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("VARCHAR(2147483647)", ["a,b", "", "x", "y", "zz"]),
        ("INT", [0, 1, 2, -4, 3, 5, 7]),
        ("DOUBLE", [0.0, -2.25, 1.5, 3.0, 100.125]),
        ("DECIMAL(8, 2)", [Decimal(text) for text in ("2.25", "0.00", "-3.10", "99999.99", "1.50")]),
    ],
)
def test_multiset_is_in_the_order_of_a_map_of_java(kind, keys):
    assert [key for key, _ in in_hash_map(parse_type(kind), [(key, 1) for key in sorted(keys)])] == keys


def test_multiset_keeps_a_value_that_came_after_its_retraction():
    number = parse_type("INT")
    call = AggregateCall("$COLLECT$1", (0,), (number,), parse_type("MULTISET<INT>"), retracts=True)
    collect = create_aggregate(call, TableSettings({}))
    counts = collect.retract(collect.create(), (1,))
    assert collect.result(counts) == ((1, -1),)
    counts = collect.add(counts, (1,))
    assert collect.result(counts) == ((1, 0),)
    counts = collect.retract(collect.add(counts, (1,)), (1,))
    assert collect.result(counts) == ()
