"""The benchmark of PostgreSQL: it gives figures for tables that it has counted, and none for others."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine.connectors.postgres.postgres_sessions import PostgresSession
from onceproof.harness.services.postgres_server import PostgresServer
from tests.benchmarks.local import WrongCount
from tests.benchmarks.postgres import measure

ROWS = 20_000


def test_figures_stand_beside_a_bare_copy(postgres_server: PostgresServer, database: str) -> None:
    measured = measure(ROWS, 1, postgres_server)
    assert measured.figures["rows"] == ROWS
    assert measured.floors["rows_per_second"] > 0
    for parallelism in (1, 2):
        assert measured.figures[f"rows_per_second_{parallelism}_subtasks"] > 0
        assert measured.ratios[f"rows_per_cpu_second_{parallelism}_subtasks"] > 0


def test_job_that_loses_rows_gives_no_figure(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = PostgresSession.copy

    def leaky(self: PostgresSession, rows: Any) -> None:
        write(self, rows[1:])

    monkeypatch.setattr(PostgresSession, "copy", leaky)
    with pytest.raises(WrongCount, match="the table has"):
        measure(ROWS, 1, postgres_server)
