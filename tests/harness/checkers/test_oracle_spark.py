"""The Spark oracle: it agrees with the Python oracle on every family and finds each planted row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from onceproof.harness.campaign.trial_tables import TriedScenario
from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.model.columns import columns_of
from onceproof.harness.model.family import Declared, Family, FamilyError, options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import Row
from onceproof.harness.model.scenario import InputRecord, Parameter, Scenario, Schedule
from onceproof.harness.trials import trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceproof.harness.checkers.oracle_spark import Difference, FamilyTrials

pytestmark = pytest.mark.spark

FAMILIES = [load_family(name) for name in family_names()]
PER_FAMILY = 40
SIMULATED = 1000
"""The number of the scenario that the engine was run on."""
NULLS = 2000
"""From this number on, its rows have a null."""
OF_EVENT_TIME = (
    "behaviour_patterns",
    "flight_delays",
    "interval_join",
    "periodic_page_views",
    "random_job",
    "sessions",
    "sliding_word_count",
    "window_sum",
)
"""Families that declare, but in which a planted row is never what a run could have chosen."""

Plant = Callable[[list[Row]], list[Row]]


def lost(rows: list[Row]) -> list[Row]:
    return rows[1:]


def duplicated(rows: list[Row]) -> list[Row]:
    return [*rows, rows[0]]


def phantom(rows: list[Row]) -> list[Row]:
    unknown = "unknown" if isinstance(rows[0][0], str) else 987_654_321
    return [*rows, (unknown, *rows[0][1:])]


def wrong_value(rows: list[Row]) -> list[Row]:
    last = rows[0][-1]
    if isinstance(last, bool):
        wrong: Any = not last
    else:
        wrong = last + "?" if isinstance(last, str) else last + 1000
    return [(*rows[0][:-1], wrong), *rows[1:]]


def null_instead(rows: list[Row]) -> list[Row]:
    return [(None, *rows[0][1:]), *rows[1:]]


PLANTS: tuple[tuple[Plant, int, int], ...] = (
    (lost, 1, 0),
    (duplicated, 0, 1),
    (phantom, 0, 1),
    (wrong_value, 1, 1),
    (null_instead, 1, 1),
)


def scenario_of(
    records: Mapping[str, Sequence[InputRecord]], parameters: Mapping[str, Parameter]
) -> Scenario:
    fields: dict[str, Any] = dict.fromkeys(
        (
            "parallelism",
            "max_parallelism",
            "source_parallelism",
            "sink_parallelism",
            "channel_capacity",
            "checkpoint_interval_ms",
            "checkpoint_timeout_ms",
            "tolerable_failures",
            "retained",
            "restart_delay_ms",
            "step_budget",
            "generator_version",
        ),
        1,
    )
    tuples = {split: tuple(rows) for split, rows in records.items()}
    return Scenario(
        family="any",
        seed=1,
        parameters=dict(parameters),
        records=tuples,
        faults=(),
        schedule=Schedule(),
        **fields,
    )


OUTCOME = Outcome(
    family="any",
    generator_version=1,
    seed=1,
    passed=True,
    signature=None,
    violations=(),
    trace_hash="0",
    steps=1,
    attempts=1,
    checkpoints=1,
    kills=0,
    rescales=0,
    records=1,
    records_replayed=0,
    recovery_steps=0,
    milliseconds=0.1,
    coverage={},
    planned={},
    not_applicable={},
    points={},
)

Case = tuple[int, Mapping[str, Sequence[InputRecord]], Sequence[Row]]
"""Number, records, committed rows."""
Parameters = Mapping[int, Mapping[str, Parameter]]
"""By the number of a case what its family drew beside the records."""


def evidence_of(
    spark: SparkSession,
    family: Family,
    cases: Sequence[Case],
    parameters: Parameters | None = None,
    **ended: bool,
) -> FamilyTrials:
    """Bring cases the way of a campaign: through an Arrow batch whose lists Spark takes apart.

    Args:
        ended: how all of them ended; by default they have finished.
    """
    import pyarrow as pa

    from onceproof.harness.campaign.trial_tables import TrialTables
    from onceproof.harness.checkers.oracle_spark import FamilyTrials, arrow_schemas_of

    tables = TrialTables(family.name, *arrow_schemas_of(family))
    trials = [
        TriedScenario(
            number,
            scenario_of(records, (parameters or {}).get(number, {})),
            OUTCOME,
            rows,
            **{"finished": True} | ended,
        )
        for number, records, rows in cases
    ]
    batch = tables.batch(trials)
    return FamilyTrials.of(family, spark.createDataFrame(pa.Table.from_batches([batch])), len(trials))


def differences(spark: SparkSession, *all_evidence: FamilyTrials) -> list[Difference]:
    from onceproof.harness.checkers.oracle_spark import SparkOracle

    # For Python all rows are right.
    judged = SparkOracle(spark).judge(all_evidence)
    assert [each.scenarios for each in judged] == [each.scenarios for each in all_evidence]
    found = [each for of in judged for each in of.disagreements]
    return sorted(found, key=lambda each: (each.family, each.scenario))


def drawn(family: Family, count: int = PER_FAMILY) -> tuple[list[Case], dict[int, Mapping[str, Parameter]]]:
    """Drawn records with the rows that the Python oracle gives for them, and what was drawn beside."""
    cases: list[Case] = []
    parameters: dict[int, Mapping[str, Parameter]] = {}
    for number in range(count):
        workload = family.generate(Random(number))
        records, parameters[number] = dict(workload.records), workload.parameters
        declared = Declared(parameters=workload.parameters)
        cases.append((number, records, list(family.expected(records, declared))))
    return cases, parameters


def simulated(family: Family) -> tuple[Case, Mapping[str, Parameter]]:
    """A scenario with faults that was run, as executors of a campaign do it: the rows are the engine's."""
    scenarios = (trial.scenario_of(family, seed) for seed in count())
    # Of at-least-once only Python can judge.
    scenario = next(each for each in scenarios if each.checkpoint_mode.barriers != "at_least_once")
    outcome, history = trial.run_scenario(family, scenario)
    assert outcome.passed
    committed = TriedScenario.of(SIMULATED, scenario, outcome, history).for_query(family).committed
    return (SIMULATED, scenario.records, committed), scenario.parameters


