"""The README of the engine: its example runs, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onceproof import engine
from onceproof.engine.configuration import OPTIONS, Configuration
from onceproof.engine.runtime.recovery import FINISHED

ROOM = Path(engine.__file__).parent
TEXT = (ROOM / "README.md").read_text()


def test_the_example_counts_every_row_once_and_a_second_run_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("shop,cents\nnorth,3\nsouth,4\nnorth,5\n")
    [example] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for _ in range(2):
        exec(compile(example, "README.md", "exec"), {})
        rows = [line for path in Path("totals").glob("part-*") for line in path.read_text().splitlines()]
        assert sorted(rows) == ["north,3", "north,8", "south,4"]
    [folder] = Path("checkpoints").iterdir()
    assert FINISHED in [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.(?:py|md)", TEXT))))
def test_every_file_it_names_is_there(path):
    assert (ROOM / path).is_file() or (ROOM.parent / path).is_file()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)`", TEXT))))
def test_every_method_it_names_is_there(name):
    kind, method = name
    sources = [path.read_text() for path in ROOM.rglob("*.py")]
    assert any(f"class {kind}" in text and f"def {method}(" in text for text in sources)


def test_every_option_it_names_is_one():
    known = {option.key for option in OPTIONS}
    named = set(re.findall(r"`((?:execution|pipeline)\.[a-z.-]+)`", TEXT))
    assert named
    assert named <= known
    assert {option.key for option in OPTIONS if option.doc.startswith("Ours")} <= named


def test_an_unknown_option_is_an_error():
    with pytest.raises(engine.ConfigurationError):
        Configuration.from_mapping({"execution.checkpointing.intervall": "1 s"})
