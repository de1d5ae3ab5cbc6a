"""The systems that may stand trial: the name of each, where its class is, and the extras that it needs.

It imports nothing, because the command line lists the names in its help, which has to answer at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Home(NamedTuple):
    """Where a system is."""

    module: str
    """Below `harness/systems`."""
    class_name: str
    extras: tuple[str, ...] = ()
    """Of the installation, those that it needs."""


HOMES: Final = {
    "simulated": Home("simulation.simulated_system", "SimulatedSystem"),
    "simulated-rocksdb": Home("simulation.simulated_system", "DatabaseSystem"),
    "local": Home("local.system", "LocalSystem"),
    "local-workers": Home("local.system", "LocalWorkersSystem"),
    "spark": Home("spark.system", "SparkSystem", ("spark",)),
    "spark-cluster": Home("spark.system", "SparkClusterSystem", ("spark",)),
    "spark-standalone": Home("spark.system", "SparkStandaloneSystem", ("spark",)),
    "spark-yarn": Home("spark.system", "SparkYarnSystem", ("spark",)),
    "relay": Home("relay", "RelaySystem", ("spark",)),
    "structured_streaming": Home("structured.system", "StructuredStreamingSystem", ("spark",)),
    "flink": Home("flink.system", "FlinkSystem"),
    "bytewax": Home("bytewax.system", "BytewaxSystem"),
    "quix": Home("quix.system", "QuixSystem", ("kafka",)),
    "command": Home("program.system", "CommandSystem"),
}


def system_names() -> tuple[str, ...]:
    """Return the names of all systems."""
    return tuple(HOMES)
