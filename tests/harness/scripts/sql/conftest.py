"""What the tests of scripts share: a cache of their own, and no planner."""

import pytest

from onceproof.harness.systems.flink import planner


@pytest.fixture(autouse=True)
def no_planner(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(planner, "installed_python", lambda packages: None)
