"""HDFS on this machine for trials: a NameNode and a DataNode of Hadoop's own jars."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.sax.saxutils import escape

from onceproof.harness.services.service import LOOPBACK, free_port
from onceproof.harness.systems.spark.cluster import yarn_program

SECONDS_TO_START = 120
_PACKAGE = "org.apache.hadoop.hdfs.server"
_JAVA = ("java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
_STATE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Start HDFS with its data below a folder, and yield the address of its root. Raises ServiceError."""
    jars = yarn_program()
    conf = folder / "conf"
    conf.mkdir(parents=True)
    ports = {name: f"{LOOPBACK}:{free_port()}" for name in ("http", "rpc", "data", "data-http", "data-ipc")}
    _write(
        conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{ports['rpc']}", "hadoop.tmp.dir": f"{folder}/tmp"}
    )
    _write(
        conf / "hdfs-site.xml",
        {
            "dfs.replication": "1",
            "dfs.namenode.http-address": ports["http"],
            "dfs.namenode.rpc-address": ports["rpc"],
            "dfs.datanode.address": ports["data"],
            "dfs.datanode.http.address": ports["data-http"],
            "dfs.datanode.ipc.address": ports["data-ipc"],
            "dfs.datanode.hostname": LOOPBACK,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": f"file://{folder}/name",
            "dfs.datanode.data.dir": f"file://{folder}/data",
        },
    )
    java = [*_JAVA, "-cp", os.pathsep.join([str(conf), *map(str, jars)])]
    name_node, data_node = f"{_PACKAGE}.namenode.NameNode", f"{_PACKAGE}.datanode.DataNode"
    with (folder / "log").open("wb") as log:
        subprocess.run([*java, name_node, "-format", "-nonInteractive"], stdout=log, stderr=log, check=True)
        daemons = [
            subprocess.Popen([*java, each], stdout=log, stderr=log, start_new_session=True)
            for each in (name_node, data_node)
        ]
        try:
            _wait(ports["http"], daemons)
            yield f"webhdfs://root@{ports['http']}"
        finally:
            for daemon in daemons:
                daemon.kill()
                daemon.wait()


def _wait(address: str, daemons: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        assert all(daemon.poll() is None for daemon in daemons), "a daemon of HDFS has ended: see its log"
        assert time.monotonic() < deadline, "HDFS does not answer"
        with suppress(OSError), urllib.request.urlopen(f"http://{address}{_STATE}", timeout=5) as answer:
            if any(state["NumLiveDataNodes"] for state in json.load(answer)["beans"]):
                return
        time.sleep(0.2)


def _write(path: Path, settings: Mapping[str, str]) -> None:
    properties = "".join(
        [
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in settings.items()
        ]
    )
    path.write_text(f"<configuration>{properties}</configuration>")
