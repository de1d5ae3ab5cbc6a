"""Jobs of plans that are stopped with a savepoint leave the same table at another parallelism."""

import pytest

from tests.engine.table.plan_runs import changes_in, plan_of, run, run_rescaled, table_of

STATEFUL = [
    "agg.distinct.multi/b",
    "agg.array_agg/b",
    "retr.minmax.key/n",
    "retr.first_last/n",
    "topn.top2/n",
    "topn.updating.norank/n",
    "topn.updating.count/n",
    "limit.updating/n",
    "cls.upsert.filter",
    "dedup.event.first/a",
    "dedup.then.agg/b",
    "order.time.second/b",
    "minibatch.size3.agg",
    "minibatch.all.agg_of_agg",
    "tvf.hop.agg/a",
    "tvf.session.raw/a",
    "cmp.window.dedup.rank",
    "leg.hop/a",
    "leg.session/a",
    "wtop.2/a",
    "wdedup.last/a",
    "wj.inner",
    "over.rows_unb/a",
    "over.range_unb/a",
    "over.rows_1/a",
    "over.range_5s/a",
    "over.updating/n",
    "mr.vshape/a",
    "mr.within3",
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", STATEFUL)
def test_table_is_the_same_after_rescaling(tmp_path, name, backend):
    plan, changes_of = plan_of(name), changes_in(name)
    expected = table_of(run(plan, changes_of))
    assert expected
    found = table_of(run_rescaled(plan, changes_of, tmp_path, (2, 3, 1), backend))
    assert found == expected
