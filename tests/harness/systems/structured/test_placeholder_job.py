"""Families that have a query for Structured Streaming only."""

from __future__ import annotations

from types import SimpleNamespace

from onceproof.harness.model.family import Workload
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.structured import placeholder_job as structured_only
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario


def test_query_only_family_is_valid_and_its_job_names_the_system_to_use():
    word_count = load_family("word_count")
    family = SimpleNamespace(
        name="words",
        generator_version=1,
        tasks=structured_only.tasks,
        job=structured_only.job,
        record_schema=word_count.record_schema,
        row_schema=word_count.row_schema,
        oracle_sql=word_count.oracle_sql,
        generate=lambda random: Workload({"words": [(0, "ant")]}),
        expected=word_count.expected,
    )
    check_family(family)
    verdict = try_scenario(family, scenario_of(family, 0)).verdict
    assert not verdict.passed
    assert "--system structured_streaming" in str(verdict.violations[0].witness)
