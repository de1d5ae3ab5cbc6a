"""The Spark masters under which the engine stands trial, and the clusters that some of them need.

Rules:

- A cluster belongs to the operating system session of its driver and ends with it. Its files and logs, and
  those of its containers, are in the driver's folder. Everything listens on the loopback interface.
- Each worker of a standalone cluster has its own loopback address, so that Spark treats it as another host.
  Spark speculates, that is runs a slow task a second time, only on another host.
- YARN is a resource manager and one node manager, from the jars of `yarn_pom.xml`: its own daemons with their
  defaults, but for addresses, folders, and checks and pauses that make no sense on one small machine.
  Executors take Spark's jars from where they are installed.
- YARN would give each container a session of its own by `setsid`, and the executors of a killed driver would
  continue to write. So the node manager finds a `setsid` that refuses, and starts containers without one.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.engine.runtime.spark_class_archive import (
    home_variables,
    link_home,
    package_folder,
    quick_start_options,
)
from onceproof.harness.services.maven_jars import JARS, jars_folder
from onceproof.harness.services.service import ServiceMissing, free_port

LOCAL_MASTER: Final = "local[2,4]"
"""Tasks run in the driver's own Java, two at a time, with at most four attempts each."""
CLUSTER_MASTER: Final = "local-cluster[2,1,1024]"
"""Two executors, each its own Java with one core and one gigabyte."""

STANDALONE_MASTER: Final = "standalone"
"""A standalone master and two workers with their own addresses, started by the driver; with speculation."""
YARN_MASTER: Final = "yarn"
"""A resource manager and a node manager, started by the driver, with two executors in containers."""

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

_POM: Final = Path(__file__).parents[2] / "services" / "yarn_pom.xml"
_SPARK_JARS: Final = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-", "snappy-java")
"""How the names of the jars begin that YARN shares with Spark."""
_JAVA_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_DAEMONS: Final = {
    "resourcemanager": ("ResourceManager", "Transitioned to active state"),
    "nodemanager": ("NodeManager", "Registered with ResourceManager"),
}
"""By package, the class of each daemon, and what its log says when it is ready."""
_ADDRESSES: Final = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "resourcemanager.webapp.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.collector-service.address",
    "nodemanager.webapp.address",
)
_LOCAL: Final = "127.0.0.1"
_SECONDS_TO_START: Final = 180.0
_SECONDS_BETWEEN_LOOKS: Final = 0.1
_LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""


class ClusterFailed(Exception):
    """A process of the cluster did not start; the message is one line."""


