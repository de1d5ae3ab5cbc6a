"""Runs a monitored job as its settings ask: in this process, or with its tasks in workers."""

from __future__ import annotations

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.configuration.monitor_options import OPEN_TELEMETRY, PROMETHEUS
from onceproof.engine.extras import METRICS, require
from onceproof.engine.extras import OPEN_TELEMETRY as OPEN_TELEMETRY_EXTRA
from onceproof.engine.graph import JobGraph
from onceproof.engine.runtime import local
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.monitor.monitored_driver import MonitoredExecution, MonitoredWorkersExecution


def execute(graph: JobGraph) -> JobExecutionResult:
    """Run a job to its end as ``local.execute`` does. Raises also AddressInUse and ExtraMissing."""
    require_packages(graph)
    return local.execute(graph, make=_class_for(graph))


def start(graph: JobGraph) -> JobClient:
    """Start a job in a thread of its own as ``local.start`` does. Raises also ExtraMissing."""
    require_packages(graph)
    return local.start(graph, _class_for(graph))


def _class_for(graph: JobGraph) -> type[MonitoredExecution]:
    return MonitoredWorkersExecution if graph.settings.workers > 1 else MonitoredExecution


def require_packages(graph: JobGraph) -> None:
    """Raise ExtraMissing before the job begins if a reporter's package is not installed."""
    kinds = {each.kind for each in graph.settings.monitor.reporters}
    if PROMETHEUS in kinds:
        require("the metrics reporter for Prometheus", METRICS)
    if OPEN_TELEMETRY in kinds:
        require("the metrics reporter for OpenTelemetry", OPEN_TELEMETRY_EXTRA)
