"""What we offer under PyFlink's names has PyFlink's parameters, in PyFlink's order.

``pyflink_api.json`` is an introspection of PyFlink 2.3.0. Ours may take fewer parameters,
from the first on; a method that PyFlink does not have must be named here, with the reason.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from onceproof import engine

PYFLINK = json.loads(Path(__file__).with_name("pyflink_api.json").read_text())["classes"]

JAVA = "Flink's Java API has it, PyFlink lacks it"
OURS = "has no counterpart in Flink"
TABLES = "Flink has it for tables, and not for streams"

EXTRA = {
    ("StreamExecutionEnvironment", "get_configuration"): JAVA,
    ("StreamExecutionEnvironment", "get_job_graph"): JAVA,
    ("StreamExecutionEnvironment", "from_elements"): JAVA,
    ("StreamExecutionEnvironment", "read_text_file"): JAVA,
    ("StreamExecutionEnvironment", "socket_text_stream"): JAVA,
    ("DataStream", "co_group"): JAVA,
    ("DataStream", "global_"): JAVA,
    ("DataStream", "join"): JAVA,
    ("KeyedStream", "bundle"): TABLES,
    ("KeyedStream", "co_group"): JAVA,
    ("KeyedStream", "global_"): JAVA,
    ("KeyedStream", "interval_join"): JAVA,
    ("KeyedStream", "join"): JAVA,
    ("ProcessFunction", "on_timer"): JAVA,
    ("DataStreamSink", "set_max_parallelism"): JAVA,
    ("RuntimeContext", "get_job_id"): JAVA,
    ("RuntimeContext", "get_operator_unique_id"): JAVA,
    ("RuntimeContext", "get_owner_id"): OURS,
    ("Types", "VOID"): JAVA,
    ("KeyedStream", "time_window"): JAVA,
    ("WindowedStream", "sum"): JAVA,
    ("WindowedStream", "min"): JAVA,
    ("WindowedStream", "max"): JAVA,
    ("WindowedStream", "min_by"): JAVA,
    ("WindowedStream", "max_by"): JAVA,
    ("AllWindowedStream", "sum"): JAVA,
    ("AllWindowedStream", "min"): JAVA,
    ("AllWindowedStream", "max"): JAVA,
    ("AllWindowedStream", "min_by"): JAVA,
    ("AllWindowedStream", "max_by"): JAVA,
    ("Configuration", "get"): JAVA,
    ("Configuration", "set"): JAVA,
    ("Configuration", "from_mapping"): OURS,
    ("Configuration", "from_yaml_file"): OURS,
    ("Configuration", "contradiction"): OURS,
    ("Configuration", "is_set"): OURS,
    ("Configuration", "origins"): OURS,
    ("FileSink", "create_function"): OURS,
    ("Sink", "create_function"): OURS,
    ("Sink", "abort_unknown"): OURS,
    ("FileSink", "abort_unknown"): OURS,
    ("Sink", "create_writer"): JAVA,
    ("Sink", "restore_writer"): JAVA,
    ("Sink", "create_committer"): JAVA,
    ("FileSink", "create_writer"): JAVA,
    ("FileSink", "restore_writer"): JAVA,
    ("FileSink", "create_committer"): JAVA,
    ("FileSource", "identity"): OURS,
    ("FileSource", "open_file"): OURS,
    ("FileSource", "open_split"): OURS,
    ("FileSource", "splits"): OURS,
    ("FileSource", "splits_for"): OURS,
    ("FileSource", "check_ranges"): OURS,
    ("Source", "splits"): OURS,
    ("Source", "splits_for"): OURS,
    ("Source", "open_split"): OURS,
    ("Source", "identity"): OURS,
    ("RuntimeContext", "get_attempt_id"): OURS,
    ("RuntimeContext", "get_current_processing_time"): OURS,
    ("RuntimeContext", "probe"): OURS,
    ("SinkFunction", "invoke"): JAVA,
    ("SinkFunction", "finish"): JAVA,
    ("SinkFunction", "invoke_batch"): OURS,
    ("SinkFunction", "open"): JAVA,
    ("SinkFunction", "close"): JAVA,
    ("DataStream", "transform"): JAVA,
    ("KeyedStream", "transform"): JAVA,
    ("Types", "DATACLASS"): OURS,
    ("Types", "DYNAMIC"): OURS,
    ("AllWindowedStream", "evictor"): JAVA,
    ("WindowedStream", "evictor"): JAVA,
    ("WatermarkStrategy", "for_generator"): JAVA,
    ("WatermarkStrategy", "without_progress"): OURS,
    ("WatermarkStrategy", "create_watermark_generator"): JAVA,
    ("WatermarkStrategy", "create_timestamp_assigner"): JAVA,
}
EVERYWHERE = ("get_runtime_context", "set_runtime_context")
"""Of Java's RichFunction, on every function."""

OFFERED = {name: getattr(engine, name) for name in engine.__all__ if name in PYFLINK}


def methods(cls):
    for name, member in inspect.getmembers(cls):
        if not name.startswith("_") and callable(member):
            yield name, member


def parameters(method):
    return [name for name in inspect.signature(method).parameters if name != "self"]


def test_the_public_api_is_compared():
    assert len(OFFERED) > 20


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_methods_have_the_parameters_of_pyflink_in_its_order(name):
    known = PYFLINK[name]
    wrong = []
    for method, member in methods(OFFERED[name]):
        if inspect.isclass(member):
            continue
        if method not in known:
            if (name, method) not in EXTRA and method not in EVERYWHERE:
                wrong.append(f"{name}.{method} is not in PyFlink: rename it, or name it in EXTRA")
            continue
        ours = parameters(member)
        if ours != known[method][: len(ours)]:
            wrong.append(f"{name}.{method} takes {ours}, PyFlink's takes {known[method]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "method"), sorted(EXTRA))
def test_names_listed_as_extra_are_really_extra(name, method):
    assert hasattr(OFFERED[name], method), f"{name}.{method} no longer exists: remove it from EXTRA"
    assert method not in PYFLINK[name], f"{name}.{method} is in PyFlink: remove it from EXTRA"
