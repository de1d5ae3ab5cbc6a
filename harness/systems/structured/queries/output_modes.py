"""In which output mode Spark runs a query as a stream, and what of it keeps state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession

from onceproof.engine.runtime.spark_session import SPARK_ERRORS
from onceproof.harness.systems.structured.queries.event_times import MOST_CLOSING_RECORDS

AnyMode = TypeVar("AnyMode", bound=str)

_OF_A_MODE: Final = "STREAMING_OUTPUT_MODE"
"""In the message of an error that another output mode may mend."""
STATE_OF_ITS_OWN: Final = ("FlatMapGroupsInPandasWithState", "TransformWithState", "FlatMapGroupsWithState")
OUT_OF_ORDER: Final = ("Aggregate", "Deduplicate", "Join", *STATE_OF_ITS_OWN)
"""The operators whose rows may depend on the order in which records arrive."""


def accepted_mode(session: SparkSession, rows: DataFrame, modes: Sequence[AnyMode]) -> AnyMode:
    """Return the first output mode in which rows can be a stream.

    Raises one of Spark's errors where they can in none.
    """
    jvm: Any = session._jvm
    outputs = jvm.org.apache.spark.sql.streaming.OutputMode
    known = {"append": outputs.Append, "complete": outputs.Complete, "update": outputs.Update}
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    errors: list[Exception] = []
    for mode in modes:
        try:
            checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), known[mode]())
        except SPARK_ERRORS as error:
            errors.append(error)
        else:
            return mode
    # What no mode mends tells more than that one of them does not fit.
    raise next((error for error in errors if _OF_A_MODE not in str(error)), errors[0])


def plan_of(rows: DataFrame) -> str:
    """Return the analyzed plan of a query as a text."""
    return str(rows._jdf.queryExecution().analyzed().toString())


def closing_count(plan: str) -> int:
    """Return how many records close what a plan keeps open: one more than it has operators with state."""
    return min(1 + max(1, sum([plan.count(each) for each in OUT_OF_ORDER])), MOST_CLOSING_RECORDS)
