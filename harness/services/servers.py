"""The table of the servers that `onceproof services` knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.object_store_server import ObjectStoreServer
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.services.service import Service, ServiceError

SERVERS: Final[dict[str, Callable[[Path], Service]]] = {
    "kafka": KafkaBroker,
    "s3": ObjectStoreServer,
    "postgres": PostgresServer,
}
"""By name: the server with its data below a folder. A new server is entered here."""


def servers_below(folder: Path, names: Sequence[str] = ()) -> list[Service]:
    """Return servers of a folder, each with a folder of its own in it; no names: all.

    Raises ServiceError for a name that is unknown.
    """
    for name in names:
        if name not in SERVERS:
            raise ServiceError(f"no server is called {name!r}: choose from {', '.join(SERVERS)}")
    return [SERVERS[name](folder.resolve() / name) for name in names or SERVERS]
