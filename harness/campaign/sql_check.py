"""Whether a family's schemas and SQL agree with its Python oracle on runs in which nothing goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from onceproof.harness.campaign.judge import Trials, check_judgeable, disagreements
from onceproof.harness.campaign.trial_tables import VERDICTS, TrialTables, TriedScenario, verdicts
from onceproof.harness.checkers.oracle_spark import arrow_schemas_of
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.family_mistakes import FamilyMistake
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.trial import scenario_of, try_scenario


def sql_mistake_of(session: SparkSession, family: Family, seed: int, scenarios: int) -> FamilyMistake | None:
    """Return the mistake in a family's schemas or SQL that the first scenarios of a run show.

    Args:
        session: the Spark session that runs ``oracle_sql``.
        seed: the seed of the run.
    """
    try:
        tables = TrialTables(family.name, *arrow_schemas_of(family))
        check_judgeable(session, family, tables)
        trials = list(_trials(family, seed, scenarios))
        batch = tables.batch(trials)
        table = session.createDataFrame(pa.Table.from_batches([batch]))
        judged = pa.Table.from_batches([verdicts(trials, batch)], VERDICTS)
        found = disagreements(session, [Trials(family, table, judged)])
    except FamilyError as error:
        return FamilyMistake("oracle_sql", f"{error}")
    if not found:
        return None
    return FamilyMistake("oracle_sql", f"oracle_sql and expected() disagree, so one is wrong: {found[0]}")


def _trials(family: Family, seed: int, scenarios: int) -> Iterator[TriedScenario]:
    for number in range(scenarios):
        scenario = undisturbed(scenario_of(family, scenario_seed(seed, family.name, number)))
        trial = try_scenario(family, scenario, twice=False, continued=False)
        outcome = outcome_of(trial.scenario, trial.history, trial.verdict)
        yield TriedScenario.of(number, trial.scenario, outcome, trial.history).for_query(family)
