"""Sends metrics to a collector of OpenTelemetry, by OTLP over HTTP (Flink: OpenTelemetryMetricReporter).

The rules this module lives by:

- It runs in the monitor process: a collector that is slow or away takes no time of the job.
- Names are Flink's, with dots and in lower case, as OpenTelemetry keeps them:
  ``flink.taskmanager.job.task.numrecordsin``. A sign that it does not allow is ``_``.
- What only rises within an attempt is a counter, everything else a gauge. Attributes are the labels that
  Prometheus gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.runtime.monitor.bounded_server import Refused
from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.metric_names import NamedMetric, all_metrics
from onceproof.engine.runtime.monitor.prometheus_text import labels_of
from onceproof.engine.runtime.monitor.task_readings import Rates

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

SERVICE: Final = "onceproof"
LONGEST_NAME: Final = 255
_FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_./-]")


class OpenTelemetryReporter:
    """Reports what ``latest`` returns in each interval, until it is closed."""

    def __init__(self, latest: Callable[[], tuple[JobView, Rates]], endpoint: str, interval_ms: int) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        self._latest = latest
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=endpoint), export_interval_millis=interval_ms
        )
        self._provider = MeterProvider([reader], resource=Resource.create({"service.name": SERVICE}))
        self._meter = self._provider.get_meter(SERVICE)
        self._known: set[str] = set()

    def take(self) -> None:
        """Make instruments for the metrics that are new in the latest view."""
        for metric in self._metrics():
            name = dotted_name(metric)
            if name in self._known:
                continue
            self._known.add(name)
            make: Any = (
                self._meter.create_observable_counter
                if metric.is_count
                else self._meter.create_observable_gauge
            )
            make(name, callbacks=[self._observer(name)])

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _metrics(self) -> Iterable[NamedMetric]:
        try:
            view, rates = self._latest()
        except Refused:
            return []
        return [each for each in all_metrics(view, rates) if isinstance(each.value, bool | int | float)]

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            view = self._latest()[0]
            return [
                Observation(metric.value, labels_of(view, metric))
                for metric in self._metrics()
                if dotted_name(metric) == name
            ]

        return observe


def dotted_name(metric: NamedMetric) -> str:
    """Return the name of a metric in OpenTelemetry."""
    name = ".".join(("flink", *metric.scope.split("_"), *metric.groups, metric.name))
    return _FORBIDDEN.sub("_", name)[:LONGEST_NAME].lower()
