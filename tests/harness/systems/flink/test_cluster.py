"""A cluster of Flink knows the TaskManagers that it has killed, and the texts that name them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from onceproof.harness.systems.flink.cluster import FlinkCluster, make_configuration
from onceproof.harness.systems.flink.home import FlinkHome

LOG = """\
09:25:20.175 INFO  Remoting - Remoting started; listening on addresses :[pekko.tcp://flink@127.0.0.1:39461]
09:25:20.570 INFO  NettyServer - Successful initialization. Listening on SocketAddress /127.0.0.1:3775.
09:25:21.000 INFO  Other - Connecting to /127.0.0.1:4000
"""


class SleepingCluster(FlinkCluster):
    """A cluster whose processes do nothing."""

    def _start(self, kind, name="", *own):
        self._log(name or kind).write_text(LOG if name == "task-manager-1" else "", encoding="utf-8")
        return subprocess.Popen(
            [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
        )


@pytest.fixture
def cluster(tmp_path):
    cluster = SleepingCluster(FlinkHome("python", tmp_path, tmp_path, None), tmp_path / "cluster")
    yield cluster
    processes = [cluster._job_manager, *cluster._task_managers]
    cluster.kill()
    for process in processes:
        process.stdin.close()


@pytest.mark.parametrize(
    ("text", "names_it"),
    [
        ("Actor[pekko.tcp://flink@127.0.0.1:39461/user/rpc/taskmanager_0#-1] is unreachable", True),
        ("Connection unexpectedly closed by remote task manager '127.0.0.1/127.0.0.1:3775'", True),
        ("The heartbeat of TaskManager with id task-manager-1 timed out.", True),
        ("The heartbeat of TaskManager with id task-manager-12 timed out.", False),
        ("Connection refused: 127.0.0.1:37751", False),
        ("Connection refused: 127.0.0.1:4000", False),
        ("ZeroDivisionError: division by zero", False),
    ],
)
def test_text_names_a_killed_task_manager_by_name_or_address(cluster, text, names_it):
    assert not cluster.names_killed(text)
    first = cluster._task_managers[0]
    assert cluster.kill_task_managers(lambda pid: pid == first.pid) == 1
    first.stdin.close()
    assert cluster.names_killed(text) == names_it
    cluster.begin_scenario()
    assert not cluster.names_killed(text)


@pytest.mark.parametrize(
    ("version", "file", "name"),
    [
        ("1.18.1", "flink-conf.yaml", "state.checkpoints.dir"),
        ("1.19.3", "config.yaml", "state.checkpoints.dir"),
        ("1.20.5", "config.yaml", "execution.checkpointing.dir"),
        ("2.3.0", "config.yaml", "execution.checkpointing.dir"),
    ],
)
def test_a_release_gets_its_file_of_settings_with_the_names_that_it_knows(tmp_path, version, file, name):
    folder = make_configuration(tmp_path / "c", {"execution.checkpointing.dir": "file:///x"}, version)
    assert (folder / file).read_text() == f"{name}: file:///x\n"
