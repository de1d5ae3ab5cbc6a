"""Copies lines of files into a folder of rows, while its tests change the files and kill it.

Run by test_changed_inputs as a program of its own: ``changed_input_job.py FOLDER SOURCE [OPTION=VALUE ...]``.

The source ``csv`` reads one file; the job crawls, after its first rows, until the file ``go`` exists, so that
it is killed or its file changed while it reads, on any machine. The source ``logs`` monitors a folder until
the file ``stop`` exists; then the job is stopped with a savepoint.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from onceproof.engine import (
    Configuration,
    CsvSource,
    Duration,
    Encoder,
    FileSink,
    FileSource,
    MapFunction,
    Source,
    StreamExecutionEnvironment,
    StreamFormat,
    Types,
)
from onceproof.engine.api.job_client import JobClient, SavepointFailed

FAST_ROWS = 3000
PAUSE_SECONDS = 0.005


class Crawl(MapFunction):
    """Returns the row; it takes its time until it may go."""

    def __init__(self, folder: Path) -> None:
        self._go = folder / "go"

    def map(self, value: tuple[str, int]) -> tuple[str, int]:
        if value[1] > FAST_ROWS and not self._go.exists():
            time.sleep(PAUSE_SECONDS)
        return value


def pair(line: str) -> tuple[str]:
    return (line,)


def run(folder: Path, kind: str, given: list[str]) -> None:
    """Run the job to its end, or until it is stopped."""
    options = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "pipeline.buffer-records": 10,
    }
    options.update(option.split("=", 1) for option in given)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    source: Source
    if kind == "csv":
        source = CsvSource(str(folder / "input.csv"), [("word", Types.STRING()), ("n", Types.LONG())])
        stream = env.from_source(source, None, "rows").uid("source").map(Crawl(folder)).uid("rows")
    else:
        text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "logs"))
        source = text.monitor_continuously(Duration.of_millis(20)).build()
        stream = env.from_source(source, None, "rows", Types.STRING()).uid("source").map(pair).uid("rows")
    sink = FileSink.for_row_format(str(folder / "rows"), Encoder.csv_encoder()).build()
    stream.sink_to(sink).uid("sink")
    client = env.execute_async("changed inputs")
    if kind == "logs":
        stop(client, folder)
    client.get_job_execution_result().result()


def stop(client: JobClient, folder: Path) -> None:
    """Stop the job with a savepoint once it may end; ask again while its tasks are not all running yet."""
    while not client.get_job_execution_result().done():
        if (folder / "stop").exists():
            try:
                client.stop_with_savepoint(False, str(folder / "savepoints")).result()
            except SavepointFailed as failure:
                if "NOT_ALL_REQUIRED_TASKS_RUNNING" not in str(failure):
                    raise
            else:
                return
        time.sleep(0.01)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
