"""Probes that kill the process they are called in, once each, and a driver that runs under such a probe.

As a program of its own, ``killing.py WHOM FOLDER POINT CHECKPOINT``: start Spark, run the word count in
FOLDER, and where the driver passes a point, kill the ``driver`` or its ``java``. It prints the process id of
its Java first, and how the job failed last.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from onceproof.engine.runtime.spark.subtask import SubtaskRun
from onceproof.engine.state.snapshot import encode_task_snapshot
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task


class Kill(NamedTuple):
    """Who dies: at which point, which task (by the beginning of its name), in which checkpoint (0: any)."""

    point: str
    task: str = ""
    checkpoint: int = 0


class KillOnce:
    """Each kill strikes once, whatever process gets there first: it leaves a file before it strikes."""

    def __init__(self, folder: Path, *kills: Kill, victim: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.kills = kills
        self.victim = victim
        """Whose process id: None for the one that passes the point."""

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        for number, kill in enumerate(self.kills):
            if (
                kill.point != point
                or not task.startswith(kill.task)
                or kill.checkpoint not in (0, checkpoint_id)
            ):
                continue
            try:
                token = os.open(self.folder / f"kill-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            os.write(token, f"{os.getpid()} {point} {task} {checkpoint_id}".encode())
            os.kill(self.victim or os.getpid(), signal.SIGKILL)

    def struck(self) -> list[str]:
        """What became of the kills that have struck."""
        return [path.read_text() for path in sorted(self.folder.iterdir())]


class TearingRun(SubtaskRun):
    """The sink's first attempt in checkpoint 3 dies in the middle of writing its snapshot."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Write half of the file under its name, and kill the process."""
        token = Path(self.storage.root).parent.parent / "torn"
        if effect.checkpoint_id == 3 and not self.vertex.outputs and not token.exists():
            data = encode_task_snapshot(effect.snapshot).data
            self.storage.write(effect.path, data[: len(data) // 2])
            token.write_text(effect.path)
            os.kill(os.getpid(), signal.SIGKILL)


def main(whom: str, folder: str, point: str, checkpoint: str) -> None:
    """Run the job until a process dies."""
    from onceproof.engine.runtime.job_result import JobExecutionFailed
    from onceproof.engine.runtime.spark.target import execute_on_spark
    from onceproof.engine.runtime.spark_session import spark_session
    from tests.engine.runtime.conftest import Job

    with spark_session() as session:
        java = session.sparkContext._gateway.proc.pid
        print(java, flush=True)
        kill = Kill(point, checkpoint=int(checkpoint))
        probe = KillOnce(Path(folder) / "kills", kill, victim=java if whom == "java" else None)
        try:
            execute_on_spark(Job(Path(folder)).graph(), session, probe=probe)
        except JobExecutionFailed as error:
            print(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
