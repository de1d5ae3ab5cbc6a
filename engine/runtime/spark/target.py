"""The Spark that ``execute`` runs a job on: the one that this process has, or one started for the job.

The rules this module lives by:

- A Spark that was started here ends with the job. One that was there before stays, and is taken as it is.
- Workers import what the program that describes the job could import: functions of a module beside it travel
  by name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from engine.graph import InvalidJob, JobGraph
from engine.runtime.result import JobExecutionResult
from engine.runtime.spark.driver import execute_on_spark, spark_storage
from engine.runtime.spark_session import running_context, spark_context

ALL_CORES: Final = "local[*,4]"
"""Of this machine; a task is tried four times."""


def execute_on_target(graph: JobGraph, master: str | None) -> JobExecutionResult:
    """Run a job to its end; ``master`` says where, None: on the Spark of this process, or on all cores here.

    Raises what execute_on_spark and start_spark raise; InvalidJob where this process has the Spark of another
    master.
    """
    # What is wrong with the job is told before Spark takes its seconds to start.
    spark_storage(graph)
    context = running_context()
    if context is not None:
        running = context.master
        if master not in (None, running):
            raise InvalidJob(
                f"this process already runs the Spark of {running}, and execution.spark.master is {master}:"
                " stop that one, or leave the option out"
            )
        return execute_on_spark(graph, context)
    with spark_context(
        master or ALL_CORES, graph.name, python_path=[Path(sys.path[0]).absolute()]
    ) as started:
        return execute_on_spark(graph, started)
