"""The process under trial: ``python -m harness.systems.local_child SPEC.json``.

The rules this module lives by:

- One process is one incarnation of the job. It is told everything by its specification and its checkpoint
  directory, and may be killed at any instruction.
- It imports what a production job would, and little more: recovery time is measured from outside.
- Whatever ends it other than a kill is told in the log before it ends. Exit codes: 0 finished, 1 the job or
  the engine failed, 2 the process could not begin.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from engine.configuration import Configuration
from engine.connectors.collection import CollectionSource
from engine.environment import StreamExecutionEnvironment
from engine.graph import JobGraph
from engine.runtime.recovery import recover
from engine.runtime.result import JobExecutionFailed
from engine.runtime.storage import LocalCheckpointStorage
from harness.family import load_family
from harness.scenario import FaultKind
from harness.systems import event_log
from harness.systems.ends import CountedSource, LocalIO
from harness.systems.event_log import EventLog
from harness.systems.observed import ObservedLocalExecution
from harness.systems.spec import Spec, read_records, read_spec
from harness.systems.told import RunOver, described, say_error


def run(spec: Spec, log: EventLog, locked: ExitStack) -> int:
    """Go on with the job until it has ended; ``locked`` holds its folder for as long."""
    family = load_family(spec.family)
    source = _source(spec)
    configuration = _configuration(spec)
    execution: ObservedLocalExecution | None = None

    def commit_fault() -> FaultKind | None:
        return None if execution is None else execution.commit_fault()

    def graph_of(parallelism: int) -> JobGraph:
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        environment.set_parallelism(parallelism)
        environment.set_max_parallelism(spec.max_parallelism)
        family.job(environment, LocalIO(spec, source, parallelism, log, commit_fault))
        return environment.get_job_graph(spec.job_name)

    graph = graph_of(spec.parallelism)
    storage = LocalCheckpointStorage(f"{spec.checkpoints}/{graph.job_id}")
    locked.enter_context(storage.exclusive())
    recovered = recover(storage, spec.retained)
    log.say(
        event_log.PROCESS_STARTED,
        incarnation=recovered.incarnation,
        found=[described(metadata) for metadata in recovered.checkpoints],
    )
    if recovered.finished:
        log.say(event_log.JOB_FINISHED, points={})
        return 0
    execution = ObservedLocalExecution(spec, graph_of, storage, recovered, log)
    try:
        execution.run()
    except (JobExecutionFailed, RunOver):
        return 1
    return 0


def _source(spec: Spec) -> CountedSource:
    if spec.input == "year":
        from harness.flights.data import year_source
        from scenarios.flights import airport_of

        paths = [Path(path) for path in spec.files]
        return CountedSource(year_source(paths), {airport_of(str(path)): str(path) for path in paths})
    splits = {
        split: [(value, timestamp) for timestamp, value in records]
        for split, records in read_records(spec.records).items()
    }
    return CountedSource(CollectionSource(splits))


def _configuration(spec: Spec) -> Configuration:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": spec.checkpoints,
        "execution.checkpointing.interval-records": spec.interval_records,
        "execution.checkpointing.num-retained": spec.retained,
        "execution.checkpointing.tolerable-failed-checkpoints": spec.tolerable_failures,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000_000,
        "restart-strategy.fixed-delay.delay": f"{spec.restart_delay_ms} ms",
        "pipeline.buffer-records": spec.buffer_records,
        "pipeline.channel-buffers": spec.channel_buffers,
    }.items():
        configuration.set_string(key, str(value))
    return configuration


def main(path: str) -> int:
    """Do what the specification in a file says."""
    try:
        spec = read_spec(path)
        log = EventLog(spec.events)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    try:
        with ExitStack() as stack:
            if spec.mutant:
                from harness.mutants import find_mutant

                stack.enter_context(find_mutant(spec.mutant, spec.mutant_file or None).applied())
            return run(spec, log, stack)
    except Exception as error:
        say_error(log, "process", error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
