"""The engine on a Spark of several hosts, on which a task can go on after another has taken its place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from onceproof.engine.protocol_points import PRE_COMMITTED, SNAPSHOTTED
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_class_archive import home_variables, link_home, quick_start_options

ROOT = Path(__file__).parents[4]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Cluster:
    """A standalone master and two workers, each on a loopback address of its own: a host to Spark."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        link_home(folder)
        java = find_java(os.environ)
        self.environment = {
            **os.environ,
            **home_variables(folder, java),
            "SPARK_DAEMON_JAVA_OPTS": " ".join(quick_start_options(java)),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def begin(self):
        master = "org.apache.spark.deploy.master.Master"
        said = self.start(master, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self.wait(said, r"Starting Spark master at (spark://\S+)")
        for host in ("127.0.0.2", "127.0.0.3"):
            worker = "org.apache.spark.deploy.worker.Worker"
            places = ("--host", host, "--webui-port", "0", "--work-dir", str(self.folder / host))
            said = self.start(worker, *places, "--cores", "1", "--memory", "1g", self.url)
            self.wait(said, r"(Successfully registered with master)")

    def start(self, *command):
        said = self.folder / f"said-{len(self.processes)}"
        with said.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [self.environment["SPARK_HOME"] + "/bin/spark-class", *command],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Executors and their workers are in its group, and end with it.
                    start_new_session=True,
                )
            )
        return said

    def wait(self, said, pattern):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(pattern, said.read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(
            f"not said within a minute: {pattern}: {said.read_text(errors='replace')[-2000:]}"
        )

    def end(self):
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        found.begin()
        yield found
    finally:
        found.end()


def test_attempt_that_outlives_its_epoch_does_no_harm(job, cluster, tmp_path):
    program = Path(__file__).with_name("stopping.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), cluster.url, PRE_COMMITTED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1 12\n"), done.stderr
    # It took its snapshot, and saw that the epoch was cancelled.
    assert (tmp_path / "passed").read_text().splitlines() == [PRE_COMMITTED, SNAPSHOTTED]
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])
