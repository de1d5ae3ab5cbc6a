"""A standalone Spark cluster whose worker runs on another host, as far as network and temporary files go.

Rules:

- The worker is in a network namespace of its own, at the other end of a virtual cable, and reaches no other
  address of this machine. Where the driver keeps its temporary files it sees an empty folder.
- The master runs here, at this end of the cable.
- Nothing stays behind, whatever happens: neither processes nor the namespace, with which its end of the cable
  goes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_class_archive import home_variables, link_home, quick_start_options
from tests.patience import PATIENCE_SECONDS

WORKER_MEMORY_MB = 1024
WORKER_CORES = 2


class NoOtherHost(Exception):
    """Raised where this machine cannot play another host; the message says why."""


@dataclass(frozen=True, slots=True)
class FarSpark:
    """The cluster that runs."""

    master: str
    worker_host: str


@contextmanager
def far_spark(folder: Path, hidden: Path) -> Iterator[FarSpark]:
    """Return a context manager over a cluster that keeps its files in ``folder``.

    The worker sees an empty folder in place of ``hidden``. Raises NoOtherHost.
    """
    number = os.getpid()
    namespace = f"onceproof-{number}"
    near, far = f"op{number}a", f"op{number}b"
    # Addresses that are set aside for tests of networks, four for each process.
    base = f"198.18.{number // 64 % 256}."
    here, there = (f"{base}{number % 64 * 4 + each}" for each in (1, 2))
    with ExitStack() as stack:
        create_namespace(namespace)
        stack.callback(remove_namespace, namespace)
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace)
        run("ip", "address", "add", f"{here}/30", "dev", near)
        run("ip", "link", "set", near, "up")
        inside = ("ip", "netns", "exec", namespace)
        run(*inside, "ip", "address", "add", f"{there}/30", "dev", far)
        run(*inside, "ip", "link", "set", far, "up")
        run(*inside, "ip", "link", "set", "lo", "up")
        links = folder / "links"
        link_home(links)
        master = start(
            stack, links, (), "master.Master", *("--host", here, "--port", "0", "--webui-port", "0")
        )
        url = wait_for_log(master, r"Starting Spark master at (spark://\S+)")
        # `ip netns exec` gives a process mounts of its own.
        hides = ("sh", "-c", 'mount -t tmpfs hidden "$1" && shift && exec "$@"', "sh", str(hidden))
        size = ("--cores", str(WORKER_CORES), "--memory", f"{WORKER_MEMORY_MB}m")
        place = ("--host", there, "--webui-port", "0", "--work-dir", str(folder / "work"))
        worker = start(stack, links, (*inside, *hides), "worker.Worker", *place, *size, url)
        wait_for_log(worker, r"(Successfully registered with master)")
        yield FarSpark(url, there)


def create_namespace(name: str) -> None:
    """Create a network namespace. Raises NoOtherHost."""
    if shutil.which("ip") is None:
        raise NoOtherHost("there is no `ip`: install iproute2")
    for command in (("ip", "netns", "add", name), ("ip", "netns", "exec", name, "true")):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            remove_namespace(name)
            raise NoOtherHost(f"`{' '.join(command)}` is not allowed here: {' '.join(done.stderr.split())}")


def remove_namespace(name: str) -> None:
    """Kill the processes of a namespace, and remove it with the cable that ends in it."""
    done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in done.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def start(stack: ExitStack, links: Path, prefix: tuple[str, ...], name: str, *options: str) -> Path:
    """Start a process of the cluster that ends with the stack, and return the path of its log."""
    java = find_java(os.environ)
    environment = {
        **os.environ,
        **home_variables(links, java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(quick_start_options(java)),
    }
    log = links / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *prefix,
                str(links / "home" / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{name}",
                *options,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def end() -> None:
        process.kill()
        process.wait()

    stack.callback(end)
    return log


def wait_for_log(path: Path, pattern: str) -> str:
    """Wait until a log contains the pattern, and return its first group."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the cluster did not start: {path.read_text(errors='replace')[-2000:]}")


def run(*command: str) -> str:
    """Run a command to its end, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout
