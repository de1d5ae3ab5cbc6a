"""The statements of vectors over all rows leave the tables that Flink has recorded, late rows included.

A recorded table is one of those that the rows which are behind the watermark may leave.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from onceproof.engine.table.expressions.registry import compile_expression
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import read_plan
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import read_type
from onceproof.engine.table.values import KIND_OF, row_decoder
from onceproof.harness.scripts.sql.batch import batch_of
from onceproof.harness.scripts.sql.drawn_rows import rows_left
from onceproof.harness.scripts.sql.late_rows import Mark, MaybeLate, inputs_of, lateness_of
from onceproof.harness.scripts.sql.sql_ends import SinkTable, sources_of
from onceproof.harness.scripts.sql.statements import Statement, Statements
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)

SETTINGS = TableSettings({"table.local-time-zone": "UTC"})
LATE = (
    "cmp.window.dedup.rank",
    "late.boundary.tumble",
    "late.boundary.over",
    "late.boundary.hop",
    "leg.hop/a",
    "leg.tumble.nokey/a",
    "over.range_5s/a",
    "over.rows_1/a",
    "tvf.cascade/a",
    "tvf.hop_off.agg/a",
    "tvf.idle.state/a",
    "tvf.tumble.having/a",
    "wdedup.first/a",
    "wj.full",
    "wj.hop",
    "wtop.2/a",
)
"""Statements that have dropped rows."""
ON_TIME = (
    "nx.q8.window_join",
    "nx.q18.last_bid",
    "nx.q19.top",
    "agg.having/b",
    "join.left.upsert_both",
    "set.except_all",
    "topn.top2/n",
    "over.lag/a",
    "tvf.negative_epoch/x",
)


@cache
def vectors():
    return {each.id: each for each in read_sql_vectors(DEFAULT_SQL_VECTORS)}


@cache
def plans():
    return read_plans()


def late_rows(plan, batch, rows):
    found = []
    assigners = {node.inputs: node.attributes for node in plan.nodes if node.type == "watermark-assigner"}
    for scan in [node for node in plan.nodes if node.type == "table-source-scan"]:
        name = scan.attributes["scanTableSource"]["table"]["identifier"].split("`")[-2]
        (lateness,) = {*lateness_of(plan, name, SETTINGS).values()}
        if lateness is None or not lateness.is_dropped:
            continue
        if lateness.is_by_window != (name in batch.windowed):
            continue
        attributes = assigners[scan.id,]
        watermark = compile_expression(attributes["watermarkExpr"], SETTINGS.scope(Moment()))
        mark = Mark(lambda row, column=attributes["rowtimeFieldIndex"]: row[column], watermark)
        for place, row in enumerate(rows[name]):
            if (behind := mark.behind(row)) and (ends := lateness.ends(*behind)):
                found.append(MaybeLate(name, place, tuple(ends)))
            mark.take(row)
    return found


@pytest.mark.parametrize("name", [*LATE, *ON_TIME])
def test_batch_has_the_recorded_table(name):
    vector = vectors()[name]
    request, content = request_of(vector), vector.content
    plan = read_plan(plans()[digest_of(request)]["plan"])
    columns = [
        {"name": column, "fieldType": kind.replace(" *ROWTIME*", "")}
        for column, kind in content["result"]["schema"]
    ]
    sources = sources_of(plan)
    row_type = read_type({"type": "ROW", "fields": columns})
    sink = SinkTable(TableEnd("out", "out", row_type, {}, (), tuple(KIND_OF.values())), None)
    ddl = tuple([Statement(1, text) for text in request.ddl])
    statements = Statements(
        dict(request.options), ddl, (Statement(1, f"INSERT INTO `out` {content['query']}"),)
    )
    batch = batch_of(statements, sources, {"out": sink})
    rows = {}
    for table, source in sources.items():
        decode = row_decoder(source.end.type)
        changes = [(KIND_OF[kind], decode(row)) for kind, *row in content["tables"][table]["rows"]]
        rows[table] = rows_left(changes, source.mode, source.end.primary_key)
    late = late_rows(plan, batch, rows)
    decode = row_decoder(row_type)
    recorded = Counter([sink.cells(decode(row)) for row in content["result"]["table"]])
    found = [tables["out"] for tables in batch.tables(rows, late)]
    assert len(found) == inputs_of(late)
    assert recorded in found
    if name in LATE:
        assert recorded != found[0]
