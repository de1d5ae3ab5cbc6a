"""Builds the job graph of a specification, in the process or the workers that run it.

The rules this module lives by:

- The graph depends only on the specification and a parallelism, so all processes build the same job. Only the
  event log and the source of commit faults, which its source and sinks get, differ between processes.
- The module imports little more than a production job would, because recovery time includes the imports.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Final

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.graph import JobGraph
from onceproof.harness.model.columns import column_types_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.systems.job_configuration import check_configuration
from onceproof.harness.systems.process.filed_source import filed_source
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.process.process_io import ProcessIO
from onceproof.harness.systems.process.test_io import CommitFault, CountedSource
from onceproof.harness.systems.recording.event_log import EventLog

HEARTBEAT_MS: Final = 250
SILENCE_MS: Final = 10_000
"""How long a worker may be silent where one is paused. It beats forty times meanwhile: only a machine that
does not run it at all takes a living one for a paused one."""


class Assembly:
    """Builds the graphs of one specification; the input is read once."""

    def __init__(self, spec: Spec, log: EventLog, fault: CommitFault) -> None:
        self._spec = spec
        self._log = log
        self._fault = fault
        self._family = load_family(spec.family)
        self._source = _source(spec, log)
        self._configuration = _configuration(spec)

    def graph(self, parallelism: int) -> JobGraph:
        """Return the family's job graph at a parallelism."""
        spec = self._spec
        # Without the options of a cluster, which are no part of the scenario.
        environment = StreamExecutionEnvironment(Configuration(self._configuration))
        environment.set_parallelism(parallelism)
        environment.set_max_parallelism(spec.max_parallelism)
        columns = column_types_of(self._family.row_schema)
        io = ProcessIO(spec, self._source, parallelism, self._log, self._fault, columns)
        self._family.job(environment, io)
        check_configuration(self._family, environment.get_configuration(), self._configuration)
        return environment.get_job_graph(spec.job_name)


def _source(spec: Spec, log: EventLog) -> CountedSource:
    if spec.source:
        source, names = resolve_name(spec.source)(spec.files)
        return CountedSource(source, log, names)
    if spec.files:
        return filed_source(spec, log)
    splits = {
        split: [(value, timestamp) for timestamp, value in records]
        for split, records in read_records(spec.records).items()
    }
    return CountedSource(CollectionSource(splits), log, is_bounded=not spec.is_endless)


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
        "pipeline.auto-watermark-interval": f"{spec.watermark_interval_ms} ms",
        "pipeline.buffer-records": spec.buffer_records,
        "pipeline.channel-buffers": spec.channel_buffers,
        "execution.checkpointing.mode": (
            "AT_LEAST_ONCE" if spec.barriers == "at_least_once" else "EXACTLY_ONCE"
        ),
        "execution.checkpointing.unaligned.enabled": spec.barriers == "unaligned",
        "execution.checkpointing.unaligned.forced": True,
        "execution.checkpointing.aligned-checkpoint-timeout": f"{spec.aligned_timeout_ms} ms",
        "state.backend.type": spec.state_backend,
        "execution.checkpointing.incremental": spec.incremental,
        "execution.local.workers": spec.workers,
    }.items():
        configuration.set_string(key, str(value))
    if any(FAULTS[fault.kind].strikes == "worker" for fault in spec.faults):
        configuration.set_string("heartbeat.interval", f"{HEARTBEAT_MS} ms")
        configuration.set_string("heartbeat.timeout", f"{SILENCE_MS} ms")
    return configuration
