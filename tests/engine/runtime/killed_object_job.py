"""Forks processes that run a job over an object store, kills each at a random moment, but for the last.

Run by test_object_store_kills as a module, with the arguments ADDRESS FOLDER KILLS SEED.

The rules this program lives by:

- Checkpoints and part files are at the address. The job uses the public API alone, and nothing in it knows
  of the kills. The seed draws the parallelism of each process and the time from its start to its kill.
- A process that reaches the end before its kill is no kill: the job begins anew at another address, until the
  number of kills is reached. Then the last one runs to its end.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from onceproof.engine import (
    Configuration,
    CsvSource,
    Encoder,
    FileSink,
    RollingPolicy,
    StreamExecutionEnvironment,
    Types,
)
from tests.engine.runtime.killed_job import FILES, MOST_PARALLEL, CountAndTotal, make_input

ROWS = 100
"""Of each file: a request takes as long as hundreds of rows."""
PAUSE_SECONDS = 0.01
LONGEST_LIFE_SECONDS = 2.0
PART_BYTES = 500
"""A part file with so many bytes is complete before its checkpoint."""


class Slowly(CountAndTotal):
    """Takes about a second for all rows, so that kills strike a job under way."""

    def pause_seconds(self, number: int) -> float:
        """Return the pause at a number."""
        return PAUSE_SECONDS


def run(address: str, folder: Path, parallelism: int) -> None:
    """Run the job from its latest checkpoint to its end."""
    options: dict[str, Any] = {
        "execution.checkpointing.interval": "150 ms",
        "execution.checkpointing.dir": f"{address}/checkpoints",
        "execution.checkpointing.num-retained": 2,
        "parallelism.default": parallelism,
        "pipeline.max-parallelism": 12,
        "pipeline.buffer-records": 3,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    schema = [("key", Types.STRING()), ("number", Types.LONG())]
    files = [str(folder / f"{number}.csv") for number in range(FILES)]
    numbers = env.from_source(CsvSource(files, schema), None, "numbers").uid("numbers")
    counted = numbers.key_by(lambda row: row[0], Types.STRING()).process(Slowly()).uid("counted")
    rolling = RollingPolicy.default_rolling_policy(part_size=PART_BYTES)
    builder = FileSink.for_row_format(f"{address}/rows", Encoder.csv_encoder()).with_rolling_policy(rolling)
    counted.sink_to(builder.build()).uid("files")
    env.execute("killed job")


def start(address: str, folder: Path, parallelism: int) -> int:
    """Fork a process that runs the job; return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(address, folder, parallelism)
            status = 0
        finally:
            os._exit(status)
    return child


def main() -> None:
    address, folder, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    # What each process would import again. None of it makes a client or a thread.
    for module in ("s3fs", "botocore.session", "botocore.config"):
        importlib.import_module(module)
    chance = random.Random(seed)
    rounds, killed, finished = 0, 0, True
    while not finished or killed < kills:
        if finished:
            at, home = f"{address}/round-{rounds}", folder / f"round-{rounds}"
            make_input(home, chance, ROWS)
            rounds += 1
        child = start(at, home, 1 + int(chance.random() * MOST_PARALLEL))
        if killed < kills:
            time.sleep(chance.random() * LONGEST_LIFE_SECONDS)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        finished = not os.WIFSIGNALED(status)
        killed += not finished
        if finished and os.WEXITSTATUS(status) != 0:
            sys.exit(f"{at}: the job failed")
    print(json.dumps({"rounds": rounds, "kills": killed}))


if __name__ == "__main__":
    main()
