"""What a family's Structured Streaming version is given, and how the query that it returns is started.

The rules this module lives by:

- A family takes part with one option, the function ``streaming_query(records, io)``. It gets the records as a
  streaming DataFrame and returns rows: a DataFrame for the sink of the harness, or what one of the sinks of
  ``io`` makes of one. So a family in ``scenarios`` need not import Spark, and a user's file may.
- Whatever the sink, the query is started in one way, with a checkpoint location, until the input is consumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.structured import query_state as structured_state
from onceproof.harness.systems.structured.query_fault_board import StructuredBoard
from onceproof.harness.systems.structured.query_sink import ROWS, Store, storing, upsert
from onceproof.harness.systems.structured.query_source import COLUMNS, DRIVER_PROCESS, RECORDS, SPEC

Mode: TypeAlias = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Rows, and where they go."""

    rows: DataFrame
    store: Store | None = None
    """What foreachBatch calls; None: Spark's own file sink."""
    mode: Mode = "append"


class StreamIO:
    """The ends of a query, and the ways of Spark to keep state."""

    transform_with_state = staticmethod(structured_state.transform_with_state)
    transform_with_state_in_pandas = staticmethod(structured_state.transform_with_state_in_pandas)
    apply_in_pandas_with_state = staticmethod(structured_state.apply_in_pandas_with_state)

    def __init__(self, spec: Spec) -> None:
        self.parallelism = spec.parallelism
        """How many partitions keyed state has."""
        self.parameters: Mapping[str, Parameter] = spec.parameters
        self.output = Path(spec.output)
        """The folder that readers look at: each line of its files is a row, but for those that are hidden."""

    def files(self, rows: DataFrame) -> Ending:
        """Write rows with Spark's file sink, which is exactly-once by its log."""
        return Ending(rows)

    def for_each_batch(self, rows: DataFrame, store: Store, mode: Mode = "append") -> Ending:
        """Have ``store(batch, batch_id)`` write the rows of each batch into ``output``."""
        return Ending(rows, store, mode)

    def table(self, rows: DataFrame, keys: int) -> Ending:
        """Write rows by their first ``keys`` columns, as a family with the option ``table_keys`` does."""
        return Ending(rows, partial(_into_table, self.output, keys), "update")


def _into_table(output: Path, keys: int, rows: DataFrame, batch: int) -> None:
    upsert(output, rows.collect(), keys)


def check_streaming_query(family: Family) -> None:
    """Raise FamilyError where a family has no version for Structured Streaming."""
    _streaming_query_of(family)


def _streaming_query_of(family: Family) -> Callable[[Any, Any], Any]:
    streaming_query = options_of(family).streaming_query
    if streaming_query is None:
        raise FamilyError(
            f"family {family.name!r} has no version for Structured Streaming: give it a function"
            " streaming_query(records, io) and options = FamilyOptions(streaming_query=streaming_query)"
        )
    return streaming_query


def start(
    family: Family, spec: Spec, path: str, session: SparkSession, board: StructuredBoard
) -> StreamingQuery:
    """Start the query of a family over the checkpoint location of a job."""
    streaming_query = _streaming_query_of(family)
    ends = {SPEC: path, DRIVER_PROCESS: str(os.getpid())}
    # Kept in the checkpoint location from the first batch on.
    session.conf.set("spark.sql.shuffle.partitions", str(spec.parallelism))
    records = (
        session.readStream.format(RECORDS).schema(f"{COLUMNS}, {family.record_schema}").options(**ends).load()
    )
    query = streaming_query(records, StreamIO(spec))
    ending = Ending(query, None) if isinstance(query, DataFrame) else query
    writer = ending.rows.writeStream.outputMode(ending.mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", spec.checkpoints)
    if isinstance(query, DataFrame):
        return writer.format(ROWS).options(**ends).start()
    if ending.store is None:
        return writer.format("json").option("ignoreNullFields", "false").start(spec.output)
    return writer.foreachBatch(storing(spec, board, ending.store)).start()
