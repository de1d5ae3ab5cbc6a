"""The checkpoint storage of a job on Spark, which driver and workers must share."""

from __future__ import annotations

from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.locations import scheme_of
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.remote_storage import OF_ONE_PROCESS
from onceproof.engine.runtime.replay_warning import lossy_sources


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
