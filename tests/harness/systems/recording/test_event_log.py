"""Event logs, as processes write them and as a stranger may forge them."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.model.exit_codes import USAGE, exit_code_of
from onceproof.harness.model.family import FamilyError
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog, read_all_events, read_events


def test_events_of_processes_beside_each_other_are_in_the_order_of_time(tmp_path: Path) -> None:
    logs = [EventLog(str(tmp_path / name)) for name in ("log", "log.7")]
    for number in range(4):
        logs[number % 2].write("seen", number=number)
    assert [event["number"] for event in read_all_events(tmp_path / "log")] == [0, 1, 2, 3]


def test_line_that_a_kill_has_torn_is_no_event(tmp_path: Path) -> None:
    EventLog(str(tmp_path / "log")).write("seen")
    with (tmp_path / "log").open("ab") as file:
        file.write(b'{"at": 7, "ki')
    assert [event["kind"] for event in read_events(tmp_path / "log")] == ["seen"]
    assert read_events(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"at": 1, "kind": "seen", "row": ' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"at": 1, "kind": "seen"', "Input data was truncated"),
        (b'{"at": 1, "kind": "\xff"}', "utf-8"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"at": "now", "kind": "seen"}', "it has no time or no kind"),
        (b'{"kind": "seen"}', "it has no time or no kind"),
    ],
    ids=["deep", "torn", "no text", "a list", "no number", "no time"],
)
def test_line_that_is_no_event_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "log"
    EventLog(str(path)).write("seen")
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(FamilyError) as caught:
        read_events(path)
    assert str(caught.value).startswith(f"{path}:2: no event of a process: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert exit_code_of(caught.value) == USAGE


def test_log_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_BYTES", 100)
    (tmp_path / "log").write_bytes(bytes(101))
    with pytest.raises(
        FamilyError, match="log: the event log of a process cannot be read: it is larger than 100"
    ):
        read_events(tmp_path / "log")
