"""Forks processes that run a job in several workers, and kills single workers at random moments.

Run by test_worker_kills as a module: ``killed_worker_job FOLDER BACKEND BARRIERS KILLS SEED``. The job is
that of killed_job.

The rules this program lives by:

- The job recovers by itself: its coordinator goes on with new workers. Every fourth kill, on average, strikes
  the coordinator; the next process runs the job at another parallelism, in another number of workers.
- Workers are found from outside, as the children of the coordinator's only child.
- A killed coordinator leaves no process behind; one that lives on ends the program with an error.
- The program judges nothing else. It writes which rounds there were, and how many of each kill struck.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.engine.runtime.killed_job import make_input, run
from tests.patience import PATIENCE_SECONDS

LONGEST_LIFE_SECONDS = 0.25
"""From one kill to the next."""
COORDINATOR_SHARE = 0.25
MOST_PARALLEL = 3
POLL_SECONDS = 0.002


def start(folder: Path, backend: str, barriers: str, chance: random.Random) -> int:
    """Fork a process that runs the job in two or three workers; return its id."""
    parallelism = 2 + int(chance.random() * (MOST_PARALLEL - 1))
    workers = 2 + int(chance.random() * (parallelism - 1))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(
                folder,
                backend,
                barriers,
                parallelism,
                execution__local__workers=workers,
                restart_strategy__type="fixed-delay",
                restart_strategy__fixed_delay__attempts=10_000,
                restart_strategy__fixed_delay__delay="0 ms",
            )
            status = 0
        finally:
            os._exit(status)
    return child


def children_of(process: int) -> list[int]:
    """Return the living children of a process."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return list(map(int, found.split()))


def workers_of(coordinator: int) -> list[int]:
    """Return the workers of a job."""
    return [worker for launcher in children_of(coordinator) for worker in children_of(launcher)]


def has_ended(child: int) -> bool:
    """Return whether a child has ended; its status is still to be read."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def kill(process: int) -> bool:
    """Kill a process; return False if it has ended before."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def await_end_of(processes: list[int]) -> None:
    """Wait until none of the processes lives."""
    given_up = time.monotonic() + PATIENCE_SECONDS
    while any(os.path.exists(f"/proc/{process}/cmdline") and is_alive(process) for process in processes):
        if time.monotonic() > given_up:
            sys.exit(f"processes {processes} outlive their coordinator")
        time.sleep(POLL_SECONDS)


def is_alive(process: int) -> bool:
    """Return whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def strike(folder: Path, child: int, chance: random.Random, struck: dict[str, int], kills: int) -> bool:
    """Kill workers of a running job until it ends or its coordinator is killed; return if it finished."""
    while sum(struck.values()) < kills:
        time.sleep(chance.random() * LONGEST_LIFE_SECONDS)
        strikes_coordinator = chance.random() < COORDINATOR_SHARE
        workers = workers_of(child)
        while not workers and not strikes_coordinator and not has_ended(child):
            time.sleep(POLL_SECONDS)
            workers = workers_of(child)
        if has_ended(child):
            break
        if strikes_coordinator:
            launchers = children_of(child)
            kill(child)
            os.waitpid(child, 0)
            struck["coordinator"] += 1
            await_end_of([*launchers, *workers])
            return False
        if workers and kill(chance.choice(workers)):
            struck["worker"] += 1
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"{folder}: the job failed")
    return True


def main() -> None:
    home, backend, barriers = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    kills, seed = int(sys.argv[4]), int(sys.argv[5])
    chance = random.Random(seed)
    folder = home
    rounds: list[str] = []
    struck = {"worker": 0, "coordinator": 0}
    finished = True
    while not finished or sum(struck.values()) < kills:
        if finished:
            folder = home / f"round-{len(rounds)}"
            make_input(folder, chance)
            rounds.append(str(folder))
        child = start(folder, backend, barriers, chance)
        finished = strike(folder, child, chance, struck, kills)
    print(json.dumps({"rounds": rounds, **struck}))


if __name__ == "__main__":
    main()
