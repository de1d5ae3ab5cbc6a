"""The options of what is seen of a running job: its REST API, its metrics and their reporters.

Rules:

- Nothing is on unless asked: without `rest.port` no port is opened, without a reporter nothing is reported.
- The settings of a reporter stand under `metrics.reporter.<name>.`, as in Flink. A setting that a reporter of
  ours does not have is kept, and logged as one without effect.
- The factories of reporters are named by Flink's classes, or shortly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.configuration.option import ConfigOption, ConfigurationError
from onceproof.engine.configuration.parsing import (
    at_least,
    parse_positive_duration_ms,
    parse_text,
    whole_between,
)

LOOPBACK: Final = "127.0.0.1"
LARGEST_PORT: Final = 65_535
PROMETHEUS: Final = "prometheus"
OPEN_TELEMETRY: Final = "opentelemetry"
LOG: Final = "log"
DEFAULT_PROMETHEUS_PORT: Final = 9249
DEFAULT_REPORT_INTERVAL_MS: Final = 10_000
DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4318/v1/metrics"

_FACTORIES: Final[Mapping[str, str]] = {
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": PROMETHEUS,
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": OPEN_TELEMETRY,
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": LOG,
    PROMETHEUS: PROMETHEUS,
    OPEN_TELEMETRY: OPEN_TELEMETRY,
    LOG: LOG,
}

REST_PORT: Final[ConfigOption[int | None]] = ConfigOption(
    "rest.port",
    None,
    whole_between(0, LARGEST_PORT),
    "Port of the REST API and page; 0: any free one; unset: none (in Flink 8081).",
)
REST_BIND_ADDRESS: Final[ConfigOption[str]] = ConfigOption(
    "rest.bind-address",
    LOOPBACK,
    parse_text,
    "Listen address of the REST API and Prometheus. Beyond the loopback interface every request needs the "
    "token.",
)
REST_ADDRESS: Final[ConfigOption[str | None]] = ConfigOption(
    "rest.address",
    None,
    parse_text,
    "Additional host name of the REST API; requests to others are rejected.",
)
METRICS_REPORTERS: Final[ConfigOption[str | None]] = ConfigOption(
    "metrics.reporters",
    None,
    parse_text,
    "Comma-separated reporters in use, configured as metrics.reporter.NAME; unset: all.",
)
METRICS_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "metrics.fetcher.update-interval",
    1000,
    parse_positive_duration_ms,
    "How often task metrics are read (in Flink every 10 s).",
)
CHECKPOINT_HISTORY: Final[ConfigOption[int]] = ConfigOption(
    "web.checkpoints.history",
    10,
    whole_between(1, 1000),
    "Number of checkpoints whose details the REST API shows.",
)
EXCEPTION_HISTORY: Final[ConfigOption[int]] = ConfigOption(
    "web.exception-history-size",
    16,
    at_least(1),
    "Number of failures and attempts whose causes the REST API shows.",
)

MONITOR_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    REST_PORT,
    REST_BIND_ADDRESS,
    REST_ADDRESS,
    METRICS_REPORTERS,
    METRICS_INTERVAL,
    CHECKPOINT_HISTORY,
    EXCEPTION_HISTORY,
)


def parse_factory(value: Any) -> str:
    """Read the class of a reporter's factory."""
    kind = _FACTORIES.get(parse_text(value))
    if kind is None:
        raise ValueError(f"use one of {', '.join(_FACTORIES)}")
    return kind


BEGINNING: Final = "metrics.reporter."
_SETTINGS: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "factory.class": (parse_factory, "The reporter: Prometheus, OpenTelemetry or a line of the log."),
    "port": (whole_between(0, LARGEST_PORT), "The port at which Prometheus reads the metrics."),
    "interval": (parse_positive_duration_ms, "How often the reporter reports."),
    "exporter.endpoint": (parse_text, "The address of an OpenTelemetry collector (OTLP over HTTP)."),
}


def reporter_option(key: str) -> ConfigOption[Any] | None:
    """Return the option of a reporter's setting; None: it has none of this name."""
    if not key.startswith(BEGINNING):
        return None
    name, _, setting = key.removeprefix(BEGINNING).partition(".")
    found = _SETTINGS.get(setting)
    return None if found is None or not name else ConfigOption(key, None, *found)


class ReporterSettings(Struct, frozen=True):
    """One reporter of metrics; each kind reads the fields that concern it."""

    name: str
    kind: str
    port: int
    interval_ms: int
    endpoint: str


class MonitorSettings(Struct, frozen=True):
    """What is seen of a running job; durations in milliseconds."""

    rest_port: int | None = None
    bind_address: str = LOOPBACK
    address: str = ""
    interval_ms: int = 1000
    checkpoint_history: int = 10
    exception_history: int = 16
    reporters: tuple[ReporterSettings, ...] = ()

    @property
    def is_on(self) -> bool:
        """Return whether the job is monitored."""
        return self.rest_port is not None or bool(self.reporters)


def reporters_of(given: Mapping[str, Any], names: str | None) -> tuple[ReporterSettings, ...]:
    """Return the reporters that are set.

    Args:
        given: by key, the parsed values of all settings of reporters.
        names: the value of ``metrics.reporters``.

    Raises:
        ConfigurationError: a reporter is named or set, and has no factory.
    """
    found = sorted({key.removeprefix(BEGINNING).partition(".")[0] for key in given})
    chosen = found if names is None else [each.strip() for each in names.replace(";", ",").split(",")]
    reporters = []
    for name in filter(None, chosen):
        beginning = f"{BEGINNING}{name}."
        kind = given.get(f"{beginning}factory.class")
        if kind is None:
            raise ConfigurationError(
                f"the metrics reporter {name!r} has no factory: set {beginning}factory.class to one of"
                f" {', '.join(_FACTORIES)}"
            )
        reporters.append(
            ReporterSettings(
                name,
                kind,
                given.get(f"{beginning}port", DEFAULT_PROMETHEUS_PORT),
                given.get(f"{beginning}interval", DEFAULT_REPORT_INTERVAL_MS),
                given.get(f"{beginning}exporter.endpoint", DEFAULT_ENDPOINT),
            )
        )
    return tuple(reporters)
