"""Clusters of Flink that are kept between scenarios, and the client that submits to them.

The rules this module lives by:

- A cluster takes seconds to start and runs one job after another; what dies in it is replaced. A second
  cluster starts beforehand where a scenario will kill the first one.
- A JobManager that has died alone is started again where it was, and its TaskManagers find it.
- Who waits for a cluster or the client waits here, so a run can say how much of its time that was.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.systems.flink.cluster import JOBS_BY_CLIENT, FlinkCluster
from onceproof.harness.systems.flink.home import FlinkHome
from onceproof.harness.systems.flink.submitter import Submitter

MOST_JOBS: Final = 150
"""After as many jobs a cluster is replaced: Java keeps the classes of each."""
MOST_MAINS: Final = 30
"""As MOST_JOBS, where the ``main`` of each job runs in the JobManager as well."""


class FlinkPool:
    """The clusters and the client of one system, below a folder that is removed at the end.

    Args:
        home: of the release that runs.
        settings: of the clusters, for jobs that come through their REST interface; None: a client submits.
    """

    def __init__(self, home: FlinkHome, settings: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._folder = Path(tempfile.mkdtemp(prefix="onceproof-flink-"))
        self.checkpoints = self._folder / "checkpoints"
        """Of all clusters, for jobs that say of no other folder."""
        self._settings = (
            JOBS_BY_CLIENT
            if settings is None
            else {"execution.checkpointing.dir": self.checkpoints.as_uri(), **settings}
        )
        self._most_jobs = MOST_JOBS if settings is None else MOST_MAINS
        self._made = 0
        self._current = self._new_cluster()
        self._jobs = 0
        self._spare: FlinkCluster | None = None
        self._submitter = None if settings is not None else self._new_submitter()
        self.waited_seconds = 0.0

    def cluster(self) -> FlinkCluster:
        """Return a cluster that runs, with all its TaskManagers."""
        if not self._current.is_alive or self._jobs >= self._most_jobs:
            self._current.kill()
            self._take_spare()
        self._jobs += 1
        self._current.begin_scenario()
        self._wait(self._current)
        return self._current

    def prepare_spare(self) -> None:
        """Start another cluster, if there is none: this one will be killed."""
        if self._spare is None or not self._spare.is_alive:
            self._spare = self._new_cluster()

    def replacement(self) -> FlinkCluster:
        """Return another cluster, because this one is dead."""
        self._take_spare()
        self._wait(self._current)
        return self._current

    def with_new_job_manager(self) -> FlinkCluster:
        """Return the cluster with a new JobManager, which its TaskManagers have found."""
        self._current.restart_job_manager()
        self._wait(self._current)
        return self._current

    def submit(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have a job submitted, by a new client if the last one has died."""
        if self._submitter is None or not self._submitter.is_alive:
            self._end_submitter()
            self._submitter = self._new_submitter()
        begun = time.monotonic()
        was_ready = self._submitter.is_ready
        answer = self._submitter.submit(order)
        if not was_ready:
            self.waited_seconds += time.monotonic() - begun
        return answer

    def close(self) -> None:
        """End everything, and remove what it has written."""
        for cluster in (self._current, self._spare):
            if cluster is not None:
                cluster.kill()
        self._end_submitter()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _new_submitter(self) -> Submitter:
        return Submitter(self._home, self._folder, self._current.configuration)

    def _end_submitter(self) -> None:
        if self._submitter is not None:
            self._submitter.end()

    def _take_spare(self) -> None:
        self.prepare_spare()
        assert self._spare is not None, "it was just prepared"
        self._current, self._spare = self._spare, None
        self._jobs = 0

    def _new_cluster(self) -> FlinkCluster:
        self._made += 1
        return FlinkCluster(self._home, self._folder / f"cluster-{self._made}", self._settings)

    def _wait(self, cluster: FlinkCluster) -> None:
        begun = time.monotonic()
        cluster.wait_until_ready()
        self.waited_seconds += time.monotonic() - begun
