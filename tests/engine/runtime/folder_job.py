"""Forks processes that count the words of files in a folder, and kills them while further files come.

Run by test_source_jobs as a program of its own: ``folder_job.py FOLDER KILLS SEED``.

Each process monitors the folder at a parallelism of its own, until it is killed: at a random moment, or a
random time after it has made rows visible. The last one is asked to stop with a savepoint when all files have
been moved in and their rows are visible.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from onceproof.engine import (
    Configuration,
    Duration,
    Encoder,
    FileSink,
    FileSource,
    StreamExecutionEnvironment,
    StreamFormat,
    Types,
)
from onceproof.engine.api.job_client import JobClient, SavepointFailed

FILES_PER_KILL = 4
LINES = 60
WORDS = 7
LONGEST_LIFE_SECONDS = 0.6
LONGEST_WAIT_SECONDS = 0.1
"""From the first rows of a process to its kill."""
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.001
NOT_ALL_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"


def with_pause(line: str) -> tuple[str, int]:
    """Return a pair; some lines take a millisecond, so that kills strike files that are half read."""
    word, number = line.split()
    if int(number) % 5 == 0:
        time.sleep(PAUSE_SECONDS)
    return word, 1


def run(folder: Path, parallelism: int) -> None:
    """Run the job until the file ``stop`` appears; end it with a savepoint."""
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "parallelism.default": parallelism,
        "pipeline.max-parallelism": 12,
        "pipeline.buffer-records": 3,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "in"))
    source = text.monitor_continuously(Duration.of_millis(5)).build()
    lines = env.from_source(source, None, "lines", Types.STRING()).uid("lines")
    counted = lines.map(with_pause).key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counted")
    counted.sink_to(FileSink.for_row_format(str(folder / "rows"), Encoder.csv_encoder()).build()).uid("rows")
    client = env.execute_async("words of a folder")
    while not (folder / "stop").exists():
        time.sleep(0.01)
        if client.get_job_execution_result().done():
            break
    else:
        stop(client, folder)
    client.get_job_execution_result().result()


def stop(client: JobClient, folder: Path) -> None:
    """Stop the job with a savepoint; ask again while its tasks are not all running yet."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            client.stop_with_savepoint(False, str(folder / "savepoints")).result()
            return
        except SavepointFailed as failure:
            if NOT_ALL_RUNNING not in str(failure) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def start(folder: Path, parallelism: int) -> int:
    """Fork a process that runs the job; return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(folder, parallelism)
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    return child


def move_in(folder: Path, number: int, chance: random.Random) -> None:
    """Write a file under a hidden name, and move it into the folder or into one below it."""
    hidden = folder / "in" / f".{number}"
    hidden.write_text("".join(f"w{int(chance.random() * WORDS)} {line}\n" for line in range(LINES)))
    target = folder / "in" / f"day{number % 3}"
    target.mkdir(exist_ok=True)
    hidden.rename(target / f"{number}.txt")


def rows_of(folder: Path) -> list[str]:
    """Return the visible rows."""
    files = [path for path in (folder / "rows").glob("part-*") if path.is_file()]
    return [line for path in files for line in path.read_text().splitlines()]


def wait_for_rows(folder: Path, count: int) -> None:
    """Wait until at least so many rows are visible."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(rows_of(folder)) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(int(sys.argv[3]))
    (folder / "in").mkdir()
    files = 0
    rows: list[int] = []
    for _ in range(kills):
        child = start(folder, 1 + int(chance.random() * 4))
        for _ in range(FILES_PER_KILL):
            move_in(folder, files, chance)
            files += 1
            time.sleep(chance.random() * LONGEST_LIFE_SECONDS / FILES_PER_KILL)
        if chance.random() < 0.7:
            wait_for_rows(folder, sum(rows) + 1)
            time.sleep(chance.random() * LONGEST_WAIT_SECONDS)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit("the job ended by itself")
        rows.append(len(rows_of(folder)) - sum(rows))
    child = start(folder, 1 + int(chance.random() * 4))
    wait_for_rows(folder, files * LINES)
    (folder / "stop").touch()
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit("the job failed")
    print(json.dumps({"files": files, "rows": rows}))


if __name__ == "__main__":
    main()
