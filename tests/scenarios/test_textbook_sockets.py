"""The textbook's programs that read a socket or a file: the outputs over real connections of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine import DataStream, SinkFunction, StreamExecutionEnvironment, Time
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import (
    five_second_sum,
    greatest_of_five,
    mean_of_three,
    sliding_word_count,
    word_counts,
)
from tests.conformance import textbook_input
from tests.patience import PATIENCE_SECONDS
from tests.scenarios.golden import meaning_of
from tests.scenarios.lessons import TEXTBOOK, passes
from tests.scenarios.textbook_output import printed_as_on_flink

GOLDEN = {
    "textbook_greatest_of_five": "1:fb8f892fc855667e",
    "textbook_mean_of_three": "1:872a3e7ffe49d4a1",
}
TEXT = "\n".join(textbook_input.LINES_OF_WORDS)
RUNNING = ["(hello,1)", "(world,1)", "(hello,2)", "(flink,1)", "(hello,3)"]


@pytest.fixture
def serve() -> Iterator[Callable[..., list[str]]]:
    """Return a function that serves lines to one client, until the event is set; gives host and port."""
    open_servers = []

    def start(lines: str, end: threading.Event | None = None) -> list[str]:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(PATIENCE_SECONDS)

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(lines.encode())
                if end is not None:
                    end.wait(PATIENCE_SECONDS)

        thread = threading.Thread(target=answer)
        thread.start()
        open_servers.append((listening, thread))
        return ["127.0.0.1", str(listening.getsockname()[1])]

    yield start
    for listening, thread in open_servers:
        thread.join(PATIENCE_SECONDS)
        listening.close()


@pytest.mark.parametrize("name", GOLDEN)
def test_five_seeds_have_their_golden_hashes(name: str) -> None:
    check_family(load_family(name))
    assert meaning_of(load_family(name)) == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_sound_engine_passes_the_rule(name: str) -> None:
    assert passes(name, 15)


def test_the_greatest_of_five_numbers_is_that_of_its_word(
    serve: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    greatest_of_five.main(serve("".join(f"{line}\n" for line in textbook_input.NUMBERS_OF_WORDS)))
    listed = ["5.0", "100.0"]
    assert printed_as_on_flink("greatest_of_five.py", capsys.readouterr().out) == listed


def test_the_means_of_one_to_six_are_two_and_five(
    serve: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    mean_of_three.main(serve("".join(f"{line}\n" for line in textbook_input.ONE_TO_SIX)))
    assert printed_as_on_flink("mean_of_three.py", capsys.readouterr().out) == ["2", "5"]


class RowsUntilAll(SinkFunction):
    """Keeps rows of (key, number) in a list of the test; ends the connection when the numbers come to 10."""

    def __init__(self, rows: list[tuple[Any, int]], end: threading.Event) -> None:
        self._rows = rows
        self._end = end

    def __deepcopy__(self, memo: object) -> RowsUntilAll:
        return self

    def invoke(self, value: tuple[Any, int], context: object) -> None:
        self._rows.append(value)
        if sum(number for _, number in self._rows) >= 10:
            self._end.set()


def rows_by_the_clock(
    build: Callable[[DataStream], DataStream], place: list[str], end: threading.Event
) -> list[tuple[Any, int]]:
    """Return what a program emits while the connection is open."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows: list[tuple[Any, int]] = []
    with (
        pytest.warns(DeprecationWarning, match=r"key_by\(0\) is deprecated"),
        pytest.warns(DeprecationWarning, match="time_window is deprecated: .*ProcessingTimeWindows$"),
    ):
        built = build(env.socket_text_stream(place[0], int(place[1])))
    built.add_sink(RowsUntilAll(rows, end))
    start = time.monotonic()
    env.execute("by the clock")
    assert time.monotonic() - start < PATIENCE_SECONDS / 2, (
        "the windows fired only when the connection had ended"
    )
    return rows


def test_numbers_of_five_seconds_are_added_by_the_clock(serve: Callable[..., list[str]]) -> None:
    end = threading.Event()
    place = serve("1\n2\n3\n4\n", end)
    rows = rows_by_the_clock(
        lambda lines: five_second_sum.build(lines, Time.milliseconds(300)),
        place,
        end,
    )
    assert {key for key, _ in rows} == {1}
    assert sum(total for _, total in rows) == 10
    assert five_second_sum.SIZE.to_milliseconds() == 5_000


def test_words_are_counted_in_two_sliding_windows(serve: Callable[..., list[str]]) -> None:
    end = threading.Event()
    place = serve(f"{TEXT}\n", end)
    rows = rows_by_the_clock(
        lambda lines: sliding_word_count.build(lines, Time.milliseconds(600), Time.milliseconds(300)),
        place,
        end,
    )
    for word, count in (("hello", 3), ("world", 1), ("flink", 1)):
        assert sum(number for each, number in rows if each == word) == 2 * count
    assert (
        sliding_word_count.SIZE.to_milliseconds() == 2 * sliding_word_count.SLIDE.to_milliseconds() == 10_000
    )


# The word count three ways.


def test_a_file_as_a_batch_gives_one_count_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.txt"
    path.write_text(TEXT, encoding="utf-8")
    word_counts.main(["batch", str(path)])
    assert sorted(printed_as_on_flink("word_counts.py batch", capsys.readouterr().out)) == [
        "(flink,1)",
        "(hello,3)",
        "(world,1)",
    ]


def test_a_file_as_a_stream_gives_every_running_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "words.txt"
    path.write_text(TEXT, encoding="utf-8")
    word_counts.main(["stream", str(path)])
    assert printed_as_on_flink("word_counts.py", capsys.readouterr().out) == RUNNING


def test_a_socket_gives_every_running_count(
    serve: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    word_counts.main(["socket", *serve(TEXT)])
    assert printed_as_on_flink("word_counts.py", capsys.readouterr().out) == RUNNING


@pytest.mark.parametrize("program", ["word_counts", "mean_of_three"])
def test_wrong_arguments_get_one_line(program: str) -> None:
    command = [sys.executable, str(TEXTBOOK / f"{program}.py"), "socket", "localhost", "nine"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