def a_family(**members: Any) -> Family:
    """A family as far as oracles look at it."""
    defaults = {
        "name": "numbers",
        "record_schema": "number BIGINT, text STRING",
        "row_schema": "number BIGINT, text STRING",
        "oracle_sql": "SELECT scenario_id, number, text FROM records",
    }
    return cast(Family, SimpleNamespace(**{**defaults, **members}))


def with_nulls(case: Case, columns: int) -> Iterator[Case]:
    """Yield the case of the engine's run with a null in each column of one row."""
    _, records, rows = case
    for place in Random(0).sample(range(len(rows)), min(1, len(rows))):
        for column in range(columns):
            row = (*rows[place][:column], None, *rows[place][column + 1 :])
            yield NULLS + column, records, [*rows[:place], row, *rows[place + 1 :]]


class Judged(NamedTuple):
    """What one job has found in all families, and what it has to find."""

    differences: list[Difference]
    planted: dict[tuple[str, int], tuple[Plant, int, int]]
    """The scenarios that were given planted rows."""
    nulls: dict[tuple[str, int], bool]
    """The scenarios of families that declare with a null in a row, and whether rows differ for Python."""


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    """Judge drawn scenarios of every family, and some of them once more with a planted row, in one job."""
    all_evidence, planted, nulls = [], {}, {}
    for family in FAMILIES:
        cases, parameters = drawn(family)
        full = [number for number, _, rows in cases if rows]
        case, parameters[SIMULATED] = simulated(family)
        cases.append(case)
        plants: Iterable[tuple[int, tuple[Plant, int, int]]] = ()
        if not options_of(family).declares:
            plants = zip(full[::4], PLANTS, strict=False)
        elif family.name in OF_EVENT_TIME:
            plants = zip(full[::3], PLANTS * 3, strict=False)
        # Beside the scenarios that hold, none of which is lost to a plant.
        for number, plant in plants:
            _, records, rows = cases[number]
            cases.append((PER_FAMILY + number, records, plant[0](list(rows))))
            parameters[PER_FAMILY + number] = parameters[number]
            planted[family.name, PER_FAMILY + number] = plant
        if options_of(family).declares:
            for number, records, rows in with_nulls(case, len(columns_of(family.row_schema))):
                cases.append((number, records, rows))
                parameters[number] = parameters[SIMULATED]
                declared = Declared(rows, True, parameters[SIMULATED])
                expected = family.expected(records, declared)
                nulls[family.name, number] = Counter(expected) != Counter(rows)
        all_evidence.append(evidence_of(spark, family, cases, parameters))
    return Judged(differences(spark, *all_evidence), planted, nulls)


def test_both_oracles_agree_on_every_family_in_one_job(judged: Judged) -> None:
    sound = {*range(PER_FAMILY), SIMULATED}
    assert [each for each in judged.differences if each.scenario in sound] == []


def test_both_oracles_take_the_same_rows_with_a_null_as_declared(judged: Judged) -> None:
    found = {(each.family, each.scenario) for each in judged.differences if each.scenario >= NULLS}
    assert found == {place for place, differs in judged.nulls.items() if differs}
    declaring = {family.name for family in FAMILIES if options_of(family).declares}
    assert len({name for name, _ in judged.nulls}) > 0.5 * len(declaring)


