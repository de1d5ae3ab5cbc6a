"""A driver on a cluster with speculation, one of whose tasks is stopped and goes on when its epoch is over.

A program of its own, ``stopping.py FOLDER MASTER POINT``: it runs the word count in FOLDER. The first sink
that passes POINT in checkpoint 3 is stopped by SIGSTOP; Spark starts another attempt on another host. When
checkpoint 3 is complete, the stopped one is let go on. What it passes from then on stands in ``passed``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.recovery import METADATA

CHECKPOINT = 3

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.executor.memory": "512m",
}


class StopOnce:
    """The probe: stops the first process at the point, and records the points that it passes later."""

    def __init__(self, folder: Path, point: str) -> None:
        self.folder = folder
        self.point = point

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        if checkpoint_id != CHECKPOINT or not task.startswith("count"):
            return
        stopped = self.folder / "stopped"
        me = str(os.getpid())
        if point == self.point:
            try:
                token = os.open(stopped, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                pass
            else:
                os.write(token, me.encode())
                os.kill(os.getpid(), signal.SIGSTOP)
        if stopped.exists() and stopped.read_text() == me and (self.folder / "resumed").exists():
            with (self.folder / "passed").open("a") as passed:
                passed.write(f"{point}\n")


def resume(folder: Path) -> None:
    """Wake the stopped process once the checkpoint is complete without it."""
    stopped = folder / "stopped"
    while not (stopped.exists() and stopped.read_text()):
        time.sleep(0.01)
    [directory] = [each for each in (folder / "checkpoints").iterdir() if each.name != REGISTRY]
    later = [directory / f"chk-{CHECKPOINT}" / METADATA, directory / f"chk-{CHECKPOINT + 1}"]
    while not any(path.exists() for path in later):
        time.sleep(0.01)
    (folder / "resumed").touch()
    os.kill(int(stopped.read_text()), signal.SIGCONT)


def main(folder: str, master: str, point: str) -> None:
    """Run the job to its end."""
    from onceproof.engine.runtime.spark.target import execute_on_spark
    from onceproof.engine.runtime.spark_session import spark_context
    from tests.engine.runtime.conftest import Job

    threading.Thread(target=resume, args=(Path(folder),), daemon=True).start()
    root = Path(__file__).parents[4]
    with spark_context(master, configuration=SPECULATION, python_path=[root]) as context:
        graph = Job(Path(folder)).graph(execution__checkpointing__interval_records=50)
        result = execute_on_spark(graph, context, probe=StopOnce(Path(folder), point))
        print(result.attempts, result.checkpoints)


if __name__ == "__main__":
    main(*sys.argv[1:])
