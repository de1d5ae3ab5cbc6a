"""A cluster of Flink: a JobManager and TaskManagers as plain processes of Java, and its REST interface.

The rules this module lives by:

- Every process is started by its main class, without Flink's scripts, in a session of its own. It dies with
  the harness. A kill is a SIGKILL.
- A cluster has all that it writes below one folder. Ports are free ones of the loopback interface.
- TaskManagers that have died are replaced only when a run asks for it, as by ``fill``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from onceproof.harness.services.service import LOOPBACK, ServiceError, die_with_parent, free_port, last_lines
from onceproof.harness.systems.flink.home import OPENED, VERSION, FlinkHome

TASK_MANAGERS: Final = 2
JOB_MANAGER: Final = "job-manager"
TASK_MANAGER: Final = "task-manager"
_MAINS: Final = {
    JOB_MANAGER: "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    TASK_MANAGER: "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
}
_BOUNDARY: Final = "onceproof-jar"
_LISTENS: Final = re.compile(rf"istening on (?:addresses :\[|SocketAddress )\D*?({re.escape(LOOPBACK)}:\d+)")
"""In the log of a TaskManager, an address at which others reach it."""
_START_S: Final = 300.0
_REQUEST_S: Final = 10.0
_POLL_S: Final = 0.05
_LONGEST_ERROR: Final = 20_000

SETTINGS: Final = {
    "jobmanager.rpc.address": LOOPBACK,
    "jobmanager.bind-host": LOOPBACK,
    "rest.address": LOOPBACK,
    "rest.bind-address": LOOPBACK,
    "taskmanager.host": LOOPBACK,
    "taskmanager.bind-host": LOOPBACK,
    # Two hold a job of any parallelism that scenarios ask for.
    "taskmanager.numberOfTaskSlots": "6",
    "taskmanager.load-balance.mode": "SLOTS",
    "taskmanager.cpu.cores": "1.0",
    "taskmanager.memory.task.heap.size": "96mb",
    "taskmanager.memory.task.off-heap.size": "32mb",
    "taskmanager.memory.framework.heap.size": "64mb",
    "taskmanager.memory.framework.off-heap.size": "32mb",
    "taskmanager.memory.jvm-metaspace.size": "256mb",
    "taskmanager.memory.jvm-overhead.min": "32mb",
    "taskmanager.memory.jvm-overhead.max": "32mb",
    "taskmanager.memory.network.min": "16mb",
    "taskmanager.memory.network.max": "16mb",
    "taskmanager.memory.segment-size": "4kb",
    "taskmanager.memory.managed.size": "16mb",
    # A death is noticed by the connection that breaks, at once, and by heartbeats after that.
    "heartbeat.interval": "500",
    "heartbeat.timeout": "5000",
    "heartbeat.rpc-failure-threshold": "1",
    "web.refresh-interval": "50",
    "jobmanager.execution.failover-strategy": "region",
    "slot.idle.timeout": "200",
    "slot.request.timeout": "60000",
    # Until then a job waits for TaskManagers that are to come.
    "resourcemanager.standalone.start-up-time": "3600000",
    "resourcemanager.previous-worker.recovery.timeout": "0 ms",
    "cluster.io-pool.size": "4",
    "rest.server.numThreads": "2",
    "execution.checkpointing.num-retained": "1000",
}
"""Small processes that notice a death soon. All checkpoints are kept until the job finishes."""

RENAMED_IN: Final = (1, 20)
EARLIER_NAMES: Final = {
    "execution.checkpointing.dir": "state.checkpoints.dir",
    "execution.checkpointing.num-retained": "state.checkpoints.num-retained",
}
"""By setting, its name before RENAMED_IN."""
YAML_SINCE: Final = (1, 19)
JOBS_BY_CLIENT: Final = {"web.submit.enable": "false"}

_LOGGING: Final = """\
rootLogger.level=INFO
rootLogger.appenderRef.console.ref=Console
appender.console.name=Console
appender.console.type=Console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %-5p %c{1} - %m%n
"""


class FlinkCluster:
    """One cluster with its data below a folder, which is starting until ``wait_until_ready`` returns."""

    def __init__(
        self,
        home: FlinkHome,
        folder: Path,
        own_settings: Mapping[str, str] = JOBS_BY_CLIENT,
        *,
        archives_classes: bool = False,
    ) -> None:
        self._home = home
        self._archives_classes = archives_classes
        self._folder = folder
        self.port = free_port()
        """Of the REST interface."""
        settings = {
            **SETTINGS,
            "jobmanager.rpc.port": str(free_port()),
            "rest.port": str(self.port),
            "rest.bind-port": str(self.port),
            "io.tmp.dirs": str(folder / "temporary"),
            # A JobManager that is killed leaves it, so it stands where all of the cluster is removed.
            "web.tmpdir": str(folder / "temporary"),
            **own_settings,
        }
        self.configuration = make_configuration(folder / "configuration", settings, home.version)
        (folder / "temporary").mkdir()
        self._started = 0
        self._task_managers: list[subprocess.Popen[bytes]] = []
        self._names: dict[int, str] = {}
        """By process id of a TaskManager, its name."""
        self._killed: list[str] = []
        """The names of TaskManagers that the present scenario has killed."""
        self._job_manager = self._start(JOB_MANAGER)
        self.fill()

    @property
    def is_alive(self) -> bool:
        """Whether the JobManager lives."""
        return self._job_manager.poll() is None

    def fill(self) -> None:
        """Start as many TaskManagers as have died."""
        self._task_managers = [each for each in self._task_managers if each.poll() is None]
        # Two that write the archive of their classes would write one file.
        while len(self._task_managers) < (1 if self._archives_classes else TASK_MANAGERS):
            self._started += 1
            name = f"task-manager-{self._started}"
            temporary = self._folder / name
            temporary.mkdir()
            own = ["-D", f"taskmanager.resource-id={name}", "-D", f"io.tmp.dirs={temporary}"]
            process = self._start(TASK_MANAGER, name, *own)
            self._names[process.pid] = name
            self._task_managers.append(process)

    def wait_until_ready(self) -> None:
        """Return when all TaskManagers offer their slots. Raises ServiceError."""
        deadline = time.monotonic() + _START_S
        while True:
            with suppress(FlinkRefuses, FlinkAway):
                if len(self.request("/taskmanagers")["taskmanagers"]) >= len(self._task_managers):
                    return
            if not self.is_alive:
                raise ServiceError(f"Flink's JobManager has ended: {last_lines(self._log(JOB_MANAGER))}")
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"Flink's TaskManagers have not come within {_START_S:.0f} s: see {self._folder}"
                )
            time.sleep(_POLL_S)

    def request(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        *,
        kind: str = "application/json",
        seconds: float = _REQUEST_S,
    ) -> Any:
        """Ask the REST interface, and return its answer.

        Args:
            body: an object, which is sent as JSON, or bytes of another ``kind``.
            seconds: how long the answer is waited for.

        Raises:
            FlinkAway: nothing answers.
            FlinkRefuses: it answers with an error.
        """
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self.port}{path}",
            method=method,
            data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise FlinkRefuses(f"{path}: {error.read().decode(errors='replace')[:_LONGEST_ERROR]}") from None
        except (OSError, ValueError) as error:
            raise FlinkAway(f"{path}: {error}") from None

    def kill_task_managers(self, is_victim: Callable[[int], bool] = lambda _: True) -> int:
        """Kill those TaskManagers whose process ids are victims; return how many have died."""
        victims = [each for each in self._task_managers if each.poll() is None and is_victim(each.pid)]
        for victim in victims:
            _kill(victim)
            self._killed.append(self._names[victim.pid])
        return len(victims)

    def upload(self, jar: Path) -> str:
        """Give the JobManager a jar, and return its name there. Raises what ``request`` does."""
        head = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
            "Content-Type: application/x-java-archive\r\n\r\n"
        )
        body = head.encode() + jar.read_bytes() + f"\r\n--{_BOUNDARY}--\r\n".encode()
        kind = f"multipart/form-data; boundary={_BOUNDARY}"
        return Path(self.request("/jars/upload", "POST", body, kind=kind)["filename"]).name

    @property
    def processes(self) -> list[int]:
        """The ids of its processes that live."""
        each = [self._job_manager, *self._task_managers]
        return [process.pid for process in each if process.poll() is None]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process, number)

    @property
    def jars(self) -> Path:
        """The folder of its jars."""
        return self._home.jars

    @property
    def log(self) -> Path:
        """What its JobManager says."""
        return self._log(JOB_MANAGER)

    def begin_scenario(self) -> None:
        """Start as many TaskManagers as have died, and forget their deaths: another scenario begins."""
        self._killed.clear()
        self.fill()

    def names_killed(self, text: str) -> bool:
        """Return whether a text names a TaskManager that was killed: by its name or one of its addresses."""
        for name in self._killed:
            log = self._log(name).read_text(encoding="utf-8", errors="replace")
            if any(re.search(rf"{re.escape(each)}(?!\d)", text) for each in (name, *_LISTENS.findall(log))):
                return True
        return False

    def kill_one_task_manager(self) -> bool:
        """Kill one TaskManager, whichever it is; return whether one was alive."""
        living = [each.pid for each in self._task_managers if each.poll() is None]
        return bool(living) and self.kill_task_managers(lambda pid: pid == living[0]) > 0

    def kill_job_manager(self) -> None:
        """Kill the JobManager alone; tasks run on until their TaskManagers notice."""
        _kill(self._job_manager)

    def restart_job_manager(self) -> None:
        """Start the JobManager again where it was, so that its TaskManagers find it."""
        self._job_manager = self._start(JOB_MANAGER)

    def kill(self) -> None:
        """Kill all processes, and return when they are dead."""
        self.kill_job_manager()
        self.kill_task_managers()

    def stop(self) -> None:
        """End all processes in order, and return when they have ended."""
        processes = [*self._task_managers, self._job_manager]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(_START_S)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _start(self, kind: str, name: str = "", *own: str) -> subprocess.Popen[bytes]:
        archive = self._home.archive(kind)
        if self._archives_classes:
            archive_options = [f"-XX:ArchiveClassesAtExit={archive}"]
        else:
            archive_options = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        command = [
            str(self._home.java.home / "bin" / "java"),
            "-Xmx192m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:MaxMetaspaceSize=256m",
            *archive_options,
            *OPENED,
            f"-Dlog4j.configurationFile=file:{self.configuration / 'log4j.properties'}",
            "-cp",
            self._home.class_path,
            _MAINS[kind],
            "--configDir",
            str(self.configuration),
            *own,
        ]
        with self._log(name or kind).open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._home.environment(self.configuration),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )


def make_configuration(folder: Path, settings: Mapping[str, str], version: str = VERSION) -> Path:
    """Make a folder with the settings of processes of a release of Flink, and return it."""
    (folder / "plugins").mkdir(parents=True)
    release = tuple(map(int, version.split(".")[:2]))
    earlier = EARLIER_NAMES if release < RENAMED_IN else {}
    lines = [f"{earlier.get(key, key)}: {value}\n" for key, value in settings.items()]
    name = "config.yaml" if release >= YAML_SINCE else "flink-conf.yaml"
    (folder / name).write_text("".join(lines), encoding="utf-8")
    (folder / "log4j.properties").write_text(_LOGGING, encoding="utf-8")
    return folder


def archive_classes(home: FlinkHome) -> None:
    """Store the classes that Flink's processes load, so that later ones start in two thirds of the time.

    Raises:
        ServiceError: the cluster does not start.
    """
    if home.archive(TASK_MANAGER).is_file():
        return
    with tempfile.TemporaryDirectory(prefix="onceproof-flink-") as name:
        cluster = FlinkCluster(home, Path(name) / "cluster", archives_classes=True)
        try:
            cluster.wait_until_ready()
            cluster.stop()
        finally:
            cluster.kill()


class FlinkAway(Exception):
    """The REST interface of a cluster does not answer."""


class FlinkRefuses(Exception):
    """The REST interface of a cluster answers with an error."""


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
