"""Forks processes that run a job, kills them with SIGKILL at random moments, and lets the last one finish.

Run by test_kill_loop as a program of its own: ``killed_job.py FOLDER BACKEND BARRIERS KILLS SEED``.

The rules this program lives by:

- The job uses the public API alone, and nothing in it knows of the kills. The seed draws the parallelism of
  each process and the moment of its kill: a time after its start, or a time after some checkpoints that it
  completes. The former strikes the restore as well; the latter strikes a job under way on any machine.
- A process that reaches the end of the job before its kill ends a round. The next round begins in a folder of
  its own, until the number of kills is reached; then the last round runs to its end.
- The program judges nothing. It writes which rounds there were, and how many checkpoints each killed process
  completed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from onceproof.engine import (
    Configuration,
    CsvSource,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    RuntimeContext,
    SqliteUpsertSink,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

FILES = 4
KEYS = 7
ROWS = 1_200
"""Rows of each file."""
ROWS_PER_PAUSE = 4
PAUSE_SECONDS = 0.001
"""The job pauses after so many rows: that a process is killed before the end hangs on no machine's speed."""
LONGEST_LIFE_SECONDS = 0.5
"""Of a process that is killed by the time since its start."""
LONGEST_WAIT_SECONDS = 0.1
"""From the last of the awaited checkpoints to the kill."""
MOST_CHECKPOINTS = 4
POLL_SECONDS = 0.002
MOST_PARALLEL = 3
BARRIERS = {
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": "true"},
    "timed": {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "1 ms",
    },
    "at-least-once": {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
}


class CountAndTotal(KeyedProcessFunction):
    """Emits each number with its key's count and total so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.DYNAMIC()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key, number = value
        count, total = self.seen.value() or (0, 0)
        count, total = count + 1, total + number
        self.seen.update((count, total))
        if number % ROWS_PER_PAUSE == 0:
            time.sleep(self.pause_seconds(number))
        yield key, number, count, total

    def pause_seconds(self, number: int) -> float:
        """Return the pause at a number."""
        return PAUSE_SECONDS


def run(
    folder: Path,
    backend: str,
    barriers: str,
    parallelism: int,
    function: CountAndTotal | None = None,
    **more: Any,
) -> None:
    """Run the job from its latest checkpoint to its end; ``more`` are options, with ``__`` for a dot."""
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.num-retained": 2,
        "execution.checkpointing.incremental": "true",
        "parallelism.default": parallelism,
        "pipeline.max-parallelism": 12,
        "pipeline.buffer-records": 3,
        "state.backend.type": backend,
        **BARRIERS[barriers],
        **{key.replace("__", ".").replace("_", "-"): value for key, value in more.items()},
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    schema = [("key", Types.STRING()), ("number", Types.LONG())]
    files = [str(folder / f"{number}.csv") for number in range(FILES)]
    numbers = env.from_source(CsvSource(files, schema), None, "numbers").uid("numbers")
    counted = (
        numbers.key_by(lambda row: row[0], Types.STRING()).process(function or CountAndTotal()).uid("counted")
    )
    counted.sink_to(FileSink.for_row_format(str(folder / "rows"), Encoder.csv_encoder()).build()).uid("files")
    table = SqliteUpsertSink(str(folder / "totals.db"), "totals", ["key", "number", "count", "total"])
    counted.sink_to(table).uid("table")
    env.execute("killed job")


def make_input(folder: Path, chance: random.Random, length: int = ROWS) -> None:
    """Write the files. A key is in one file only, so the order of its numbers is that of the file."""
    folder.mkdir()
    for file in range(FILES):
        rows = [f"{file}-{int(chance.random() * KEYS)},{number}\n" for number in range(length)]
        (folder / f"{file}.csv").write_text("key,number\n" + "".join(rows))


def checkpoints_of(folder: Path) -> int:
    """Return the id of the latest checkpoint that the folder holds complete; 0 if none."""
    metadata = folder.glob("checkpoints/*/chk-*/_metadata")
    return max((int(path.parent.name.removeprefix("chk-")) for path in metadata), default=0)


class Kill(NamedTuple):
    """When a process is killed."""

    checkpoints: int
    """So many checkpoints it completes before; 0: the wait begins with the process."""
    wait_seconds: float


def drawn_kill(chance: random.Random) -> Kill:
    if chance.random() < 0.5:
        return Kill(0, chance.random() * LONGEST_LIFE_SECONDS)
    return Kill(1 + int(chance.random() * MOST_CHECKPOINTS), chance.random() * LONGEST_WAIT_SECONDS)


def start(folder: Path, backend: str, barriers: str, parallelism: int) -> int:
    """Fork a process that runs the job; return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(folder, backend, barriers, parallelism)
            status = 0
        finally:
            os._exit(status)
    return child


def is_killed(child: int, folder: Path, kill: Kill | None) -> bool:
    """Wait for the moment and kill the process. Return False if it had ended before, without an error."""
    awaited = checkpoints_of(folder) + kill.checkpoints if kill else 0
    while kill and checkpoints_of(folder) < awaited:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(POLL_SECONDS)
    if kill:
        time.sleep(kill.wait_seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) != 0:
        sys.exit(f"{folder}: the job failed")
    return os.WIFSIGNALED(status)


def main() -> None:
    home, backend, barriers = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    kills, seed = int(sys.argv[4]), int(sys.argv[5])
    chance = random.Random(seed)
    folder = home
    rounds: list[str] = []
    progress: list[int] = []
    finished = True
    while not finished or len(progress) < kills:
        if finished:
            folder = home / f"round-{len(rounds)}"
            make_input(folder, chance)
            rounds.append(str(folder))
        before = checkpoints_of(folder)
        child = start(folder, backend, barriers, 1 + int(chance.random() * MOST_PARALLEL))
        finished = not is_killed(child, folder, drawn_kill(chance) if len(progress) < kills else None)
        if not finished:
            progress.append(checkpoints_of(folder) - before)
    print(json.dumps({"rounds": rounds, "progress": progress}))


if __name__ == "__main__":
    main()
