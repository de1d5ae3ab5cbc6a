"""Campaigns in a session of a user's: what the user has set there stays, and does not change the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.engine.configuration import ConfigurationError
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = ("declared", "parameters", "records")
"""The tables that the query of a family names."""
SETTINGS = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}


@pytest.fixture
def user_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session with views that have the names of ours, and settings of its own."""
    session = spark.newSession()
    for name in VIEWS:
        session.createDataFrame([(f"my {name}",)], "mine STRING").createOrReplaceTempView(name)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    yield session
    for name in VIEWS:
        session.catalog.dropTempView(name)


def check_untouched(session: SparkSession) -> None:
    assert {each.name for each in session.catalog.listTables()} == set(VIEWS)
    for name in VIEWS:
        assert session.table(name).collect() == [(f"my {name}",)]
    assert {name: session.conf.get(name) for name in SETTINGS} == SETTINGS


def test_a_campaign_keeps_the_views_and_settings_of_the_session(
    user_session: SparkSession, tmp_path: Path
) -> None:
    from onceproof.harness.campaign.pipeline import run_campaign

    # One family reads `declared` and `parameters` as well.
    plan = RunPlan(("word_count", "page_windows"), scenarios=10, workers=1, out=tmp_path)
    result = run_campaign(CampaignPlan(plan), user_session)
    assert result.passed
    assert result.judged == 10
    plain = run(plan)
    assert result.run.tally.trace_hash() == plain.tally.trace_hash()
    check_untouched(user_session)


def test_the_oracle_reads_no_view_of_the_user(user_session: SparkSession) -> None:
    from onceproof.harness.campaign.judge import check_judgeable
    from onceproof.harness.campaign.trial_tables import TrialTables
    from onceproof.harness.checkers.oracle_spark import SparkOracle, arrow_schemas_of
    from onceproof.harness.model.family_places import load_family

    word_count = load_family("word_count")
    records = user_session.createDataFrame(
        [(0, "words", 0, 0, "bee")],
        "scenario_id BIGINT, split STRING, offset BIGINT, timestamp BIGINT, word STRING",
    )
    expected = SparkOracle(user_session).expected(word_count, records)
    assert expected.collect() == [(0, "bee", 1)]
    check_judgeable(user_session, word_count, TrialTables("word_count", *arrow_schemas_of(word_count)))
    check_untouched(user_session)


def test_a_session_that_is_there_is_used_and_stays(user_session: SparkSession, tmp_path: Path) -> None:
    from onceproof.harness.campaign.pipeline import run_campaign

    plan = CampaignPlan(RunPlan(("word_count",), scenarios=4, out=tmp_path))
    assert run_campaign(plan).judged == 4
    check_untouched(user_session)


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    from onceproof.harness.campaign.pipeline import run_campaign

    class RemoteSession:
        """As pyspark.sql.connect.session.SparkSession: no subclass of the usual one."""

    plan = CampaignPlan(RunPlan(("word_count",), scenarios=4, out=tmp_path))
    with pytest.raises(ConfigurationError, match=r"^a session of Spark Connect is not supported"):
        run_campaign(plan, RemoteSession())  # type: ignore[arg-type]
