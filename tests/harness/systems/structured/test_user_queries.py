"""Queries as people write them, under real kills, with nothing but their file and its records.

One driver serves all tests, because a start of Spark takes longer than a test. The files are in `user_queries`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.checkers.exactly_once import DUPLICATED, LOST, PHANTOM, WRONG_VALUE
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.structured.system import StructuredStreamingSystem
from onceproof.harness.trials.trial import scenario_of, try_scenario

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]

FOLDER = Path(__file__).with_name("user_queries")
AFTER_COMMIT = Fault("kill_task", "committed", checkpoint=1)
"""The query fails when its sink has written a batch, and Spark does not know it: it runs the batch again."""
IN_WORKER = Fault("kill_task", "element", occurrence=3)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    with closing(StructuredStreamingSystem(tmp_path_factory.mktemp("runs"))) as system:
        yield system


def tried(system, address, *faults, records=6):
    """Run the first records of a query, in two batches at least, and return the trial."""
    family = load_family(str(FOLDER / address))
    drawn = scenario_of(family, 1)
    first = {
        f"{name}.0": tuple((time, text) for text, time in pool.records[:records])
        for name, pool in family.pools.items()
    }
    scenario = msgspec.structs.replace(
        drawn, records=first, faults=faults, mode=msgspec.UNSET, parallelism=2, source_parallelism=1
    )
    trial = try_scenario(family, scenario, system=system)
    assert trial.history.statistics.coverage == Counter([(fault.kind, fault.point) for fault in faults])
    return trial


def passed(system, address, *faults, records=6):
    """Check that a query passes, and return its rows."""
    trial = tried(system, address, *faults, records=records)
    assert trial.verdict.violations == ()
    return rows_at_end(trial.history)


def test_windows_that_closing_records_close_are_judged(system):
    rows = passed(system, "page_views.py?sample=views=views.jsonl", AFTER_COMMIT, records=8)
    assert len(rows) > 2


def test_a_function_that_drops_duplicates_within_the_watermark_passes(system):
    rows = passed(system, "distinct_payments.py?sample=payments=payments.jsonl", AFTER_COMMIT, records=8)
    assert len(set(rows)) == len(rows) < 8


def test_an_outer_join_of_two_sources_on_event_time_passes(system):
    rows = passed(system, "matched_clicks.py", IN_WORKER)
    assert any(None in row for row in rows)
    assert any(None not in row for row in rows)


def test_state_of_its_own_in_update_mode_passes(system):
    assert passed(system, "running_totals.py", AFTER_COMMIT)


def test_transform_with_state_passes(system):
    assert len(passed(system, "sessions.py?sample=events=events.jsonl", AFTER_COMMIT)) == 6


def test_upserts_by_foreach_batch_pass(system):
    rows = passed(system, "balances.py", AFTER_COMMIT)
    assert len({account for account, _ in rows}) == len(rows)
