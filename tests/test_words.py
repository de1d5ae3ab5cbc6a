"""The words of the project: a few that hide who acts are banned from code, tests, pages and texts.

The list is short on purpose. Each word on it stood for an actor that the sentence did not name, or was a
private word for a term that the field has. A test's name tells the situation and stays short.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.rooms import PRODUCT, ROOT, modules

BANNED = {
    "whoever": "name the actor: the worker, the reader, the caller",
    "whomever": "name the actor",
    "whosoever": "name the actor",
    "nobody": "name who is missing: no task, no reader, no process",
    "somebody": "name the actor",
    "anybody": "name the actor",
    "everybody": "name the actors",
    "told": "written, logged, reported, sent",
    "retold": "built from the event log",
    "retelling": "history builder, or: the history that is built",
    "retells": "builds the history",
    "manieth": "n-th",
}
"""Each banned word with what to say instead."""
LONGEST_TEST_NAME = 75

_WORD = re.compile(r"[A-Za-z]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TEXTS = (".py", ".md", ".toml", ".yml", ".html", ".j2", ".css", ".txt", "Makefile")
# This list itself, and what others have written.
_LEFT_OUT = ("tests/test_words.py", "LICENSE", "constraints.txt")


def banned_words(text: str) -> Iterator[tuple[int, str]]:
    """Find the banned words of a text, also as parts of names; gives the line and the word."""
    for number, line in enumerate(text.splitlines(), start=1):
        for word in _WORD.findall(_CAMEL.sub(" ", line)):
            if word.lower() in BANNED:
                yield number, word


def published_files() -> list[str]:
    """Return the paths that git would publish, from the project's root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the files that are published")
    return sorted(name for name in listed.stdout.split("\0") if name)


def test_no_text_uses_a_banned_word() -> None:
    problems = []
    for name in published_files():
        path = ROOT / name
        if name.endswith(_TEXTS) and name not in _LEFT_OUT and path.is_file():
            for line, word in banned_words(path.read_text(encoding="utf-8")):
                problems.append(f"{name}:{line} says {word}: {BANNED[word.lower()]}")
    assert not problems, "\n" + "\n".join(problems)


def test_names_of_tests_are_short() -> None:
    problems = []
    for module in modules("tests"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                length = len(node.name.removeprefix("test_"))
                if length > LONGEST_TEST_NAME:
                    problems.append(f"{module.name}:{node.lineno} {node.name} has {length} characters")
    assert not problems, "\n" + "\n".join(problems)


# What these rooms hold is named after what it runs or feeds in another one. Systems have the same files.
_NAMED_AFTER_OTHERS = (
    "engine.table.api.",
    "engine.table.nodes.",
    "harness.commands.",
    "harness.systems.",
    "scenarios.",
)
RELATED = {
    "bitmaps": "functions and aggregates of BITMAP",
    "events": "what goes into a machine of the engine, and what comes out of it",
    "plans": "Flink's compiled plans as values, and where the harness gets them",
    "registry": "what modules register by name, to be found there",
    "sink": "the connector, and the operator that runs it",
    "source": "the connector, and the operator that runs it",
    "strategies": "of Hypothesis, and their public form",
    "window": "the operator of windows, and the name of PyFlink's module of their classes",
    "windows": "the values of the engine, and what a specification says of them",
}


def test_unrelated_modules_share_no_name() -> None:
    found: dict[str, list[str]] = {}
    for package in PRODUCT:
        for module in modules(package):
            if not module.is_package and not module.name.startswith(_NAMED_AFTER_OTHERS):
                found.setdefault(module.name.rpartition(".")[2], []).append(module.name)
    shared = {name: where for name, where in found.items() if len(where) > 1}
    assert shared.keys() == RELATED.keys(), [shared[name] for name in shared.keys() - RELATED.keys()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Whoever dies of it says so first.", ["Whoever"]),
        ("class ToldDriver:", ["Told"]),
        ("def test_what_nobody_waits_for():", ["nobody"]),
        ("The worker logs the kill before it strikes.", []),
        ("threshold, a toldable tollgate", []),
    ],
)
def test_banned_words_are_seen(text: str, words: list[str]) -> None:
    assert [word for _, word in banned_words(text)] == words
