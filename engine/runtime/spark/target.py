"""Starts a job on Spark: that of this process, that of spark-submit, or a new one.

Rules:

- A Spark that is started for a job is stopped with it. An existing one is used as it is, and stays.
- Functions are pickled by name, so workers need the modules beside the program. They travel with the job
  (`engine/runtime/module_archive.py`). Workers of a Spark on this machine also find what stands first on the
  path of this Python, which is all that a notebook and a test have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.configuration import Configuration
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.locations import scheme_of
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.job_clients import FinishedJob, RunningJob
from onceproof.engine.runtime.job_identity import registered
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_startup import open_job_storage, recover_job
from onceproof.engine.runtime.job_warnings import lossy_sources
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.remote_storage import OF_ONE_PROCESS
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.epoch import Recipe
from onceproof.engine.runtime.spark.subtask import SubtaskRun
from onceproof.engine.runtime.spark_session import obtained_context
from onceproof.engine.runtime.spark_settings import spark_options


def spark_storage(graph: JobGraph) -> MountedStorage:
    """Return the storage of the job's checkpoints.

    Raises InvalidJob if the job takes no checkpoints, stores them where workers cannot read them, or has a
    source whose reader would have to outlive an epoch.
    """
    if not graph.settings.enabled:
        raise InvalidJob(
            f"job {graph.name!r} takes no checkpoints, and on Spark work is cut by them:"
            " set execution.checkpointing.interval or execution.checkpointing.interval-records"
        )
    lossy = lossy_sources(graph)
    if lossy:
        raise InvalidJob(
            f"source {lossy[0]!r} of job {graph.name!r} cannot be replayed, and on Spark each epoch opens its"
            " readers anew: run the job on the local runtime, or write the stream to files and read those"
        )
    storage = open_job_storage(graph)
    if not storage.root or scheme_of(storage.root) in OF_ONE_PROCESS:
        raise InvalidJob(
            f"job {graph.name!r} keeps its checkpoints in memory, which workers on Spark do not share:"
            " set execution.checkpointing.dir to a folder that all machines share"
        )
    return storage


def execute_on_target(graph: JobGraph, configuration: Configuration) -> JobExecutionResult:
    """Run a job to its end on the Spark of this process, that of spark-submit, or a new one.

    Raises the errors of execute_on_spark and of obtained_context.
    """
    with _context(graph, configuration) as context:
        return execute_on_spark(graph, context)


def start_on_target(graph: JobGraph, configuration: Configuration) -> JobClient:
    """Start a job in a thread of its own; a Spark that is started for it is stopped with it.

    Raises the errors of execute_on_target.
    """
    with ExitStack() as held:
        context = held.enter_context(_context(graph, configuration))
        return start_on_spark(graph, context, held)


def _class_for(graph: JobGraph) -> type[SparkExecution]:
    """Return the driver of a job: a monitored one if the settings ask for it. Raises ExtraMissing."""
    if not graph.settings.monitor.is_on:
        return SparkExecution
    from onceproof.engine.runtime.monitor.monitored_runs import require_packages
    from onceproof.engine.runtime.spark.monitored_execution import MonitoredSparkExecution

    require_packages(graph)
    return MonitoredSparkExecution


def execute_on_spark(
    graph: JobGraph,
    session: SparkSession | SparkContext,
    *,
    recipe: Recipe | None = None,
    probe: Probe = no_probe,
    subtask_class: type[SubtaskRun] = SubtaskRun,
) -> JobExecutionResult:
    """Run a job to its end on Spark, from its checkpoint directory if it has begun before.

    ``recipe`` makes the graph in a worker where it cannot travel there; ``probe`` travels to the workers, is
    called there at every protocol point of tasks, and here at those of the coordinator and of commits.

    Raises InvalidJob for a job that Spark cannot run, JobExecutionFailed, and what reading the checkpoint
    directory raises; also where another process runs the job over the same directory.
    """
    execution_class = _class_for(graph)
    storage = spark_storage(graph)
    context = session if isinstance(session, SparkContext) else session.sparkContext
    with storage.exclusive():
        recovered = recover_job(graph, storage)
        if isinstance(recovered, JobExecutionResult):
            return recovered
        execution = execution_class(
            graph, context, storage, recovered, recipe=recipe, probe=probe, subtask_class=subtask_class
        )
        return registered(graph, execution, recovered.incarnation).run()


def start_on_spark(graph: JobGraph, context: SparkContext, held: ExitStack) -> JobClient:
    """Start a job in a thread of its own, which closes ``held`` when the job is over."""
    execution_class = _class_for(graph)
    storage = spark_storage(graph)
    held.enter_context(storage.exclusive())
    recovered = recover_job(graph, storage)
    if isinstance(recovered, JobExecutionResult):
        return FinishedJob(recovered)
    execution = execution_class(graph, context, storage, recovered)
    return RunningJob(graph.job_id, registered(graph, execution, recovered.incarnation), held.pop_all())


@contextmanager
def _context(graph: JobGraph, configuration: Configuration) -> Iterator[SparkContext]:
    # Check the job first, because Spark takes seconds to start.
    spark_storage(graph)
    _class_for(graph)
    options = spark_options(configuration)
    with obtained_context(options, graph.name, [Path(sys.path[0]).absolute()]) as context:
        yield context
