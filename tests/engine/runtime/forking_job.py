"""A job whose function forks or stops, as a program: ``forking_job FOLDER WORKERS HOW KEY=VALUE...``.

HOW says what the child does: it returns into the engine in some way, does not come back, or kills its parent
and lives on. ``stops`` forks nothing and stops the process of the task. The program prints the restarts of
the job.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from onceproof.engine import (
    AsyncDataStream,
    AsyncFunction,
    Configuration,
    Encoder,
    FileSink,
    FlatMapFunction,
    StreamExecutionEnvironment,
    Time,
    Types,
)
from onceproof.engine.connectors.collection import CollectionSource

COUNT = 4000
FORKS_AT = 1500
A_LONG_TIME = 600
ALONE = 20
"""How many rows the job of a child has."""


def numbers(count):
    return CollectionSource(
        {str(split): [(number, None) for number in range(split, count, 2)] for split in (0, 1)}
    )


def environment(folder, workers, **options):
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "execution.local.workers": workers,
        "pipeline.buffer-records": 50,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": 0,
        **options,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    return env.set_parallelism(2)


def into_files(stream, folder):
    stream.sink_to(FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder()).build())


def squares(numbers_of):
    """Compute in processes that multiprocessing forks."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return sum(pool.map(abs, numbers_of))


def run_a_job(folder):
    """Run a job in this process, which a task has forked."""
    env = environment(folder / "child", 1)
    into_files(env.from_source(numbers(ALONE), None, "numbers"), folder / "child")
    env.execute("of a child")


class Asks(AsyncFunction):
    """Asks for nothing; one of its requests forks, and the child comes back to the event loop."""

    def __init__(self, folder):
        self.folder = folder

    async def async_invoke(self, value):
        if value == FORKS_AT:
            child = os.fork()
            if child == 0:
                await asyncio.sleep(0)
                return [-value]
            _, status = os.waitpid(child, 0)
            (self.folder / "status").write_text(str(os.waitstatus_to_exitcode(status)))
        return [value]


class Forks(FlatMapFunction):
    """Passes numbers on; one of them has it fork."""

    def __init__(self, folder, how):
        self.folder, self.how = folder, how

    def flat_map(self, value):
        if value != FORKS_AT:
            return [value]
        if self.how == "pool":
            return [value] if squares(range(100)) == 4950 else []
        if self.how == "daemon":
            self.start_daemon()
            return [value]
        if self.how in ("is killed", "is killed beside C code", "stops"):
            self.die_once()
            return [value]
        child = os.fork()
        if child == 0:
            return self.in_child(value)
        _, status = os.waitpid(child, 0)
        (self.folder / "status").write_text(str(os.waitstatus_to_exitcode(status)))
        return [value]

    def start_daemon(self):
        context = multiprocessing.get_context("fork")
        child = context.Process(target=time.sleep, args=[A_LONG_TIME], daemon=True)
        child.start()
        (self.folder / "daemon").write_text(str(child.pid))

    def die_once(self):
        mark = self.folder / "died"
        if mark.exists():
            return
        mark.touch()
        if self.how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.how == "is killed":
            if os.fork() == 0:
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(A_LONG_TIME)
                os._exit(0)
        else:
            own, c_library = os.getpid(), ctypes.PyDLL(None)
            if c_library.fork() == 0:
                c_library.kill(own, signal.SIGKILL)
                c_library.sleep(A_LONG_TIME)
                c_library._exit(0)
        time.sleep(A_LONG_TIME)

    def in_child(self, value):
        match self.how:
            case "returns":
                return [-value]
            case "raises":
                os.execv("/nonexistent/tool", ["tool"])
            case "leaves":
                sys.exit(0)
            case "yields":
                return (number for number in [-value])
            case "runs a job":
                run_a_job(self.folder)
        os._exit(0)


def main() -> None:
    folder, workers, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    env = environment(folder, workers, **dict(each.split("=") for each in sys.argv[4:]))
    read = env.from_source(numbers(COUNT), None, "numbers")
    if how == "answers":
        made = AsyncDataStream.unordered_wait(read, Asks(folder), Time.seconds(600), 100, Types.LONG())
    else:
        made = read.flat_map(Forks(folder, how), Types.LONG())
    into_files(made.key_by(lambda value: value, Types.LONG()).map(lambda value: value, Types.LONG()), folder)
    print(env.execute("forking").restarts)


if __name__ == "__main__":
    main()
