"""Rules for the source tree: import contracts, and on syntax trees sizes, names and forbidden calls.

The contracts for imports stand in pyproject.toml; import-linter checks them. Each other rule maps a module
to its problems. It is tested on the tree, and on snippets that violate it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from onceproof.harness.model.fault_kinds import FAULT_KINDS
from tests.rooms import (
    FOLDERS,
    PRODUCT,
    ROOT,
    Module,
    Problems,
    Rule,
    check,
    circles,
    imports,
    module_graph,
    modules,
    within,
)

PACKAGES = (*PRODUCT, "tests")

LONGEST_MODULE = 500
# Modules that are longer, each with the reason.
LONGER_MODULES = {
    "engine": "the list of the public names",
    "engine.api.datastream": "environment and streams return each other; PyFlink has one module, too",
    "harness.model.faults": "one table is one module",
}
LONGEST_MACHINE = 900
# One machine is one module, and no class has a parent only to be shorter.
LONG_MACHINES = (
    "engine.checkpoint.coordinator",
    "engine.task.task",
    "harness.specifications.job",
    "harness.systems.simulation.job_process",
)
LONGEST_FUNCTION = 70
"""In lines without the docstring."""

# The state machines of the engine. Time is an argument there, randomness an object; there is no I/O.
MACHINES = tuple(f"engine.{room}" for room in ("task", "checkpoint", "job", "operators", "windows", "state"))
IO_MODULES = ("asyncio", "multiprocessing", "secrets", "select", "socket", "threading", "time", "uuid")

# Unpickling can execute code from a file. The client of Flink registers modules, and reads nothing.
UNPICKLERS = ("pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal")
MAY_PICKLE = ("engine.types", "harness.systems.flink.client.main", "tests")

# A clone installs from the package index of its owner's pip, so no file names an index.
REGISTRY = re.compile(
    r"\b[\w.-]*(?:pypi|pythonhosted|maven|npmjs|anaconda|jfrog|artifactory)[\w-]*\.(?:org|com|io|net)\b"
    r"|--(?:(?:extra-)?index-url|find-links|trusted-host)"
)

# A module that lists kinds of faults has to be changed for each new one. These list some, with the reason.
LISTS_OF_KINDS = {
    "harness.model.fault_kinds": "the names",
    "harness.model.capabilities": "capabilities with the names of kinds",
    "harness.checkers.situations": "fields with the names of kinds",
    "harness.systems.local.points": "one kind has a method of its own, and one is missing at a point",
    "harness.systems.process.server_strikes": "what strikes a server, which is nothing else",
    "harness.systems.program.points": "one kind has a method of its own",
}

OLD_FIELD = re.compile(r"\s*:(param|raises?|returns?|yields?)\b[^:]*:")


def module_has_a_docstring(module: Module) -> Problems:
    if not (ast.get_docstring(module.tree) or "").strip():
        yield 1, "has no docstring"


def sizes(module: Module) -> Problems:
    lines = module.text.count("\n")
    longest = LONGEST_MACHINE if module.name in LONG_MACHINES else LONGEST_MODULE
    if lines > longest and module.name not in LONGER_MODULES:
        yield 1, f"has {lines} lines; the limit is {longest}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if length > LONGEST_FUNCTION:
                yield node.lineno, f"{node.name} has {length} lines; the limit is {LONGEST_FUNCTION}"


def uses_the_namespace(module: Module) -> Problems:
    for node in ast.walk(module.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.split(".")[0] in FOLDERS:
                yield node.lineno, f"imports {name}; it is onceproof.{name}"


def docstrings_have_one_dialect(module: Module) -> Problems:
    for number, line in enumerate(module.text.splitlines(), start=1):
        if OLD_FIELD.match(line):
            yield number, f"has {line.strip()}; docstrings have Google's sections: Args, Returns, Raises"


def lists_no_kinds_of_faults(module: Module) -> Problems:
    if module.name in LISTS_OF_KINDS or not module.name.startswith(PRODUCT):
        return
    elements: Sequence[ast.expr]
    for node in ast.walk(module.tree):
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                pass
            case ast.Dict(keys=keys, values=values):
                elements = [each for each in (*keys, *values) if each is not None]
            case ast.MatchValue(value=value):
                elements = [value]
            case _:
                continue
        for each in elements:
            if isinstance(each, ast.Constant) and each.value in FAULT_KINDS:
                yield each.lineno, f"lists {each.value!r}; ask a column of harness/model/faults.py"


def no_catch_all_module(module: Module) -> Problems:
    if module.name.split(".")[-1] in ("util", "utils", "helpers", "misc"):
        yield 1, "has a name that says nothing; name a module after its content"


def nothing_unpickles(module: Module) -> Problems:
    if not any(within(module.name, name) for name in MAY_PICKLE):
        for item in imports(module):
            if item.target.split(".")[0] in UNPICKLERS:
                yield item.line, f"imports {item.target}; pickled data is read in engine.types only"


def machines_do_no_io(module: Module) -> Problems:
    if not any(within(module.name, name) for name in MACHINES):
        return
    for item in imports(module):
        top, _, rest = item.target.partition(".")
        if top in IO_MODULES:
            yield item.line, f"imports {item.target}; a machine has no clock, thread, randomness or socket"
        elif top == "random" and rest not in ("", "Random"):
            yield item.line, f"imports {item.target}; randomness is a Random argument"
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id="hash")):
                yield node.lineno, "calls hash(), which differs from process to process"
            case ast.Attribute(value=ast.Name(id="random"), attr=attribute) if attribute != "Random":
                yield node.lineno, f"uses random.{attribute}; randomness is a Random argument"
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"),
                attr="now" | "utcnow" | "today",
            ):
                yield node.lineno, f"reads the wall clock with {ast.unparse(node)}; time is an argument"


def names_no_registry(text: str) -> Problems:
    for number, line in enumerate(text.splitlines(), start=1):
        for found in REGISTRY.finditer(line):
            yield number, f"names {found[0]}; the package index belongs to the settings of each machine"


# The rules on the tree as it is


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_open_with_a_docstring(package: str) -> None:
    check(module_has_a_docstring, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_and_functions_are_short(package: str) -> None:
    check(sizes, package)


def lint_imports(config: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", config]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_keep_the_contracts() -> None:
    ended = lint_imports(ROOT / "pyproject.toml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("text", "other", "problem"),
    [
        ('"onceproof.harness.model.history"', '"onceproof.harness.model.past"', "does not exist"),
        ('"task | checkpoint"', '"task"', "exhaustive"),
        ('"commands",\n  "nightly",', '"nightly",\n  "commands",', "The layers of the harness BROKEN"),
    ],
)
def test_contracts_fail_for_a_module_that_is_missing_unlisted_or_imports_upward(
    tmp_path: Path, text: str, other: str, problem: str
) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert text in project
    (tmp_path / "changed.toml").write_text(project.replace(text, other), encoding="utf-8")
    ended = lint_imports(tmp_path / "changed.toml")
    assert ended.returncode != 0
    assert problem in " ".join((ended.stdout + ended.stderr).split())


@pytest.mark.parametrize("name", [*MACHINES, *MAY_PICKLE])
def test_rules_name_modules_that_exist(name: str) -> None:
    assert any(within(each.name, name) for package in PACKAGES for each in modules(package))


@pytest.mark.parametrize("name", sorted(LONGER_MODULES))
def test_named_exceptions_are_longer_modules(name: str) -> None:
    [module] = [each for package in PACKAGES for each in modules(package) if each.name == name]
    assert module.text.count("\n") > LONGEST_MODULE, "short enough now: delete its exception"


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_through_the_namespace(package: str) -> None:
    check(uses_the_namespace, package)


def test_product_has_no_import_circles() -> None:
    found = [module for package in PRODUCT for module in modules(package)]
    assert not circles(module_graph(found))


def test_import_circles_are_detected() -> None:
    ring = {
        "harness.a": "from onceproof.harness.b import x",
        "harness.b": "if TYPE_CHECKING:\n    from onceproof.harness.c.d import y",
        "harness.c": "",
        "harness.c.d": "def f():\n    from onceproof.harness import a",
        "harness.e": "import onceproof.harness.a",
    }
    graph = module_graph(Module.of(name, text, is_package=name == "harness.c") for name, text in ring.items())
    assert circles(graph) == [["harness.a", "harness.b", "harness.c.d"]]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_one_dialect(package: str) -> None:
    check(docstrings_have_one_dialect, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_catch_all_module(package: str) -> None:
    check(no_catch_all_module, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_unpickles(package: str) -> None:
    check(nothing_unpickles, package)


def test_machines_do_no_io() -> None:
    check(machines_do_no_io, "engine")


def test_no_file_names_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the files that are published")
    problems = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            text = content.decode("utf-8", errors="replace")
            problems += [f"{name}:{line} {problem}" for line, problem in names_no_registry(text)]
    assert not problems, "\n" + "\n".join(problems)


# The rules on snippets made to break them


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (module_has_a_docstring, "engine.graph", "import sys\n"),
        (module_has_a_docstring, "tests.test_empty", ""),
        (sizes, "engine.graph", "x = 1\n" * 501),
        (sizes, "harness.commands.cli", "def long():\n" + "    x = 1\n" * 70),
        (sizes, "harness.commands.cli", "class A:\n    async def long(self):\n" + "        x = 1\n" * 70),
        (uses_the_namespace, "harness.model.seeds", "from engine.elements import Record"),
        (uses_the_namespace, "tests.test_x", "import scenarios.word_count"),
        (docstrings_have_one_dialect, "engine.graph", '"""Text.\n\n    :param x: text\n"""'),
        (lists_no_kinds_of_faults, "harness.model.faulty", 'x = ("kill_task", 1)'),
        (lists_no_kinds_of_faults, "harness.model.faulty", 'x = {"kill_task": 1}'),
        (lists_no_kinds_of_faults, "harness.model.faulty", 'match x:\n    case "kill_all":\n        y = 1'),
        (no_catch_all_module, "harness.utils", ""),
        (no_catch_all_module, "engine.state.helpers", ""),
        (nothing_unpickles, "engine.state.snapshot", "import pickle"),
        (nothing_unpickles, "harness.model.scenario", "from pickle import loads"),
        (machines_do_no_io, "engine.task.task", "import time"),
        (machines_do_no_io, "engine.job.master", "from time import monotonic"),
        (machines_do_no_io, "engine.task", "import threading"),
        (machines_do_no_io, "engine.operators.base", "x = hash('a')"),
        (machines_do_no_io, "engine.checkpoint.store", "import random\nx = random.random()"),
        (machines_do_no_io, "engine.checkpoint.store", "from random import choice"),
        (machines_do_no_io, "engine.state.ttl", "from datetime import datetime\nx = datetime.now()"),
        (machines_do_no_io, "engine.state.ttl", "import datetime\nx = datetime.datetime.utcnow()"),
    ],
)
def test_rule_detects_a_violation(rule: Rule, name: str, text: str) -> None:
    assert list(rule(Module.of(name, text)))


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (module_has_a_docstring, "engine.graph", '"""What it is for."""\n'),
        (sizes, "engine.graph", "x = 1\n" * 500),
        (sizes, "engine.api.datastream", "x = 1\n" * 501),
        (sizes, "harness.commands.cli", "def long():\n" + "    x = 1\n" * 69),
        (sizes, "harness.commands.cli", "def long():\n    'One.\\n\\nTwo.'\n" + "    x = 1\n" * 69),
        (docstrings_have_one_dialect, "engine.graph", '"""Text.\n\n    Args:\n        x: text\n"""'),
        (uses_the_namespace, "harness.model.seeds", "from onceproof.engine.elements import Record"),
        (nothing_unpickles, "engine.types.dynamic", "import pickle"),
        (nothing_unpickles, "engine.types", "import pickle"),
        (
            machines_do_no_io,
            "engine.task.task",
            "from random import Random\nimport random\nrandom.Random(1)",
        ),
        (machines_do_no_io, "engine.task.task", "def handle(event, now):\n    return now.hash()"),
        (machines_do_no_io, "engine.runtime.clock", "import time"),
    ],
)
def test_rule_accepts_correct_code(rule: Rule, name: str, text: str) -> None:
    assert not list(rule(Module.of(name, text)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install --index" + "-url https://example.org/simple", True),
        ("numpy @ https://files.python" + "hosted.org/packages/numpy.whl", True),
        ("https://py" + "pi.org/simple", True),
        ("--find" + "-links wheels", True),
        ("numpy==2.3.5", False),
        ("Java from PyPI, http://www.apache.org/licenses/", False),
    ],
)
def test_registry_names_are_detected(text: str, found: bool) -> None:
    assert bool(list(names_no_registry(text))) is found
