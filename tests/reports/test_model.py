"""The model of a report: encoded and decoded as JSON, with strict errors."""

import msgspec
import pytest

from onceproof.reports.model import (
    FORMAT_VERSION,
    Facts,
    InputRecord,
    Report,
    ReportUnreadable,
    decode,
    encode,
)
from onceproof.reports.trace import Trace, lane_indexes, lane_names


def test_encoded_report_decodes_to_an_equal_report(made):
    report = made.report([made.failure()])
    text = encode(report)
    assert decode(text, "report.json") == report
    assert encode(decode(text, "report.json")) == text


def test_format_version_is_always_written():
    assert msgspec.json.decode(encode(Report()))["format_version"] == FORMAT_VERSION


def test_report_of_an_earlier_version_is_read():
    text = b'{"format_version": 1, "nights": [{"started": "2026-11-01", "scenarios": 4000, "failed": 2}]}'
    [night] = decode(text, "report.json").nights
    assert (night.started, night.failed, night.known) == ("2026-11-01", 2, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"format_version": 999, "unheard_of": 1}', "version 999"),
        (b'{"format_version": 1, "failuers": []}', "failuers"),
        (b'{"format_version": 1, "facts": {"scenarios": "many"}}', "$.facts.scenarios"),
        (b'{"format_version": 1', "report.json"),
        (b"\xff\xfe", "report.json"),
        (b"[]", "report.json"),
        (b'{"verdict": "passed"}', "format_version"),
    ],
)
def test_unreadable_report_is_one_line_with_file_and_field(text, expected):
    with pytest.raises(ReportUnreadable) as caught:
        decode(text, "nights/report.json")
    message = str(caught.value)
    assert "nights/report.json" in message
    assert expected in message
    assert "\n" not in message


def test_values_keep_their_types(made):
    record = InputRecord("s", 0, (1, 1.5, "1", True, None, 2**63 + 5))
    report = Report(facts=Facts(seed=2**64 - 1), failures=(made.failure(records=(record,)),))
    back = decode(encode(report), "report.json").failures[0].records[0]
    assert [(type(value), value) for value in back.value] == [(type(v), v) for v in record.value]


def test_half_a_surrogate_pair_is_escaped():
    report = Report(title="half \ud800 of it", problems=("fine ü",))
    back = decode(encode(report), "report.json")
    assert back.title == "half \\ud800 of it"
    assert back.problems == ("fine ü",)


def test_trace_json_of_the_harness_is_accepted():
    trace = msgspec.convert(
        {
            "lanes": ["coordinator", "source-0"],
            "arrows": [
                {"kind": "record", "from": [1, 0], "to": ["count-0", 2], "label": "k1", "lost": False},
                {"kind": "notify", "from": ["coordinator", 3], "to": None, "label": "", "lost": True},
            ],
            "marks": [{"kind": "checkpoint_aborted", "lane": 0, "step": 1, "label": ""}],
            "kills": [{"step": 4, "lanes": ["source-0"], "label": "kill"}],
            "attempts": [{"name": "1.1", "from": 0, "to": 4, "parallelism": 2, "restored": None}],
            "steps": 5,
        },
        Trace,
    )
    assert lane_names(trace) == ("coordinator", "source-0", "count-0")
    rows = lane_indexes(trace)
    assert rows[1] == rows["source-0"] == 1
    assert rows["count-0"] == 2
    assert msgspec.to_builtins(trace)["arrows"][0]["from"] == (1, 0)


def test_trace_with_an_unknown_kind_is_refused():
    with pytest.raises(msgspec.ValidationError, match="smoke"):
        msgspec.convert({"arrows": [{"kind": "smoke", "from": ["a", 0]}]}, Trace)
