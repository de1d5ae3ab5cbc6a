"""Which families Flink refuses before anything of it runs, and with which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.flink import system as flink_system
from onceproof.harness.systems.flink.home import FlinkHome
from onceproof.harness.systems.flink.system import FlinkSystem
from onceproof.harness.trials.trial import scenario_of


@pytest.mark.parametrize("name", ["word_count", "kafka_to_kafka", "kafka_rows", "kafka_exactly_once_window"])
def test_family_without_servers_or_with_kafka_alone_is_not_refused(name):
    assert FlinkSystem.refusal(load_family(name)) == ""


@pytest.mark.parametrize(
    ("name", "servers"), [("postgres_rows", "postgres"), ("kafka_to_postgres", "kafka and postgres")]
)
def test_family_with_another_server_is_refused_with_its_name(name, servers):
    assert FlinkSystem.refusal(load_family(name)) == (f"it starts no server, and the family needs {servers}")


def test_family_with_topics_needs_the_connector_and_the_line_says_how_to_get_it(monkeypatch, tmp_path: Path):
    home = FlinkHome("python", tmp_path, tmp_path, None)
    monkeypatch.setattr(flink_system, "find_flink", lambda: home)
    family = load_family("kafka_rows")
    with pytest.raises(FamilyError, match=r"install Maven \(mvn\), and run `onceproof flink install` again"):
        FlinkSystem().run(family, scenario_of(family, 1))
    assert not home.has_kafka
    (tmp_path / "flink-sql-connector-kafka-5.0.0-2.2.jar").touch()
    assert home.has_kafka
