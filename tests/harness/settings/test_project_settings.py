"""[tool.onceproof] in pyproject.toml: how it is found, read and refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from onceproof.harness.checkers.known_failures import KnownSignature, find_known
from onceproof.harness.model.exit_codes import USAGE, exit_code_of
from onceproof.harness.settings.project_settings import (
    NIGHTS,
    SETTINGS,
    Settings,
    SettingsError,
    load_settings,
)

PAGE = Path(__file__).parents[3] / "harness" / "docs" / "settings.md"

COMPLETE = """
[tool.onceproof]
families = ["word_count", "streams/sales.py"]
scenarios = 500
max_time = 30
limit_time = 600
least_scenarios = 40
least_kills = 0
seed = -7
system = "local"
workers = 2
shrink_runs = 15
scenario_time = 20
scenario_memory = 512
out = "build/onceproof"
history = "../nights"
nights = 90

[[tool.onceproof.known]]
family = "word_count"
property = "exactly_once"
anomaly = "lost"
since = 2026-11-01
why = "ISSUE-12"

[[tool.onceproof.known]]
family = "sales"
property = "KeyError"
anomaly = "process_element"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a project, which is the working directory."""
    folder = tmp_path / "project"
    (folder / "streams").mkdir(parents=True)
    (folder / "streams" / "sales.py").touch()
    monkeypatch.chdir(folder)
    return folder


def write(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")


def test_all_settings_are_read(project: Path) -> None:
    write(project, COMPLETE)
    assert load_settings() == Settings(
        families=("word_count", "streams/sales.py"),
        scenarios=500,
        max_time=30.0,
        limit_time=600.0,
        least_scenarios=40,
        least_kills=0,
        seed=-7,
        system="local",
        workers=2,
        shrink_runs=15,
        scenario_time=20.0,
        scenario_memory=512,
        out=Path("build/onceproof"),
        history="../nights",
        nights=90,
        known=(
            KnownSignature("word_count", "exactly_once", "lost", "2026-11-01", "ISSUE-12"),
            KnownSignature("sales", "KeyError", "process_element"),
        ),
    )
    # A new setting must be added to COMPLETE.
    assert set(SETTINGS) == set(tomllib.loads(COMPLETE)["tool"]["onceproof"])


def test_page_names_all_settings() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, purpose in SETTINGS.items():
        assert f"| `{name}` | {purpose} |" in text


@pytest.mark.parametrize("text", [None, "", "[project]\nname = 'x'\n", "tool = 3\n", "[tool.black]\n"])
def test_missing_table_gives_the_defaults(project: Path, text: str | None) -> None:
    if text is not None:
        write(project, text)
    assert load_settings() == Settings()
    assert Settings().nights == NIGHTS


def test_nearest_pyproject_wins_and_its_paths_are_relative_to_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, COMPLETE)
    inner = project / "packages" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "pyproject.toml").write_text("[project]\nname = 'without'\n", encoding="utf-8")
    monkeypatch.chdir(inner)
    settings = load_settings()
    assert settings.families == ("word_count", "../../streams/sales.py")
    assert settings.out == Path("../../build/onceproof")
    (inner / "pyproject.toml").write_text("[tool.onceproof]\nseed = 1\n", encoding="utf-8")
    assert load_settings() == Settings(seed=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wrokers = 2", "wrokers: unknown setting; did you mean workers?"),
        ("max-time = 2", "max-time: unknown setting; did you mean max_time?"),
        ("xyz = 2", "xyz: unknown setting; there are families, scenarios, "),
        ("workers = 0", "workers: must be a whole number of 1 or more, not 0"),
        ("workers = true", "workers: must be a whole number of 1 or more, not True"),
        ("scenarios = 1.5", "scenarios: must be a whole number of 1 or more, not 1.5"),
        ("nights = '5'", "nights: must be a whole number of 1 or more, not '5'"),
        ("seed = 'x'", "seed: must be a whole number of 64 bits, not 'x'"),
        (f"seed = {2**63}", f"seed: must be a whole number of 64 bits, not {2**63}"),
        ("max_time = -1", "max_time: must be a number of seconds, 0 or more, not -1"),
        ("max_time = nan", "max_time: must be a number of seconds, 0 or more, not nan"),
        ("out = ''", "out: must be the path of a folder, not ''"),
        ("history = {}", "history: must be the path of a folder, or an address, not a table"),
        ("system = 'locl'", "system: must be a system, not 'locl'; did you mean local?"),
        (
            "families = 'word_count'",
            "families: must be a list of families, by name or path, not 'word_count'",
        ),
        ("families = []", "families: must be a list"),
        ("families = [3]", "families[0]: must be the name or the path of a family, not 3"),
        (
            "families = ['page_views', 'wrod_count']",
            "families[1]: unknown family 'wrod_count'; did you mean word_count?",
        ),
        ("families = ['./sale.py']", "families[0]: there is no file './sale.py' beside pyproject.toml"),
        ("known = 3", "known: must be a list of tables, each begun by [[tool.onceproof.known]]"),
        ("known = [3]", "known[0]: must be a table with family, property and anomaly, not 3"),
        (
            "known = [{family = 'a', property = 'KeyError'}]",
            "known[0]: lacks 'anomaly'; a known signature has",
        ),
        ("known = [{famly = 'a'}]", "known[0].famly: unknown; did you mean family?"),
        ("known = [{family = 3}]", "known[0].family: must be a text, not 3"),
        (
            "known = [{family = 'a', property = 'exactly_one', anomaly = 'lost'}]",
            "known[0].property: unknown property 'exactly_one'; did you mean exactly_once?",
        ),
        (
            "known = [{family = 'a', property = 'KeyError', anomaly = 'f'},"
            " {family = 'a', property = 'KeyError', anomaly = 'f', why = 'x'}]",
            "known[1]: is listed already; remove one of the two",
        ),
    ],
)
def test_unusable_setting_is_one_line_with_file_key_and_remedy(
    project: Path, text: str, expected: str
) -> None:
    write(project, f"[tool.onceproof]\n{text}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith(f"pyproject.toml: tool.onceproof.{expected}")
    assert "\n" not in message
    assert exit_code_of(caught.value) == USAGE


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[tool.onceproof\n", "pyproject.toml: not TOML: "),
        (b"[tool.onceproof]\nout = '\xff'\n", "pyproject.toml: not TOML: "),
        (b"[tool]\nonceproof = 3\n", "pyproject.toml: tool.onceproof: must be a table, not 3"),
    ],
)
def test_unreadable_pyproject_is_named(project: Path, content: bytes, expected: str) -> None:
    (project / "pyproject.toml").write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_long_value_is_truncated_in_the_message(project: Path) -> None:
    write(project, f"[tool.onceproof]\nworkers = '{'x' * 500}'\n")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert len(str(caught.value)) < 200


def test_known_failure_needs_the_same_family_and_signature() -> None:
    known = (
        KnownSignature("word_count", "exactly_once", "lost"),
        KnownSignature("word_count", "no_leaks", "open transaction"),
    )
    assert find_known(known, "word_count", ("no_leaks", "open transaction")) is known[1]
    assert find_known(known, "word_count", ("no_leaks", "lost")) is None
    assert find_known(known, "page_views", ("exactly_once", "lost")) is None
