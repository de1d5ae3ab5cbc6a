"""Metrics as Prometheus reads them, with the names and labels of Flink's PrometheusReporter.

The rules this module lives by:

- A name is ``flink_``, the scope and the name in Flink. A sign that Prometheus does not allow is ``_``.
- Counters are gauges, as Flink reports them, so that dashboards for Flink show them.
- What is no number is left out: Prometheus has numbers only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from socket import gethostname
from typing import TYPE_CHECKING, Final

from onceproof.engine.runtime.monitor.bounded_server import Answer, Gate, Refused, Request
from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.metric_names import JOB, NamedMetric, all_metrics
from onceproof.engine.runtime.monitor.task_readings import Rates

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

BEGINNING: Final = "flink"
_FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_]")


def prometheus_text(view: JobView, rates: Rates) -> tuple[bytes, str]:
    """Return all metrics of a view as text, and the type of its content."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
    from prometheus_client.registry import Collector

    families = _families(view, all_metrics(view, rates))

    class _Found(Collector):
        def collect(self) -> Iterable[GaugeMetricFamily]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found())
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


def _families(view: JobView, metrics: Iterable[NamedMetric]) -> list[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily

    names: dict[str, tuple[tuple[str, ...], list[tuple[list[str], float]]]] = {}
    for metric in metrics:
        if isinstance(metric.value, bool | int | float):
            labels = labels_of(view, metric)
            name = name_of(metric)
            # Samples of one name with other labels would make the text invalid: the first kind stays.
            keys, samples = names.setdefault(name, (tuple(labels), []))
            if keys == tuple(labels):
                samples.append((list(labels.values()), float(metric.value)))
    families = []
    for name, (keys, samples) in names.items():
        family = GaugeMetricFamily(name, name.rpartition("_")[2], labels=keys)
        for values, value in samples:
            family.add_metric(values, value)
        families.append(family)
    return families


def name_of(metric: NamedMetric) -> str:
    """Return the name of a metric in Prometheus."""
    return _FORBIDDEN.sub("_", "_".join((BEGINNING, metric.scope, *metric.groups, metric.name)))


def labels_of(view: JobView, metric: NamedMetric) -> dict[str, str]:
    """Return the labels of a metric, in Flink's names."""
    labels = {"job_id": view.job_id, "job_name": view.name, "host": gethostname()}
    if metric.scope == JOB:
        return labels
    if metric.vertex >= 0:
        vertex = view.vertices[metric.vertex]
        labels |= {"task_id": vertex.vertex_id, "task_name": vertex.name}
    labels |= {"subtask_index": str(metric.subtask), "task_attempt_id": view.attempt}
    if metric.operator:
        labels["operator_name"] = metric.operator
    for key, value in metric.variables:
        labels[_FORBIDDEN.sub("_", key)] = value
    return labels


class PrometheusPage:
    """Answers Prometheus; ``latest`` returns the latest view. Raises Refused before the first one."""

    def __init__(self, latest: Callable[[], tuple[JobView, Rates]], gate: Gate) -> None:
        self._latest = latest
        self._gate = gate

    def respond(self, request: Request) -> Answer:
        """Return the metrics, whatever the path, as Flink's reporter does. Raises Refused."""
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "metrics are read with GET", (("Allow", "GET"),))
        self._gate.check(request)
        return Answer(200, *prometheus_text(*self._latest()))
