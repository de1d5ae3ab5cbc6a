"""Starts the Structured Streaming query of a family, with the source and sinks of the harness.

Rules:

- A family takes part with the function ``jobs["structured_streaming"](records, io)``. It gets the records as
  a streaming DataFrame. It returns a DataFrame for the harness's sink, or the result of a sink of ``io``. So
  a family in ``scenarios`` need not import Spark.
- Every query starts with a checkpoint location and the trigger availableNow, and runs until the input is
  consumed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.family_places import check_table_keys, statements_of
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.structured import state as state_api
from onceproof.harness.systems.structured.script_job import script_ends, start_script
from onceproof.harness.systems.structured.sinks import ROWS, Store, storing, upsert
from onceproof.harness.systems.structured.source import COLUMNS, DRIVER_PROCESS, RECORDS, SPEC
from onceproof.harness.systems.structured.streamed_script import Mode


@dataclass(frozen=True, slots=True)
class SinkChoice:
    """The rows of a query and their sink."""

    rows: DataFrame
    store: Store | None = None
    """The function for foreachBatch; None: Spark's file sink."""
    mode: Mode = "append"
    keys: int = 0
    """The key columns by which the sink replaces rows; 0: it only adds rows."""


class StreamIO:
    """The sinks for a family's query, and Spark's APIs for keyed state."""

    transform_with_state = staticmethod(state_api.transform_with_state)
    transform_with_state_in_pandas = staticmethod(state_api.transform_with_state_in_pandas)
    apply_in_pandas_with_state = staticmethod(state_api.apply_in_pandas_with_state)

    def __init__(self, spec: Spec) -> None:
        self.parallelism = spec.parallelism
        """Number of partitions of keyed state."""
        self.parameters: Mapping[str, Parameter] = spec.parameters
        self.output = Path(spec.output)
        """The output folder: each line of its visible files is a row."""

    def files(self, rows: DataFrame) -> SinkChoice:
        """Write rows with Spark's file sink, which is exactly-once by its log."""
        return SinkChoice(rows)

    def for_each_batch(self, rows: DataFrame, store: Store, mode: Mode = "append") -> SinkChoice:
        """Have ``store(batch, batch_id)`` write the rows of each batch into ``output``."""
        return SinkChoice(rows, store, mode)

    def table(
        self, rows: DataFrame, keys: int, store: Store | None = None, mode: Mode = "update"
    ) -> SinkChoice:
        """Replace rows by their first ``keys`` columns, for a family with the option ``table_keys``.

        Args:
            store: ``store(batch, batch_id)`` merges the rows of each batch into files below ``output``; None:
                the harness does.
            mode: the output mode of the query; "complete" gives each batch the rows of all keys.
        """
        return SinkChoice(rows, store or partial(_into_table, self.output, keys), mode, keys)


def _into_table(output: Path, keys: int, rows: DataFrame, batch: int) -> None:
    upsert(output, rows.collect(), keys)


def start(family: Family, spec: Spec, path: str, session: SparkSession, board: FaultBoard) -> StreamingQuery:
    """Start the query of a family over the checkpoint location of a job."""
    if statements_of(family) is not None:
        return start_script(script_ends(family), spec, path, session, board, os.getpid())
    options = {SPEC: path, DRIVER_PROCESS: str(os.getpid())}
    # Spark stores this setting in the checkpoint location with the first batch.
    session.conf.set("spark.sql.shuffle.partitions", str(spec.parallelism))
    records = (
        session.readStream.format(RECORDS)
        .schema(f"{COLUMNS}, {family.record_schema}")
        .options(**options)
        .load()
    )
    query = options_of(family).jobs["structured_streaming"](records, StreamIO(spec))
    choice = SinkChoice(query, None) if isinstance(query, DataFrame) else query
    check_table_keys(family, choice.keys, f"io.table(rows, {choice.keys})")
    if options_of(family).table_keys and not choice.keys:
        raise FamilyError(
            f"family {family.name!r} has table_keys, and its query only adds rows: return"
            " io.table(rows, keys) or io.table(rows, keys, store) from its query"
        )
    writer = choice.rows.writeStream.outputMode(choice.mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", spec.checkpoints)
    if isinstance(query, DataFrame):
        return writer.format(ROWS).options(**options).start()
    if choice.store is None:
        return writer.format("json").option("ignoreNullFields", "false").start(spec.output)
    return writer.foreachBatch(storing(spec, board, choice.store, choice.keys)).start()
