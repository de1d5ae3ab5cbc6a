"""The programs of this folder print what they print on real Flink, late rows and side outputs included."""

from __future__ import annotations

import importlib
import re

import pytest

from onceproof.engine import Configuration, StreamExecutionEnvironment
from tests.conformance.recordings import IN_ORDER, recordings

OPTIONS = {
    # A watermark follows each record, because the programs pause between them.
    "pipeline.auto-watermark-interval": "1 ms",
    "execution.buffer-timeout.interval": "0 ms",
}
SUBTASK = re.compile(r"^\d+> ")


@pytest.mark.parametrize(
    "place",
    [place for place in recordings() if place[0].startswith("programs/")],
    ids=lambda place: f"{place[0].removeprefix('programs/')} at {place[1]}",
)
def test_program_prints_what_it_prints_on_flink(
    place: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    recording = recordings()[place]
    name = recording.program.removeprefix("programs/").removesuffix(".py")
    options = {**OPTIONS, "parallelism.default": str(recording.parallelism)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    importlib.import_module(f"tests.conformance.programs.{name}").build(env)
    env.execute(name)
    lines = [SUBTASK.sub("", line) for line in capsys.readouterr().out.splitlines()]
    assert (lines if recording.order == IN_ORDER else sorted(lines)) == recording.output
