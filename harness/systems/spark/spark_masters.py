"""The Spark masters under which the engine stands trial, by the names that a driver takes."""

from __future__ import annotations

from typing import Final

LOCAL_MASTER: Final = "local[2,4]"
"""Tasks run in the driver's own Java, two at a time, with at most four attempts each."""
CLUSTER_MASTER: Final = "local-cluster[2,1,1024]"
"""Two executors, each its own Java with one core and one gigabyte."""

STANDALONE_MASTER: Final = "standalone"
"""A standalone master and two workers with their own addresses, started by the driver; with speculation."""
YARN_MASTER: Final = "yarn"
"""A resource manager and a node manager, started by the driver, with two executors in containers."""
