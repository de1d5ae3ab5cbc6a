"""Reporters of metrics: Prometheus, OpenTelemetry, the log; and the settings that choose them."""

from __future__ import annotations

import gzip
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from onceproof import engine
from onceproof.engine import Configuration, ConfigurationError, StreamExecutionEnvironment
from onceproof.engine.configuration import job_settings
from onceproof.engine.configuration.monitor_options import ReporterSettings
from onceproof.engine.extras import ExtraMissing
from onceproof.engine.runtime.monitor import monitored_runs
from onceproof.engine.runtime.monitor.bounded_server import Gate, Refused, Request
from onceproof.engine.runtime.monitor.log_reporter import LogReporter, line_of
from onceproof.engine.runtime.monitor.metric_names import all_metrics
from onceproof.engine.runtime.monitor.publisher import Publisher
from onceproof.engine.runtime.monitor.task_readings import Rates
from tests.engine.runtime.monitor.views import JOB_ID, MAP_ID, earlier_view, job_view
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def latest():
    rates = Rates()
    rates.take(earlier_view())
    rates.take(job_view())
    return job_view(), rates


def settings_of(**options):
    named = {f"metrics.reporter.{key.replace('__', '.')}": value for key, value in options.items()}
    return job_settings(Configuration.from_mapping(named)).monitor


def test_prometheus_reads_flinks_names_and_labels(latest):
    pytest.importorskip("prometheus_client", reason="needs the extra metrics")
    from prometheus_client.parser import text_string_to_metric_families

    from onceproof.engine.runtime.monitor.prometheus_text import PrometheusPage

    page = PrometheusPage(lambda: latest, Gate(("localhost",), "secret", guards_reading=False))
    answer = page.respond(Request("GET", "/metrics", {}, {"host": "localhost"}))
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    families = {each.name: each for each in text_string_to_metric_families(answer.body.decode())}
    assert {each.type for each in families.values()} == {"gauge"}
    [restarts] = families["flink_jobmanager_job_numRestarts"].samples
    assert (restarts.value, restarts.labels["job_id"], restarts.labels["job_name"]) == (
        1,
        JOB_ID,
        "orders & <i>prices</i>",
    )
    read = {s.labels["task_name"]: s for s in families["flink_taskmanager_job_task_numRecordsIn"].samples}
    assert {name: sample.value for name, sample in read.items()} == {
        "orders": 5000,
        "shop": 4000,
        "files": 3000,
    }
    assert (read["shop"].labels["task_id"], read["shop"].labels["task_attempt_id"]) == (MAP_ID, "1.2")
    [lines] = families["flink_taskmanager_job_task_operator_shop_lines"].samples
    assert (lines.value, lines.labels["shop"], lines.labels["operator_name"]) == (17, "north", "shop")
    [rows] = families["flink_taskmanager_job_task_operator_rows"].samples
    assert rows.value == 2.0
    assert "flink_taskmanager_job_task_operator_state" not in families
    with pytest.raises(Refused, match="Host"):
        page.respond(Request("GET", "/metrics", {}, {"host": "evil.example"}))
    with pytest.raises(Refused):
        page.respond(Request("POST", "/metrics", {}, {"host": "localhost"}))


def test_each_metric_has_a_row_in_its_page(latest):
    page = Path(engine.__file__).with_name("docs").joinpath("metrics.md").read_text(encoding="utf-8")
    names = {each.name.removesuffix("PerSecond") for each in all_metrics(*latest) if not each.operator}
    assert len(names) > 40
    assert [name for name in sorted(names) if f"`{name}" not in page] == []


