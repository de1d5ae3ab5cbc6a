"""A leg of a job that goes from runtime to runtime: run until it is killed, stopped, or done.

As a program of its own, ``relaying.py SPECIFICATION`` with the leg as JSON; it prints the savepoint with
which it was stopped, if it was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

import msgspec

from onceproof.engine import Configuration, Encoder, FileSink, StreamExecutionEnvironment
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.protocol_points import no_probe
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.job_startup import open_job_storage, recover_job
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.spark.driver import SparkExecution
from tests.engine.runtime.spark import visits
from tests.engine.runtime.spark.killing import Kill, KillOnce

JOB = "visits"


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the job."""

    folder: str
    runtime: str
    parallelism: int
    backend: str
    savepoint: str = ""
    """What it goes on from."""
    kill: tuple[str, str, int] | None = None
    """Where its process is killed, in whichever process that is passed: point, task, checkpoint."""
    stops_after: int = 0
    """How many checkpoints it completes before it is stopped with a savepoint; 0: it goes on to its end."""


class Ends:
    """What the job reads and writes."""

    def __init__(self, leg):
        self.parallelism = self.source_parallelism = self.sink_parallelism = leg.parallelism
        self._folder = Path(leg.folder)

    def source(self, name):
        records = visits.generate(Random(1)).records
        return CollectionSource(
            {split: [(page, time) for time, page in log] for split, log in records.items()}
        )

    def sink(self, name):
        sink = FileSink.for_row_format(str(self._folder / "out"), Encoder.json_lines_encoder()).build()
        return sink.create_function()


def graph_of(leg):
    """The job as the leg runs it."""
    options = {
        "execution.checkpointing.interval-records": 10,
        "execution.checkpointing.dir": f"{leg.folder}/checkpoints",
        "pipeline.buffer-records": 2,
        "state.backend.type": leg.backend,
        "execution.checkpointing.incremental": leg.backend == "rocksdb",
    }
    if leg.savepoint:
        options["execution.state-recovery.path"] = leg.savepoint
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_parallelism(leg.parallelism).set_max_parallelism(16)
    visits.job(env, Ends(leg))
    return env.get_job_graph(JOB)


class Stopping:
    """An execution that is asked to end with a savepoint when it has completed some checkpoints."""

    leg: Leg
    completed = 0

    def checkpoint_completed(self, effect):
        super().checkpoint_completed(effect)
        self.completed += 1
        if self.completed == self.leg.stops_after:
            self.submit(JobRequest("stop", f"{self.leg.folder}/savepoints", False), lambda answer: None)


class StoppingLocally(Stopping, LocalExecution):
    """On the local runtime."""


class StoppingOnSpark(Stopping, SparkExecution):
    """On Spark."""


def run(leg, context=None):
    """Run a leg to its end; ``context`` is that of Spark. Gives the folder of its savepoint, or nothing."""
    graph = graph_of(leg)
    storage = open_job_storage(graph)
    probe = no_probe
    if leg.kill is not None:
        kills = Path(leg.folder) / f"kills-{leg.runtime}-{leg.parallelism}"
        probe = KillOnce(kills, Kill(*leg.kill), victim=os.getpid())
    with storage.exclusive():
        recovered = recover_job(graph, storage)
        if leg.runtime == "local":
            execution = StoppingLocally(graph, storage, recovered, probe)
        else:
            execution = StoppingOnSpark(graph, context, storage, recovered, probe=probe)
        execution.leg = leg
        return execution.run().stopped_with


def main(specification):
    """Run the leg that the specification describes."""
    leg = msgspec.json.decode(specification, type=Leg)
    if leg.runtime == "local":
        print(run(leg))
        return
    from onceproof.engine.runtime.spark_session import spark_context

    with spark_context() as context:
        print(run(leg, context))


if __name__ == "__main__":
    main(*sys.argv[1:])
