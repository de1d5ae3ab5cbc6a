"""Runs a job over one folder, and lets its function do what the folder requests.

Run by test_acts as a program of its own, in the folder: ``acted_job.py RUNTIME``, where the runtime is one of
RUNTIMES.

Rules:

- The job names everything by relative paths, so a function that changes the working directory changes
  nothing.
- The source waits at gates: it reads row ``n * GATE_ROWS`` of a file when the file ``gate-n`` exists. So an
  act between two gates strikes a job under way on any machine. Checkpoints complete meanwhile, so the rows
  before a gate become visible.
- The file ``request`` names an act. The function that renames it first carries the act out.
- The program judges nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onceproof.engine import (
    Configuration,
    CsvSource,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    RuntimeContext,
    SplitReader,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.connectors.source import ForwardingReader, Record

FILES = 2
GATE_ROWS = 100
"""Rows of each file between two gates."""
ROWS_PER_PAUSE = 10
PAUSE_SECONDS = 0.01
RUNTIMES = ("one process", "workers", "standby", "spark")
SILENCE_SECONDS = 10
"""Of a lease, and of a coordinator with a worker that says nothing: far above what a busy machine takes."""


class GatedSource(CsvSource):
    """Reads the files as far as their gates are open. A position counts the rows that were read."""

    def __init__(self, files: list[str], schema: Any, folder: str) -> None:
        super().__init__(files, schema)
        self._folder = folder

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader that stops at gates."""
        inner, rows = (None, 0) if position is None else position
        return GatedReader(super().open_split(split, inner), rows, self._folder)


class GatedReader(ForwardingReader):
    """Returns no row behind a closed gate."""

    def __init__(self, reader: SplitReader, rows: int, folder: str) -> None:
        super().__init__(reader)
        self._rows = rows
        self._folder = folder

    def read(self, limit: int) -> list[Record]:
        """Return rows before the next closed gate."""
        if not os.path.exists(f"{self._folder}/gate-{self._rows // GATE_ROWS}"):
            return []
        records = self._reader.read(min(limit, GATE_ROWS - self._rows % GATE_ROWS))
        self._rows += len(records)
        return list(records)

    @property
    def position(self) -> Any:
        """The position in the file, and how many rows come before it."""
        return self._reader.position, self._rows


class CountAndAct(KeyedProcessFunction):
    """Emits each number with the count of its key so far, and carries out the acts of the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key, number = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if number % ROWS_PER_PAUSE == 0:
            time.sleep(PAUSE_SECONDS)
            carry_out(self._folder)
        yield key, number, count


def carry_out(folder: str) -> None:
    """Carry out the act that the folder requests, if it requests one."""
    taken = f"{folder}/taken-{os.getpid()}"
    try:
        os.rename(f"{folder}/request", taken)
    except FileNotFoundError:
        return
    act = Path(taken).read_text()
    os.unlink(taken)
    match act:
        case "fork":
            # The child returns into the engine as if it were the task.
            os.fork()
        case "chdir":
            os.chdir("/")
        case "exit":
            sys.exit(0)
        case "interrupt":
            raise KeyboardInterrupt
        case "close":
            raise GeneratorExit
        case _:
            raise ValueError(f"no act {act!r}")


def options_of(runtime: str) -> dict[str, Any]:
    """Return the options of a runtime."""
    match runtime:
        case "workers":
            return {
                "execution.local.workers": 2,
                "heartbeat.interval": "500 ms",
                "heartbeat.timeout": f"{SILENCE_SECONDS} s",
            }
        case "standby":
            return {"high-availability.lease-timeout": f"{SILENCE_SECONDS} s"}
        case "spark":
            return {
                "execution.target": "spark",
                "execution.spark.master": "local[2,4]",
                "execution.checkpointing.interval-records": GATE_ROWS // 2,
            }
        case _:
            return {}


def run(folder: Path, runtime: str) -> None:
    """Run the job from its latest checkpoint to its end."""
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": "checkpoints",
        "parallelism.default": 2,
        "pipeline.buffer-records": 5,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000,
        "restart-strategy.fixed-delay.delay": "10 ms",
        **options_of(runtime),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    schema = [("key", Types.STRING()), ("number", Types.LONG())]
    files = [f"{number}.csv" for number in range(FILES)]
    numbers = env.from_source(GatedSource(files, schema, str(folder)), None, "numbers").uid("numbers")
    counted = numbers.key_by(lambda row: row[0], Types.STRING()).process(CountAndAct(str(folder)))
    sink = FileSink.for_row_format("rows", Encoder.csv_encoder()).build()
    counted.uid("counted").sink_to(sink).uid("rows")
    env.execute("acted job")


if __name__ == "__main__":
    # A shell that starts programs in the background lets them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    run(Path.cwd(), sys.argv[1])
