"""Rules for the source tree, checked on syntax trees: sizes, imports, homes of dependencies, forbidden calls.

Each rule maps a module to its problems. It is tested on the tree, and on snippets that violate it.
"""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from tests.rooms import (
    PRODUCT,
    ROOT,
    Module,
    Problems,
    Rule,
    check,
    circles,
    goes_down,
    imports,
    module_graph,
    modules,
    room_of,
    within,
)
from tests.rooms import row_of as harness_row_of

PACKAGES = ("onceproof", "engine", "harness", "scenarios", "reports", "tests")

LONGEST_MODULE = 500
# Modules that are longer, each with the reason.
LONGER_MODULES = {
    "engine": "the list of the public names",
    **dict.fromkeys(("engine.checkpoint.coordinator", "engine.task.task"), "one machine is one module"),
    "engine.api.datastream": "environment and streams return each other; PyFlink has one module, too",
}
LONGEST_FUNCTION = 70

# The rooms of the engine, lowest first. A module has a room, and imports from its row and the rows before it.
ROOMS = (
    (
        "configuration",
        "durations",
        "durable_files",
        "elements",
        "errors",
        *("file_calls", "object_calls", "locations"),
        "owner_ids",
        *("java_hashes", "key_identity"),
        "extras",
        *("file_locks", "flink_names", "forked_children"),
        "outside_files",
        "temporary_folders",
        "key_groups",
        "metrics",
        "type_parameters",
        "types",
        "protocol_points",
        "messages",
        *("output_tag", "owned"),
        "wall_clock",
    ),
    ("state", "runtime_context"),
    (
        *("functions", "async_functions", "async_retry_predicates", "broadcast_functions"),
        *("connected_functions", "partitioner", "timer_service", "watermarks"),
    ),
    ("formats",),
    ("operators", "windows", "window", "connectors"),
    ("graph", "api"),
    ("task", "checkpoint"),
    ("job",),
    ("runtime",),
)
# They share a row but never import each other: they communicate by events and effects.
NEVER_IMPORT_EACH_OTHER = ("task", "checkpoint")
# The module of `execute()`. Its functions may import upward, to choose a runtime.
PICKS_A_RUNTIME = ("engine.api.datastream",)

# Checkers and oracles do not import the engine, except for the module that starts Spark.
CHECKERS = re.compile(r"harness\.(checkers|model\.history|flights\.oracle)(\.|$)")
CHECKERS_MAY_IMPORT = ("engine.runtime.spark_session",)

# Heavy dependencies, each with the modules that may import it; tests may import all of them.
HOMES = {
    "pyspark": re.compile(
        r"engine\.runtime\.spark|harness\.(systems|checkers\.oracle|flights|campaign|sensitivity\.on_spark)"
    ),
    "py4j": re.compile(r"engine\.runtime\.spark"),
    "bytewax": re.compile(r"harness\.systems\.bytewax|scenarios\.programs"),
    "quixstreams": re.compile(r"harness\.systems\.quix|scenarios\.programs"),
    "rocksdict": re.compile(r"engine\.state\.rocksdb"),
    **dict.fromkeys(("chaospy", "numpoly"), re.compile(r"harness\.sensitivity\.sampling")),
    "psycopg": re.compile(r"engine\.connectors\.postgres|harness\.(services|systems)"),
    "confluent_kafka": re.compile(r"engine\.connectors\.kafka|harness\.(services|systems)"),
    **dict.fromkeys(("prometheus_client", "opentelemetry"), re.compile(r"engine\.runtime\.monitor")),
    "hypothesis": re.compile(r"harness\.(generation\.strategies|testing\.plugin)|onceproof\.strategies"),
}

# The state machines of the engine. Time is an argument there, randomness an object; there is no I/O.
MACHINE_ROOMS = re.compile(r"engine\.(task|checkpoint|job|operators|windows|state)(\.|$)")
IO_MODULES = ("asyncio", "multiprocessing", "secrets", "select", "socket", "threading", "time", "uuid")

# Unpickling can execute code from a file. The client of Flink registers modules, and reads nothing.
UNPICKLERS = ("pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal")
MAY_PICKLE = re.compile(r"engine\.types(\.|$)|tests\.|harness\.systems\.flink\.client\.flink_client$")

# A clone installs from the package index of its owner's pip, so no file names an index.
REGISTRY = re.compile(
    r"\b[\w.-]*(?:pypi|pythonhosted|maven|npmjs|anaconda|jfrog|artifactory)[\w-]*\.(?:org|com|io|net)\b"
    r"|--(?:(?:extra-)?index-url|find-links|trusted-host)"
)


def row_of(name: str) -> tuple[str, int | None]:
    """Return the room of an engine module and its row, or no row for a room that is not listed."""
    room = name.split(".")[1] if "." in name else ""
    return room, next((row for row, rooms in enumerate(ROOMS) if room in rooms), None)


def module_has_a_docstring(module: Module) -> Problems:
    if not (ast.get_docstring(module.tree) or "").strip():
        yield 1, "has no docstring"