def start_standalone(folder: Path) -> str:
    """Start the cluster, wait for both workers, and return the address of the master."""
    links = folder / "standalone"
    link_home(links)
    # The master starts first, because a worker without a master waits for a long time.
    url = _wait_for(
        _start(links, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        r"Starting Spark master at (spark://\S+)",
        "Spark's cluster",
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
        _wait_for(log, "(Successfully registered with master)", "Spark's cluster")
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


def yarn_program() -> list[Path]:
    """Return the jars of YARN, which are fetched if need be. Raises ServiceError."""
    try:
        find_java(os.environ)
    except JavaMissing as error:
        raise ServiceMissing(f"YARN needs Java: {error}") from error
    folder = jars_folder(_POM, "yarn", "YARN")
    own = [jar for jar in (folder / JARS).glob("*.jar") if not jar.name.startswith(_SPARK_JARS)]
    shared = [jar for jar in (package_folder() / "jars").glob("*.jar") if jar.name.startswith(_SPARK_JARS)]
    return sorted(own) + sorted(shared)


def start_yarn(folder: Path) -> Mapping[str, str]:
    """Start the cluster and wait until its node is registered.

    This process gets HADOOP_CONF_DIR, from which Spark knows the cluster.

    Returns:
        the settings with which Spark has two executors of one core on it

    Raises:
        ServiceError: the jars are missing and cannot be fetched.
        ClusterFailed: a daemon does not start.
    """
    jars = yarn_program()
    home = folder / "yarn"
    configuration = home / "conf"
    configuration.mkdir(parents=True)
    (configuration / "log4j2.properties").write_text(_LOG4J)
    _write(configuration / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(home / "tmp")})
    _write(configuration / "yarn-site.xml", _yarn_site(home))
    refusing = home / "bin" / "setsid"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.chmod(0o755)
    logs = [_start_daemon(home, jars, package) for package in _DAEMONS]
    for log, (_, ready) in zip(logs, _DAEMONS.values(), strict=True):
        _wait_for(log, f"({re.escape(ready)})", "YARN")
    os.environ["HADOOP_CONF_DIR"] = str(configuration)
    return {
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "128m",
        # A driver runs many scenarios, and each kills executors.
        "spark.executor.maxNumFailures": "10000",
        # Else executors would listen on the machine's other addresses.
        "spark.executorEnv.SPARK_LOCAL_IP": _LOCAL,
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": _LOCAL,
        "spark.yarn.am.memory": "256m",
        "spark.yarn.am.memoryOverhead": "128m",
        "spark.yarn.jars": f"local:{package_folder() / 'jars'}/*",
        "spark.yarn.maxAppAttempts": "1",
        # YARN gives an executor for a lost one when Spark's application master asks, every 3 s by default.
        "spark.yarn.scheduler.heartbeat.interval-ms": "200",
        "spark.yarn.stagingDir": str(home / "staging"),
    }


def _yarn_site(home: Path) -> dict[str, str]:
    """Return the settings of YARN, with ports that are free now."""
    schedulers = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
    return {
        **{f"yarn.{name}": f"{_LOCAL}:{free_port()}" for name in _ADDRESSES},
        "yarn.resourcemanager.hostname": _LOCAL,
        "yarn.resourcemanager.bind-host": _LOCAL,
        "yarn.resourcemanager.scheduler.class": f"{schedulers}.fifo.FifoScheduler",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.nodemanager.hostname": _LOCAL,
        "yarn.nodemanager.bind-host": _LOCAL,
        "yarn.nodemanager.local-dirs": str(home / "local"),
        "yarn.nodemanager.log-dirs": str(home / "logs"),
        "yarn.nodemanager.resource.memory-mb": "8192",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        # A loaded machine or a nearly full disk is not on trial, and virtual memory says nothing of Java's.
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME",
    }


def _write(path: Path, properties: Mapping[str, str]) -> None:
    """Write a file of settings as Hadoop reads it."""
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]), encoding="utf-8")


def _start_daemon(home: Path, jars: list[Path], package: str) -> Path:
    """Start a daemon, and return the path of its log."""
    java = find_java(os.environ)
    name, _ = _DAEMONS[package]
    path = os.pathsep.join(map(str, [home / "conf", *jars]))
    log = home / f"{package}.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [
                *(str(java.home / "bin" / "java"), *_JAVA_OPTIONS, "-cp", path),
                f"org.apache.hadoop.yarn.server.{package}.{name}",
            ],
            env={
                **os.environ,
                "JAVA_HOME": str(java.home),
                "PATH": os.pathsep.join([str(home / "bin"), os.environ.get("PATH", os.defpath)]),
                "PYSPARK_PYTHON": sys.executable,
            },
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    # A driver that ends by itself, because its parent has died, takes them along.
    atexit.register(daemon.kill)
    return log


def _wait_for(log: Path, pattern: str, cluster: str) -> str:
    """Wait until a log contains a pattern, and return its first group. Raises ClusterFailed."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        failed = [line for line in text.splitlines() if " ERROR " in line and "Error starting" in line]
        if failed:
            said = [line for line in text.splitlines() if "Exception: " in line or "Error: " in line]
            raise ClusterFailed(f"{cluster} did not start: {' '.join([*failed[:1], *said[-1:]])}")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    lines = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
    raise ClusterFailed(f"{cluster} did not start; last line of its log: {lines[-1]}")
