"""Queries as people write them, under real kills, with nothing but their file and its records.

One driver serves all tests, because a start of Spark takes longer than a test. The files are in
`user_queries`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.checkers.exactly_once import DUPLICATED, WRONG_VALUE
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


@pytest.fixture(scope="module", autouse=True)
def system(tmp_path_factory):
    """Of all tests: those that only look at a query start drivers, too, which end with the system."""
    with closing(StructuredStreamingSystem(tmp_path_factory.mktemp("runs"))) as system:
        yield system


@pytest.fixture
def tried(system):
    def tried(address, *faults, records=6, first_is_last=False):
        """Run the first records of a query, in at least two batches, and return the trial."""
        family = load_family(str(FOLDER / address))
        first = {
            f"{name}.0": tuple([(time, text) for text, time in pool.records[:records]])
            for name, pool in family.pools.items()
        }
        if first_is_last:
            first = {split: (*own[1:], own[0]) for split, own in first.items()}
        scenario = msgspec.structs.replace(
            scenario_of(family, 1),
            records=first,
            faults=faults,
            mode=msgspec.UNSET,
            parallelism=1,
            source_parallelism=1,
        )
        trial = try_scenario(family, scenario, system=system)
        assert trial.history.statistics.coverage == Counter([(fault.kind, fault.point) for fault in faults])
        return trial

    return tried


@pytest.fixture
def passed(tried):
    def passed(address, *faults, **choices):
        """Check that a query passes, and return its rows."""
        trial = tried(address, *faults, **choices)
        assert trial.verdict.violations == ()
        return rows_at_end(trial.history)

    return passed


@pytest.fixture
def changed(tmp_path):
    def changed(file, old, new):
        """Return the path of a file of `user_queries` with a mistake."""
        text = (FOLDER / file).read_text(encoding="utf-8")
        assert text.count(old) == 1
        path = tmp_path / file
        path.write_text(text.replace(old, new), encoding="utf-8")
        return path

    return changed


def test_windows_close_in_append_mode_with_a_late_record_or_without_it(passed):
    rows = passed("page_views.py?sample=views=views.jsonl", AFTER_COMMIT, records=12, first_is_last=True)
    assert sum(int(row[0].rpartition(":")[2].rstrip("}")) for row in rows) in (11, 12)


def test_duplicates_within_the_watermark_are_dropped_once(passed):
    rows = passed("distinct_payments.py?sample=payments=payments.jsonl", IN_WORKER, records=8)
    assert len(set(rows)) == len(rows) < 8


def test_an_outer_join_of_two_sources_on_event_time_passes(passed, tmp_path):
    clicks = tmp_path / "clicks.jsonl"
    clicks.write_text('{"clicked_ad": "ada", "clicked": "2026-03-02T09:00:30"}\n', encoding="utf-8")
    rows = passed(f"matched_clicks.py?sample=clicks={clicks}", IN_WORKER, records=4)
    assert {row[2] for row in rows} == {"ada", None}


def test_arbitrary_state_in_update_mode_passes(passed):
    assert passed("running_totals.py", AFTER_COMMIT)


def test_transform_with_state_passes(passed):
    assert len(passed("numbered_events.py?sample=events=events.jsonl", IN_WORKER)) == 6


def test_upserts_by_for_each_batch_pass(passed):
    rows = passed("balances.py", AFTER_COMMIT)
    assert len({account for account, _ in rows}) == len(rows)


def test_an_upsert_that_adds_counts_a_repeated_batch_twice(tried, changed):
    path = changed("balances.py", "excluded.cents", "cents + excluded.cents")
    [violation, *_] = tried(path, AFTER_COMMIT).verdict.violations
    assert violation.signature() == ("exactly_once", WRONG_VALUE)


def test_for_each_batch_that_appends_without_the_batch_id_is_caught(tried):
    [violation, *_] = tried("pages.py", AFTER_COMMIT).verdict.violations
    assert violation.signature() == ("exactly_once", DUPLICATED)


def test_totals_in_a_global_dict_are_caught_without_any_fault(tried):
    [violation, *_] = tried("totals_in_a_dict.py", records=12).verdict.violations
    assert violation.signature() == ("exactly_once", WRONG_VALUE)


def test_a_query_without_known_records_says_which_sample_it_needs():
    with pytest.raises(FamilyError, match=r"source 'views' are not on this machine: .* --sample views=FILE"):
        load_family(str(FOLDER / "page_views.py")).look  # noqa: B018


def test_an_output_mode_that_spark_refuses_is_a_mistake_of_the_file(changed):
    path = changed("balances.py", 'outputMode("update")', 'outputMode("append")')
    with pytest.raises(FamilyError, match="Invalid streaming output mode: append"):
        load_family(str(path)).look  # noqa: B018