def sizes(module: Module) -> Problems:
    lines = module.text.count("\n")
    if lines > LONGEST_MODULE and module.name not in LONGER_MODULES:
        yield 1, f"has {lines} lines; the limit is {LONGEST_MODULE}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield node.lineno, f"{node.name} has {length} lines; the limit is {LONGEST_FUNCTION}"


def module_has_a_room(module: Module) -> Problems:
    if module.name != "engine" and within(module.name, "engine"):
        room, row = row_of(module.name)
        if row is None:
            yield 1, f"{room} is in none of the engine's rooms; add it to ROOMS and to the design"


def engine_imports_one_way(module: Module) -> Problems:
    if not within(module.name, "engine") or module.name == "engine":
        return
    room, row = row_of(module.name)
    for item in imports(module):
        if not within(item.target, "engine"):
            continue
        other, other_row = row_of(item.target)
        if other_row is None:
            yield item.line, f"imports {item.target} from the package itself; import it from its module"
        elif row is None:
            continue
        elif other_row > row and not (
            module.name in PICKS_A_RUNTIME and item.function and within(item.target, "engine.runtime")
        ):
            yield item.line, f"imports {item.target}, but {room} stands below {other}"
        elif room != other and room in NEVER_IMPORT_EACH_OTHER and other in NEVER_IMPORT_EACH_OTHER:
            yield (
                item.line,
                f"imports {item.target}: {room} and {other} communicate by events and effects only",
            )


def harness_imports_one_way(module: Module) -> Problems:
    if not within(module.name, "harness") or module.name == "harness":
        return
    room = room_of(module.name)
    if harness_row_of(room) is None:
        yield 1, f"{room} is in none of the harness's rooms; add it to HARNESS_ROOMS"
        return
    for item in imports(module):
        if not within(item.target, "harness"):
            continue
        other = room_of(item.target)
        if room != other and not goes_down(room, other):
            yield item.line, f"imports {item.target}, but {room} does not stand above {other}"


