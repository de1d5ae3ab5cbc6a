"""The pages of the engine: the example runs, and the options and methods that they name exist."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

import pytest

from onceproof import engine
from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import OPTIONS, Configuration
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.recovery import FINISHED
from tests.patience import PATIENCE_SECONDS

ROOM = Path(engine.__file__).parent
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in [*ROOM.glob("docs/*.md"), ROOM / "README.md"]
}
TEXT = "\n".join(PAGES.values())
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGES["jobs.md"], re.DOTALL)


def test_example_counts_every_row_once_and_a_second_run_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("shop,cents\nnorth,3\nsouth,4\nnorth,5\n")
    for _ in range(2):
        with submitted(Configuration(), lambda graph: None, "jobs.md"):
            exec(compile(EXAMPLES[0], "jobs.md", "exec"), {})
        rows = [line for path in Path("totals").glob("part-*") for line in path.read_text().splitlines()]
        assert sorted(rows) == ["north,3", "north,8", "south,4"]
    [folder] = [each for each in Path("checkpoints").iterdir() if each.name != REGISTRY]
    assert FINISHED in [path.name for path in folder.iterdir()]


def test_example_of_a_function_with_state_gives_running_averages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("shop,cents\nnorth,3\nsouth,4\nnorth,5\n")
    names = {}
    for example in EXAMPLES[:2]:
        exec(compile(example, "jobs.md", "exec"), names)
    rows = sorted(names["averages"].execute_and_collect("averages"))
    assert rows == [("north", 3.0), ("north", 4.0), ("south", 4.0)]


def test_example_of_declared_types_reads_rows_by_name():
    env = engine.StreamExecutionEnvironment.get_execution_environment()
    names = {"Types": engine.Types, "env": env}
    exec(compile(EXAMPLES[2], "jobs.md", "exec"), names)
    assert list(names["dear"].execute_and_collect()) == ["north"]


def test_example_of_a_source_without_end_clicks_every_second():
    names = {}
    exec(compile(EXAMPLES[3], "jobs.md", "exec"), names)
    clicked = []

    class Keep(engine.SinkFunction):
        def invoke(self, value, context):
            clicked.append((time.monotonic(), value))

    names["clicks"].add_sink(Keep())
    begun = time.monotonic()
    client = names["env"].execute_async("clicks")
    while len(clicked) < 3:
        assert not client.get_job_execution_result().done()
        time.sleep(0.01)
    client.cancel().result(PATIENCE_SECONDS)
    # Counted from the start: on a busy machine the sink may get a click late, and the next one in time.
    assert all(moment - begun > 0.9 * place for place, (moment, _) in enumerate(clicked))
    for _, (user, url, timestamp) in clicked:
        assert user in ("Mary", "Alice", "Bob", "Cary")
        assert url.startswith("./")
        assert timestamp / 1000 == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+)\.(_?\w+)`", TEXT))))
def test_named_methods_exist(name):
    kind, method = name
    definitions = (f"def {method}(", f"    {method} = ", f"    {method}: ClassVar", f"    class {method}")
    sources = [path.read_text() for path in ROOM.rglob("*.py")]
    assert any(f"class {kind}" in text and any(each in text for each in definitions) for text in sources)


def test_named_options_exist():
    known = {option.key for option in OPTIONS}
    named = set(re.findall(r"`((?:execution|pipeline|state|parallelism)\.[a-z]+[a-z.-]*)`", TEXT))
    assert named
    assert named <= known


def test_options_page_lists_every_option():
    rows = re.findall(r"^\| `([A-Za-z.-]+)` \| ([^|]+) \| (.+) \|$", PAGES["options.md"], re.MULTILINE)
    assert [key for key, _, _ in rows] == [option.key for option in OPTIONS]
    defaults = {option.key: option.default for option in OPTIONS}
    docs = {option.key: option.doc for option in OPTIONS}
    for key, shown, meaning in rows:
        assert meaning.split(" No effect on ")[0] == docs[key], key
        assert (shown == "unset") == (defaults[key] is None), key
        if isinstance(defaults[key], str):
            assert shown == defaults[key], key


def literals(*parts):
    """Return the constant parts of the texts of all modules that contain one of some parts."""
    for package in (ROOM, ROOM.parent / "harness"):
        for path in package.rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if any(part in source for part in parts):
                for node in ast.walk(ast.parse(source)):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.value


def anchor_of(heading):
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_headings_of_troubleshooting_are_messages_and_links_to_it_resolve():
    headings = re.findall(r"^## (.+)$", PAGES["troubleshooting.md"], re.MULTILINE)
    # Docstrings begin with a capital letter and end with a full stop; messages do not.
    # A message may be split between two lines of its module, but not within a word.
    longest = [max(heading.split(), key=len) for heading in headings]
    messages = [text for text in literals(*longest) if not text.rstrip().endswith(".")]
    for heading in headings:
        assert any(heading in message for message in messages), heading
    assert len(set(headings)) == len(headings) > 10
    page = "docs/troubleshooting.md#"
    linked = {name for text in literals(page) for name in re.findall(rf"{page}([\w-]+)", text)}
    assert len(linked) > 5
    assert linked <= set(map(anchor_of, headings))


def test_an_unknown_option_is_an_error():
    with pytest.raises(engine.ConfigurationError):
        Configuration.from_mapping({"execution.checkpointing.intervall": "1 s"})


def test_each_test_that_the_page_of_guarantees_names_exists():
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGES["guarantees.md"])
    assert len(named) > 40
    tests = Path(__file__).parents[1]
    for file, name in named:
        assert f"\ndef {name}(" in (tests / file).read_text(), f"{file}::{name}"


def test_each_row_of_the_page_of_guarantees_names_a_test_or_says_why_none():
    rows = [line for line in PAGES["guarantees.md"].splitlines() if line.startswith("| ")]
    for row in rows:
        is_head = " shown by " in row or row.startswith("| --- ")
        assert is_head or "::test_" in row or "| none: " in row, row
