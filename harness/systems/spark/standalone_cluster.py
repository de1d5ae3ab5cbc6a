"""A standalone cluster of Spark on this machine: a master, and two workers that are hosts of their own.

The rules this module lives by:

- Each worker has a loopback address of its own, and so is a host to Spark: only on another host does it begin
  a task a second time while the first attempt still runs. One that is too slow is tried again there.
- All of it belongs to the session of the driver that starts it, and ends with that.
- What it writes and prints lies in the driver's folder.
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
    # Of a stage that is one task none is done before it.
    "spark.speculation.task.duration.threshold": "2s",
}
"""Speculation on, and quick enough for tasks that take a fraction of a second."""

_SECONDS_TO_START: Final = 90.0
_SECONDS_BETWEEN_LOOKS: Final = 0.05


class ClusterFailed(Exception):
    """A part of the cluster did not start; the message is one line."""


def start_standalone(folder: Path) -> str:
    """Start the cluster and return its master's address, once both workers are there."""
    links = folder / "standalone"
    link_home(links)
    # The master first: whoever is started without it waits for long.
    url = _said(
        _start(links, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        r"Starting Spark master at (spark://\S+)",
    )
    begun = [
        _start(
            links,
            "worker.Worker",
            *("--host", host, "--webui-port", "0", "--work-dir", str(folder / host)),
            *("--cores", "1", "--memory", "1g", url),
        )
        for host in HOSTS
    ]
    for said in begun:
        _said(said, r"(Successfully registered with master)")
    return url


def _start(links: Path, name: str, *options: str) -> Path:
    """Start a part of the cluster; where it says what it does."""
    java = find_java(os.environ)
    environment = {
        **os.environ,
        **home_variables(links, java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(quick_start_options(java)),
    }
    said = links / f"said-{len(list(links.iterdir()))}"
    with said.open("wb") as output:
        subprocess.Popen(
            [str(links / "home" / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return said


def _said(path: Path, pattern: str) -> str:
    """Wait until something is said, and return what matters of it."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    lines = path.read_text(errors="replace").strip().splitlines() or ["nothing"]
    raise ClusterFailed(f"Spark's cluster did not start, it said last: {lines[-1]}")
