"""The systems that may stand trial: the name of each, where its class is, and the extras that it needs.

It imports nothing, because the command line lists the names in its help, which has to answer at once.
"""

from __future__ import annotations

from typing import Final

HOMES: Final = {
    "simulated": ("onceproof.harness.systems.simulation.simulated_system", "SimulatedSystem"),
    "simulated-rocksdb": ("onceproof.harness.systems.simulation.simulated_system", "DatabaseSystem"),
    "local": ("onceproof.harness.systems.local.system", "LocalSystem"),
    "local-workers": ("onceproof.harness.systems.local.system", "LocalWorkersSystem"),
    "spark": ("onceproof.harness.systems.spark.system", "SparkSystem"),
    "spark-cluster": ("onceproof.harness.systems.spark.system", "SparkClusterSystem"),
    "spark-standalone": ("onceproof.harness.systems.spark.system", "SparkStandaloneSystem"),
    "spark-yarn": ("onceproof.harness.systems.spark.system", "SparkYarnSystem"),
    "relay": ("onceproof.harness.systems.relay", "RelaySystem"),
    "structured_streaming": (
        "onceproof.harness.systems.structured.structured_system",
        "StructuredStreamingSystem",
    ),
    "flink": ("onceproof.harness.systems.flink.flink_system", "FlinkSystem"),
    "bytewax": ("onceproof.harness.systems.bytewax.bytewax_system", "BytewaxSystem"),
    "quix": ("onceproof.harness.systems.quix.quix_system", "QuixSystem"),
    "command": ("onceproof.harness.systems.program.program_system", "CommandSystem"),
}

EXTRAS: Final = {
    "spark": ("spark",),
    "spark-cluster": ("spark",),
    "spark-standalone": ("spark",),
    "spark-yarn": ("spark",),
    "relay": ("spark",),
    "structured_streaming": ("spark",),
    "quix": ("kafka",),
}
"""By system, the extras of the installation that it needs."""


def system_names() -> tuple[str, ...]:
    """Return the names of all systems."""
    return tuple(HOMES)