def uses_the_namespace(module: Module) -> Problems:
    for node in ast.walk(module.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.split(".")[0] in PRODUCT:
                yield node.lineno, f"imports {name}; it is onceproof.{name}"


def engine_imports_no_other_package(module: Module) -> Problems:
    if within(module.name, "engine"):
        for item in imports(module):
            if item.target.split(".")[0] in ("harness", "scenarios", "reports", "tests"):
                yield item.line, f"imports {item.target}; the engine imports nothing of the other packages"


def checkers_do_not_import_the_engine(module: Module) -> Problems:
    if CHECKERS.match(module.name):
        for item in imports(module):
            allowed = "oracle" in module.name and any(
                within(item.target, name) for name in CHECKERS_MAY_IMPORT
            )
            if within(item.target, "engine") and not allowed:
                yield (
                    item.line,
                    f"imports {item.target}; checkers, history and oracles never import the engine",
                )


def heavy_dependencies_have_one_home(module: Module) -> Problems:
    for item in imports(module):
        home = HOMES.get(item.target.split(".")[0])
        if home and not within(module.name, "tests") and not home.match(module.name):
            yield item.line, f"imports {item.target}, whose homes are {home.pattern.replace(chr(92), '')}"


def product_does_not_import_tests(module: Module) -> Problems:
    if not within(module.name, "tests"):
        for item in imports(module):
            if item.target.split(".")[0] in ("tests", "pytest") and module.name != "harness.testing.plugin":
                yield item.line, f"imports {item.target}; only tests and the pytest plugin do"


def no_catch_all_module(module: Module) -> Problems:
    if module.name.split(".")[-1] in ("util", "utils", "helpers", "misc"):
        yield 1, "has a name that says nothing; name a module after its content"


def nothing_unpickles(module: Module) -> Problems:
    if not MAY_PICKLE.match(module.name):
        for item in imports(module):
            if item.target.split(".")[0] in UNPICKLERS:
                yield item.line, f"imports {item.target}; pickled data is read in engine.types only"


def machines_do_no_io(module: Module) -> Problems:
    if not MACHINE_ROOMS.match(module.name):
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


@pytest.mark.parametrize("name", sorted(LONGER_MODULES))
def test_named_exceptions_are_longer_modules(name: str) -> None:
    [module] = [each for package in PACKAGES for each in modules(package) if each.name == name]
    assert module.text.count("\n") > LONGEST_MODULE, "short enough now: delete its exception"


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_through_the_namespace(package: str) -> None:
    check(uses_the_namespace, package)


def test_harness_imports_run_one_way() -> None:
    check(harness_imports_one_way, "harness")


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


@pytest.mark.parametrize("rule", [module_has_a_room, engine_imports_one_way, engine_imports_no_other_package])
def test_engine_imports_run_one_way(rule: Rule) -> None:
    check(rule, "engine")


def test_checkers_do_not_import_the_engine() -> None:
    check(checkers_do_not_import_the_engine, "harness")


@pytest.mark.parametrize("package", PACKAGES)
def test_heavy_dependencies_have_one_home(package: str) -> None:
    check(heavy_dependencies_have_one_home, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_product_does_not_import_tests(package: str) -> None:
    check(product_does_not_import_tests, package)


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
        (module_has_a_room, "engine.attic", ""),
        (module_has_a_room, "engine.attic.box", ""),
        (engine_imports_one_way, "engine.state.keyed", "from engine.functions import MapFunction"),
        (engine_imports_one_way, "engine.functions", "import engine.operators.base"),
        (engine_imports_one_way, "engine.graph", "from engine import job"),
        (engine_imports_one_way, "engine.operators.base", "from .. import graph"),
        (engine_imports_one_way, "engine.operators.base", "from ..graph import JobGraph"),
        (engine_imports_one_way, "engine.task.task", "from engine.checkpoint.store import Store"),
        (engine_imports_one_way, "engine.checkpoint.store", "from engine.task import events"),
        (engine_imports_one_way, "engine.checkpoint.store", "import engine.job"),
        (engine_imports_one_way, "engine.job.master", "from engine.runtime.local import run"),
        (engine_imports_one_way, "engine.api.datastream", "from engine.runtime.local import run"),
        (engine_imports_one_way, "engine.graph", "def f():\n    from engine.runtime import local"),
        (engine_imports_one_way, "engine.api.datastream", "def execute():\n    import engine.task.task"),
        (engine_imports_one_way, "engine.task.task", "from onceproof.engine import DataStream"),
        (
            engine_imports_one_way,
            "engine.task.task",
            "import importlib\nimportlib.import_module('engine.job')",
        ),
        (harness_imports_one_way, "harness.attic.box", ""),
        (harness_imports_one_way, "harness.model.seeds", "from onceproof.harness.checkers import verdict"),
        (harness_imports_one_way, "harness.systems.relay", "import onceproof.harness.trials.trial"),
        (
            harness_imports_one_way,
            "harness.checkers.mode",
            "from onceproof.harness.generation import generator",
        ),
        (uses_the_namespace, "harness.model.seeds", "from engine.elements import Record"),
        (uses_the_namespace, "tests.test_x", "import scenarios.word_count"),
        (engine_imports_no_other_package, "engine", "from harness.model.history import History"),
        (engine_imports_no_other_package, "engine.runtime.local", "def f():\n    import reports.page"),
        (checkers_do_not_import_the_engine, "harness.checkers.fencing", "import engine"),
        (checkers_do_not_import_the_engine, "harness.model.history", "from engine.elements import Record"),
        (checkers_do_not_import_the_engine, "harness.model.history", "import engine.runtime.spark_session"),
        (
            checkers_do_not_import_the_engine,
            "harness.checkers.oracle_spark",
            "from engine.runtime.java import find_java",
        ),
        (heavy_dependencies_have_one_home, "harness.commands.cli", "import pyspark"),
        (heavy_dependencies_have_one_home, "engine.runtime.local", "def f():\n    from pyspark import sql"),
        (heavy_dependencies_have_one_home, "scenarios.word_count", "from pyspark.sql import SparkSession"),
        (heavy_dependencies_have_one_home, "scenarios.word_count", "import hypothesis.strategies as st"),
        (heavy_dependencies_have_one_home, "harness.campaign.pipeline", "import chaospy"),
        (product_does_not_import_tests, "engine.graph", "import pytest"),
        (product_does_not_import_tests, "harness.commands.cli", "from tests.conftest import spark"),
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
        (module_has_a_room, "engine", "from onceproof.engine.api.datastream import DataStream"),
        (module_has_a_room, "engine.task.barriers.aligned", ""),
        (engine_imports_one_way, "engine", "from engine.runtime.local import run"),
        (engine_imports_one_way, "engine.operators.base", "from ..functions import MapFunction"),
        (engine_imports_one_way, "engine.operators.base", "from engine.connectors.sink import Sink"),
        (engine_imports_one_way, "engine.task.task", "from engine import messages"),
        (engine_imports_one_way, "engine.task.task", "from .events import Event"),
        (
            engine_imports_one_way,
            "engine.api.datastream",
            "def execute():\n    from engine.runtime import local",
        ),
        (harness_imports_one_way, "harness.trials.trial", "from onceproof.harness.systems import relay"),
        (harness_imports_one_way, "harness.systems.relay", "from onceproof.harness.systems.spark import x"),
        (uses_the_namespace, "harness.model.seeds", "from onceproof.engine.elements import Record"),
        (engine_imports_no_other_package, "harness.model.history", "import reports"),
        (checkers_do_not_import_the_engine, "harness.systems.simulation.world", "import engine"),
        (
            checkers_do_not_import_the_engine,
            "harness.checkers.oracle_spark",
            "import engine.runtime.spark_session",
        ),
        (heavy_dependencies_have_one_home, "engine.runtime.spark_session", "import pyspark"),
        (heavy_dependencies_have_one_home, "harness.systems.structured.structured_system", "import pyspark"),
        (heavy_dependencies_have_one_home, "harness.campaign.trial_tables", "import pyspark"),
        (heavy_dependencies_have_one_home, "harness.generation.strategies", "import hypothesis"),
        (heavy_dependencies_have_one_home, "tests.spark.test_x", "import pyspark, hypothesis, chaospy"),
        (product_does_not_import_tests, "harness.testing.plugin", "import pytest"),
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