def test_each_planted_row_is_found_in_its_scenario_and_nowhere_else(judged: Judged) -> None:
    # A row of a family that declares may be a choice of the run's, and then more than itself follows from it.
    certain = {family.name for family in FAMILIES if not options_of(family).declares}
    assert {
        (each.family, each.scenario): (each.missing, each.surplus)
        for each in judged.differences
        if each.family in certain
    } == {
        (name, number): (missing, surplus)
        for (name, number), (_, missing, surplus) in judged.planted.items()
        if name in certain
    }
    assert Counter(name for name, _ in judged.planted if name in certain) == dict.fromkeys(
        certain, len(PLANTS)
    )


@pytest.mark.parametrize("name", OF_EVENT_TIME)
def test_a_planted_row_is_no_valid_choice_of_an_event_time_run(name: str, judged: Judged) -> None:
    family = load_family(name)
    cases, parameters = drawn(family)
    planted = [number for of, number in judged.planted if of == name]
    assert len(planted) > len(PLANTS)
    for number in planted:
        plant, _, _ = judged.planted[name, number]
        _, records, rows = cases[number - PER_FAMILY]
        rows = plant(list(rows))
        declared = Declared(rows, True, parameters[number - PER_FAMILY])
        assert Counter(family.expected(records, declared)) != Counter(rows), plant
    found = [each.scenario for each in judged.differences if each.family == name and each.scenario < NULLS]
    assert found == planted


def test_rows_that_declare_an_impossible_choice_are_found(spark: SparkSession) -> None:
    # The watermark is at 9,999 from the second view on, so the third and the fourth may be late.
    views = {"log": [(0, "a"), (12_000, "a"), (9_999, "a"), (1, "a")]}
    second_window = ("views", "a", 20_000, 1)

    def rows_of(counts: Sequence[int], late: Sequence[int]) -> list[Row]:
        first_window: list[Row] = [("views", "a", 10_000, count) for count in counts]
        return [second_window, *first_window, *[("late", "a", 10_000, timestamp) for timestamp in late]]

    windows: list[Case] = [
        (0, views, rows_of([1], [9_999, 1])),
        (1, views, rows_of([1, 1], [1])),  # the window was opened anew after a restore
        (2, views, rows_of([2], [0])),  # the first view cannot have been late
        (3, views, rows_of([1], [1, 1])),  # nor one view twice
        (4, views, rows_of([2], [9_999, 1])),  # one view is counted and late
        (5, views, rows_of([1], [9_999])),
    ]
    numbers = {"one": [(0, 4), (1, 4), (2, 5)]}
    pairs: list[Case] = [
        (0, numbers, [(4, 5), (4, None)]),
        (1, numbers, [(4, 5), (5, None)]),
        (2, numbers, [(4, 4)]),
    ]
    found = differences(
        spark,
        evidence_of(spark, load_family("page_windows"), windows),
        evidence_of(spark, load_family("pairs"), pairs),
    )
    assert [(each.family, each.scenario) for each in found] == [
        *[("page_windows", number) for number in (2, 3, 4, 5)],
        *[("pairs", number) for number in (1, 2)],
    ]
    for name, cases in (("page_windows", windows), ("pairs", pairs)):
        family = load_family(name)
        right = [
            number
            for number, records, rows in cases
            if Counter(family.expected(records, Declared(rows))) == Counter(rows)
        ]
        assert right == ([0, 1] if name == "page_windows" else [0])


def test_a_difference_shows_its_rows(spark: SparkSession) -> None:
    family = load_family("word_count")
    records = {"words-0": [(0, "bee"), (1, "bee")]}
    evidence = evidence_of(spark, family, [(7, records, [("bee", 1), ("bee", 3), ("bee", 3)])])
    (found,) = differences(spark, evidence)
    assert (found.family, found.scenario, found.missing, found.surplus) == ("word_count", 7, 1, 2)
    assert sorted(found.sample) == [(("bee", 2), 1), (("bee", 3), -2)]


def test_nulls_are_values_and_equal_to_each_other(spark: SparkSession) -> None:
    family = a_family()
    records = {"one": [(0, (None, "a")), (1, (1, None)), (2, (None, None)), (3, (None, None))]}
    right = [(None, "a"), (1, None), (None, None), (None, None)]
    assert differences(spark, evidence_of(spark, family, [(0, records, right)])) == []
    (found,) = differences(spark, evidence_of(spark, family, [(0, records, right[:-1])]))
    assert (found.missing, found.surplus, found.sample) == (1, 0, (((None, None), 1),))


def test_repeated_rows_are_counted(spark: SparkSession) -> None:
    records = {"one": [(0, (1, "a")), (1, (1, "a"))], "two": [(0, (1, "a"))]}
    for times in range(6):
        evidence = evidence_of(spark, a_family(), [(0, records, [(1, "a")] * times)])
        found = [(each.missing, each.surplus) for each in differences(spark, evidence)]
        assert found == ([] if times == 3 else [(max(3 - times, 0), max(times - 3, 0))])