def test_open_telemetry_sends_counters_and_gauges_to_the_collector(latest):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra opentelemetry")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    from onceproof.engine.runtime.monitor.open_telemetry import OpenTelemetryReporter

    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}/v1/metrics"
        reporter = OpenTelemetryReporter(lambda: latest, endpoint, 60_000)
        reporter.take()
        reporter.close()
        server.shutdown()
    body = received[0] if received[0][:2] != b"\x1f\x8b" else gzip.decompress(received[0])
    request = ExportMetricsServiceRequest.FromString(body)
    found = {
        metric.name: metric
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    read = found["flink.taskmanager.job.task.numrecordsin"]
    assert sorted(point.as_int for point in read.sum.data_points) == [3000, 4000, 5000]
    assert read.sum.is_monotonic
    [pending] = found["flink.taskmanager.job.task.pendingrecords"].gauge.data_points
    assert pending.as_int == 700


def test_the_log_has_a_line_in_each_interval_and_at_the_end(latest, caplog):
    view, rates = latest
    assert line_of(view, rates) == (
        "job 'orders & <i>prices</i>': RUNNING, attempt 1.2, 5,000 records read, 200 a second, 1 restarts,"
        " checkpoint 3 took 90 ms for 1,100 bytes, 1 checkpoints failed, 700 records pending,"
        " orders-0 is backpressured 50 % of the time"
    )
    reporter = LogReporter(60_000)
    with caplog.at_level(logging.INFO):
        for each in (earlier_view(), view, job_view(state="FINISHED")):
            reporter.take(each)
    assert ["RUNNING" in each.getMessage() for each in caplog.records] == [True, False]


def test_a_slow_receiver_gets_the_latest_view_and_holds_no_one_up():
    taken, may_go_on, has_begun = [], threading.Event(), threading.Event()

    class Slow:
        def take(self, view):
            taken.append(view.now_ms)
            has_begun.set()
            may_go_on.wait(PATIENCE_SECONDS)

    publisher = Publisher([Slow()], "slow")
    publisher.publish(job_view(now_ms=0))
    has_begun.wait(PATIENCE_SECONDS)
    for moment in range(1, 1000):
        publisher.publish(job_view(now_ms=moment))
    may_go_on.set()
    publisher.close()
    assert taken == [0, 999]


def test_a_receiver_that_fails_is_left_out_and_the_others_go_on(caplog):
    taken = []

    class Broken:
        def take(self, view):
            raise BrokenPipeError("gone")

    class Sound:
        def take(self, view):
            taken.append(view.now_ms)

    publisher = Publisher([Broken(), Sound()], "orders")
    publisher.publish(job_view(now_ms=1))
    publisher.close()
    assert taken == [1]
    assert [each.getMessage() for each in caplog.records] == [
        "job 'orders': Broken accepts no more views; the job continues without it: gone"
    ]


@pytest.mark.parametrize(
    "factory", ["prometheus", "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"]
)
def test_a_reporter_is_set_under_its_name_as_in_flink(factory):
    settings = settings_of(prom__factory__class=factory, prom__port=9300, prom__interval="3 s")
    assert settings.is_on
    assert settings.reporters == (
        ReporterSettings("prom", "prometheus", 9300, 3000, "http://127.0.0.1:4318/v1/metrics"),
    )
    assert not job_settings(Configuration()).monitor.is_on


def test_only_named_reporters_are_used():
    options = {
        "metrics.reporter.a.factory.class": "log",
        "metrics.reporter.b.factory.class": "prometheus",
        "metrics.reporters": "a",
    }
    [chosen] = job_settings(Configuration.from_mapping(options)).monitor.reporters
    assert chosen.name == "a"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metrics.reporter.a.factory.class": "graphite"}, "cannot be 'graphite': use one of"),
        ({"metrics.reporter.a.port": 1}, "the metrics reporter 'a' has no factory: set"),
        ({"metrics.reporters": "a"}, "the metrics reporter 'a' has no factory: set"),
        ({"metrics.reporter.a.port": 70_000}, "at most 65535"),
        ({"rest.port": -1}, "at least 0"),
        ({"metrics.fetcher.update-interval": "0 s"}, "update-interval"),
    ],
)
def test_a_wrong_setting_is_one_line(options, said):
    with pytest.raises(ConfigurationError, match=said) as error:
        job_settings(Configuration.from_mapping(options))
    assert "\n" not in str(error.value)


def test_a_missing_package_of_a_reporter_is_one_line_before_the_job_begins(monkeypatch):
    monkeypatch.setattr("onceproof.engine.extras.find_spec", lambda name: None)
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping({"metrics.reporter.p.factory.class": "prometheus"})
    )
    env.from_collection([1]).print()
    with pytest.raises(ExtraMissing, match=r"pip install 'onceproof\[metrics\]'"):
        monitored_runs.execute(env.get_job_graph("job"))
