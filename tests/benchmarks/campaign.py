"""How much slower a campaign on Spark is than a bare pool of processes, and how fast its oracle judges.

The rules this module lives by:

- Both run the same scenarios of the same seed, and their trace hashes must be equal: what is compared is the
  same work. They take turns, and the best time of each counts, for other work on the machine only adds.
- A campaign's time includes its work beyond the pool: Parquet, both oracles, the outcomes. The start of Spark
  is a separate figure, because a night has one however long it is. Processor time is that of all processes.
- The oracle is timed on the first 10,000 trials of the last campaign, warm, as one job over all families that
  also compares its verdicts with Python's, as in the campaign itself: the two must agree.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from onceproof.engine.runtime.spark_session import spark_session
from onceproof.harness.campaign.answers import answers_in
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.executor import Survey
from onceproof.harness.campaign.file_stores import store_of
from onceproof.harness.campaign.judge import Judgement
from onceproof.harness.campaign.pipeline import TRIALS, run_campaign
from onceproof.harness.campaign.trial_files import WrittenFile
from onceproof.harness.campaign.trial_store import PARTS
from onceproof.harness.campaign.trial_tables import TrialTables
from onceproof.harness.checkers.oracle_spark import arrow_schemas_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.peer_clock import Stopwatch

FAMILIES: Final = ("word_count", "page_views", "flights")
SCENARIOS: Final = 15_000
"""Half a minute of work: what a campaign costs once, however long it is, must not be all that is measured."""
ROUNDS: Final = 2
ORACLE_SCENARIOS: Final = 10_000
ORACLE_ROUNDS: Final = 3
SEED: Final = 1


class NotTheSame(Exception):
    """The pool and Spark ran different scenarios; the message is one line."""


def measure(scenarios: int = SCENARIOS, rounds: int = ROUNDS) -> Measurement:
    """Measure campaign and oracle beside the pool."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder, spark_session() as session:
        started = time.perf_counter() - begun
        spark_out, pool_out = Path(folder, "spark"), Path(folder, "pool")
        # Workers start, and Java compiles what it will need.
        warmup = RunPlan(FAMILIES, scenarios=scenarios // 10 + 1, seed=SEED + 1, out=spark_out)
        run_campaign(CampaignPlan(warmup), session)
        plan = RunPlan(FAMILIES, scenarios=scenarios, seed=SEED, out=spark_out)
        spark_seconds, pool_seconds, judging_seconds = [], [], []
        spark_cpu, pool_cpu = [], []
        for _ in range(rounds):
            stopwatch = Stopwatch()
            plain = run(plan, pool_out)
            pool_cpu.append(stopwatch.seconds()["cpu"])
            stopwatch = Stopwatch()
            campaign = run_campaign(CampaignPlan(plan), session)
            spark_cpu.append(stopwatch.seconds()["cpu"])
            if plain.tally.trace_hash() != campaign.run.tally.trace_hash() or not campaign.passed:
                raise NotTheSame("pool and Spark gave different verdicts on the same scenarios")
            pool_seconds.append(plain.seconds)
            spark_seconds.append(campaign.run.seconds)
            files = len(list((spark_out / TRIALS / PARTS).iterdir()))
            judging_seconds += [_judge(session, spark_out) for _ in range(ORACLE_ROUNDS)]
    spark, pool = min(spark_seconds), min(pool_seconds)
    return Measurement(
        name="campaign",
        figures={
            "scenarios_per_second": round(scenarios / spark, 1),
            "overhead_percent": round(100 * (spark / pool - 1), 1),
            "cpu_ms_per_scenario": round(1000 * min(spark_cpu) / scenarios, 2),
            "files": float(files),
            "oracle_seconds": round(min(judging_seconds), 3),
            "oracle_scenarios": float(min(scenarios, ORACLE_SCENARIOS)),
            "spark_start_seconds": round(started, 2),
        },
        floors={
            "scenarios_per_second": round(scenarios / pool, 1),
            "cpu_ms_per_scenario": round(1000 * min(pool_cpu) / scenarios, 2),
        },
        ratios={"scenarios_per_second": round(pool / spark, 3)},
        machine=machine_text(),
    )


def _judge(session: SparkSession, out: Path) -> float:
    """Return how long Spark SQL takes over the first trials of a campaign."""
    parts = store_of(out / TRIALS / PARTS)
    files: dict[int, list[WrittenFile]] = {}
    for batch in Survey(len(FAMILIES), parts, sorted(parts.names())).run():
        for answer in answers_in(pa.Table.from_batches([batch])):
            if answer.written and answer.turns[0].start < ORACLE_SCENARIOS / len(FAMILIES):
                files.setdefault(answer.place, []).append(answer.written)
    families = []
    for place, name in enumerate(FAMILIES):
        family = load_family(name)
        families.append((family, TrialTables(name, *arrow_schemas_of(family)), parts, files[place]))
    begun = time.perf_counter()
    for found in Judgement(families).run(session):
        if found.disagreements:
            raise NotTheSame(f"the two oracles disagree: {found.disagreements[0]}")
    return time.perf_counter() - begun
