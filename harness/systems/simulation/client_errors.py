"""The errors by which the clients of a job's ends report that a commit or an abort has failed.

Rules:

- What goes wrong is drawn once for all ends, as the means of a fault: the server does not answer, the
  connection is gone, the server is not ready, it takes no more for now, or another request is in the way.
- Each end reports it as its client does. A sink does not see the client but the engine's adapter, so what is
  raised is what the adapter makes of the client's error. The codes stand here, and a test makes each error
  with the installed client and sends it through the adapter: it comes out in the same class.
- Whether the call took place is a matter of the fault's kind. None of these errors tells, so no sink may
  take one for an answer.
- Each comes of an InjectedError, so that a failure counts as one of the scenario.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.engine.connectors.kafka.kafka_errors import KafkaUnavailable
from onceproof.harness.model.family import KAFKA, POSTGRES, S3
from onceproof.harness.model.fault_kinds import Means
from onceproof.harness.model.injected_error import InjectedError

OUTSIDE: Final = "outside"
"""Files, and clients of which nothing is known: their errors are those of the operating system."""

SYSTEM_ERRORS: Final[Mapping[Means, int]] = {
    "no_answer": errno.ETIMEDOUT,
    "disconnected": errno.ECONNRESET,
    "unavailable": errno.EIO,
    "throttled": errno.EAGAIN,
    "conflict": errno.EBUSY,
}
"""Numbers of errors (OSError.errno)."""
KAFKA_ERRORS: Final[Mapping[Means, int]] = {
    "no_answer": -185,
    "disconnected": -195,
    "unavailable": 15,
    "throttled": 89,
    "conflict": 51,
}
"""Codes of confluent_kafka.KafkaError: _TIMED_OUT, _TRANSPORT, COORDINATOR_NOT_AVAILABLE,
THROTTLING_QUOTA_EXCEEDED, CONCURRENT_TRANSACTIONS."""
POSTGRES_ERRORS: Final[Mapping[Means, str]] = {
    "no_answer": "57014",
    "disconnected": "08006",
    "unavailable": "57P01",
    "throttled": "53300",
    "conflict": "55P03",
}
"""SQLSTATEs of psycopg.Error: query_canceled, connection_failure, admin_shutdown, too_many_connections,
lock_not_available."""
S3_ERRORS: Final[Mapping[Means, str]] = {
    "no_answer": "RequestTimeout",
    "disconnected": "InternalError",
    "unavailable": "ServiceUnavailable",
    "throttled": "SlowDown",
    "conflict": "OperationAborted",
}
"""Codes of botocore.exceptions.ClientError."""

_MAKERS: Final[Mapping[str, Callable[[Means, str], Exception]]] = {
    KAFKA: lambda means, said: KafkaUnavailable(f"{said} (code {KAFKA_ERRORS[means]})"),
    POSTGRES: lambda means, said: DatabaseUnavailable(f"{said} (SQLSTATE {POSTGRES_ERRORS[means]})"),
    S3: lambda means, said: OSError(errno.EREMOTEIO, f"{S3_ERRORS[means]}: {said}"),
    OUTSIDE: lambda means, said: OSError(SYSTEM_ERRORS[means], said),
}


def client_error(error: InjectedError, end: str) -> Exception | None:
    """Return an injected error as the client of an end reports it; None where the fault does not say how.

    Args:
        error: what the fault has raised; the caller raises the result from it.
        end: KAFKA, POSTGRES, S3 or OUTSIDE.
    """
    return _MAKERS[end](error.means, str(error)) if error.means else None


@contextmanager
def reported_by(end: str) -> Iterator[None]:
    """Raise injected errors as the client of an end reports them; see ``client_error``."""
    try:
        yield
    except InjectedError as error:
        reported = client_error(error, end)
        if reported is None:
            raise
        raise reported from error
