"""Settings of the harness's own clients of Kafka, which reach the broker past the job's proxy.

Rules:

- A client says nothing of a broker that is away, and is back half a second after it.
- A reader sees committed rows alone, from the first one on, and leaves no trace at the broker.
"""

from __future__ import annotations

from typing import Any


def client_settings(servers: str) -> dict[str, Any]:
    """Return what all clients have in common."""
    return {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 500}


def writer_settings(servers: str) -> dict[str, Any]:
    """Return the settings of a producer that sends each record at once, and once."""
    return {**client_settings(servers), "enable.idempotence": True, "linger.ms": 0}


def reader_settings(servers: str, group: str) -> dict[str, Any]:
    """Return the settings of a consumer of committed rows."""
    return {
        **client_settings(servers),
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