def test_scenarios_without_records_or_rows_are_judged(spark: SparkSession) -> None:
    cases: list[Case] = [
        (0, {"one": []}, []),
        (1, {"one": []}, [(1, "a")]),
        (2, {"one": [(0, (1, "a"))]}, []),
    ]
    found = differences(spark, evidence_of(spark, a_family(), cases))
    assert [(each.scenario, each.missing, each.surplus) for each in found] == [(1, 0, 1), (2, 1, 0)]


def test_a_scenario_that_was_neither_judged_nor_finished_is_read(spark: SparkSession) -> None:
    evidence = evidence_of(
        spark, a_family(), [(0, {"one": [(0, (1, "a"))]}, [])], finished=False, is_judged=False
    )
    assert differences(spark, evidence) == []


def test_columns_may_have_any_name(spark: SparkSession) -> None:
    family = a_family(
        record_schema="family STRING, balance BIGINT",
        row_schema="`the row` STRING, balance BIGINT, family STRING",
        oracle_sql="SELECT scenario_id, balance, family, family AS `the row` FROM records;\n",
    )
    records = {"one": [(0, ("a", 1)), (1, ("b", 2))]}
    (found,) = differences(spark, evidence_of(spark, family, [(0, records, [("a", 1, "a")])]))
    assert found.sample == ((("b", 2, "b"), 1),)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"oracle_sql": "SELECT scenario_id, numbr FROM records"}, "oracle_sql of family numbers: .*numbr"),
        ({"oracle_sql": "SELECT scenario_id, number FROM records"}, "oracle_sql of family numbers: .*text"),
        ({"oracle_sql": "SELEC scenario_id FROM records"}, "oracle_sql of family numbers: .*SELEC"),
        ({"oracle_sql": "SELECT number, text FROM records"}, "oracle_sql of family numbers: .*scenario_id"),
        (
            {"row_schema": "number NUMBER"},
            "row_schema of family numbers: 'number NUMBER' is not valid Spark DDL",
        ),
        (
            {"record_schema": "number, text"},
            "record_schema of family numbers: 'number, text' is not valid Spark DDL",
        ),
        ({"record_schema": "offset BIGINT"}, "the column name 'offset' is already in use"),
        ({"row_schema": "a STRING, A STRING"}, "the column name 'A' is already in use"),
    ],
)
def test_a_wrong_query_or_schema_is_one_line(spark: SparkSession, members: dict[str, str], said: str) -> None:
    with pytest.raises(FamilyError, match=said) as error:
        differences(spark, evidence_of(spark, a_family(**members), [(0, {"one": []}, [])]))
    assert "\n" not in str(error.value)


def test_a_query_that_fails_on_a_record_names_the_family(spark: SparkSession) -> None:
    family = a_family(oracle_sql="SELECT scenario_id, 1 div number AS number, text FROM records")
    with pytest.raises(FamilyError, match=r"oracle_sql of family numbers: .*DIVIDE_BY_ZERO"):
        differences(spark, evidence_of(spark, family, [(0, {"one": [(0, (0, "a"))]}, [])]))


def test_a_value_outside_the_schema_names_the_family(spark: SparkSession) -> None:
    for value in ((1.5, "a"), ("a", "a"), (1,), 2**70):
        with pytest.raises(FamilyError, match=r"family numbers: .*record_schema"):
            evidence_of(spark, a_family(), [(0, {"one": [(0, cast(Any, value))]}, [])])


@pytest.mark.parametrize(("tasks", "shuffled_tables"), [(1, 0), (2, 4)])
def test_a_judgement_shuffles_each_table_once_and_its_result(
    spark: SparkSession, tasks: int, shuffled_tables: int
) -> None:
    from onceproof.harness.checkers import oracle_spark

    before = {table.name for table in spark.catalog.listTables()}
    trials = []
    for name in ("word_count", "page_views"):
        cases, _ = drawn(load_family(name), 2)
        trials.append(evidence_of(spark, load_family(name), cases))
    settings = dict(oracle_spark._SETTINGS)
    if tasks == 1:
        settings |= oracle_spark._ONE_TASK_PER_FAMILY_SETTINGS
    with oracle_spark._configured(spark, settings):
        judged: Any = oracle_spark.SparkOracle(spark)._judged(trials, tasks)
        plan = judged._jdf.queryExecution().executedPlan().toString()
    # Inputs and outputs of each family if they have several tasks, and in any case the rows of the families.
    assert plan.count("Exchange ") == shuffled_tables + 1
    assert {table.name for table in spark.catalog.listTables()} == before
