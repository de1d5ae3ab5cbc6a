"""Operators that wait for a time ask for it anew when their task is woken for something else."""

from types import SimpleNamespace

import pytest

from onceproof.engine.table.nodes.mini_batch import ProcessingTimeBundles
from onceproof.engine.table.nodes.sources import WatermarkAssigner
from onceproof.engine.table.table_settings import TableSettings

ROWTIME = {"kind": "INPUT_REF", "inputIndex": 0, "type": "TIMESTAMP(3)"}


@pytest.mark.parametrize(
    "operator",
    [WatermarkAssigner(ROWTIME, 0, TableSettings({})), ProcessingTimeBundles(10)],
    ids=["watermarks", "bundles"],
)
def test_operator_that_is_woken_too_early_asks_anew(operator):
    now, asked = [100], []
    downstream = SimpleNamespace(wake_at=asked.append, wake_at_steady=asked.append, watermark=lambda at: None)
    operator.open(
        SimpleNamespace(
            downstream=downstream,
            clock=lambda: now[0],
            steady_clock=lambda: now[0],
            auto_watermark_interval_ms=10,
        )
    )
    for now[0] in (104, 110):
        operator.process_time(now[0])
    assert asked == [110, 110, 120]
