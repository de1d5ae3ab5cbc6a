"""Starts a standalone Spark cluster on this machine: a master, and two workers with addresses of their own.

The rules this module lives by:

- Each worker has its own loopback address, so that Spark treats it as another host. Spark speculates, that is
  runs a slow task a second time, only on another host.
- The cluster belongs to the operating system session of its driver and ends with it.
- Its files and logs are in the driver's folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_class_archive import home_variables, link_home, quick_start_options

HOSTS: Final = ("127.0.0.2", "127.0.0.3")
SETTINGS: Final[Mapping[str, str]] = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.quantile": "0.5",
    # A stage with one task has no finished tasks to compare with, so this fixed threshold applies.
    "spark.speculation.task.duration.threshold": "2s",
}
"""Speculation, with thresholds for tasks that take a fraction of a second."""

_SECONDS_TO_START: Final = 90.0
_SECONDS_BETWEEN_LOOKS: Final = 0.05


class ClusterFailed(Exception):
    """A process of the cluster did not start; the message is one line."""


def start_standalone(folder: Path) -> str:
    """Start the cluster, wait for both workers, and return the address of the master."""
    links = folder / "standalone"
    link_home(links)
    # The master starts first, because a worker without a master waits for a long time.
    url = _wait_for_log(
        _start(links, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        r"Starting Spark master at (spark://\S+)",
    )
    logs = [
        _start(
            links,
            "worker.Worker",
            *("--host", host, "--webui-port", "0", "--work-dir", str(folder / host)),
            *("--cores", "1", "--memory", "1g", url),
        )
        for host in HOSTS
    ]
    for log in logs:
        _wait_for_log(log, r"(Successfully registered with master)")
    return url


def _start(links: Path, name: str, *options: str) -> Path:
    """Start a process of the cluster, and return the path of its log."""
    java = find_java(os.environ)
    environment = {
        **os.environ,
        **home_variables(links, java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(quick_start_options(java)),
    }
    log = links / f"log-{len(list(links.iterdir()))}"
    with log.open("wb") as output:
        subprocess.Popen(
            [str(links / "home" / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return log


def _wait_for_log(path: Path, pattern: str) -> str:
    """Wait until a log contains the pattern, and return its first group. Raises ClusterFailed."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    lines = path.read_text(errors="replace").strip().splitlines() or ["nothing"]
    raise ClusterFailed(f"Spark's cluster did not start; last line of its log: {lines[-1]}")
