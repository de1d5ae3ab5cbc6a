"""The plan of a campaign: that of a run, and what Spark and the store of the trials need."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from onceproof.engine.runtime.spark_settings import NO_OPTIONS, SparkOptions
from onceproof.harness.trials.minimums import Minimums
from onceproof.harness.trials.run_plan import RunPlan


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """A campaign with every option decided."""

    run: RunPlan
    """Its time limit includes the start of Spark."""
    _: KW_ONLY
    spark: SparkOptions = NO_OPTIONS
    """Spark's master and options, if no session is given."""
    store: str | None = None
    """The folder or address of the trials, which all executors reach; None: a folder in that of the run."""
    minimums: Minimums = field(default_factory=Minimums)
    """What the campaign runs although its time is over."""
    resumes: bool = True
    """Whether to resume the same campaign, or to begin anew even if another one is unfinished."""
