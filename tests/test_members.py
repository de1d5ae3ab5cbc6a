"""How modules use each other's members: private ones stay private, and a reader can follow every call.

- A private member is read in the module that defines it only.
- What is called for a kind of event is written as `match` or as a table of functions, so that tools find it.
"""

from __future__ import annotations

import ast

import pytest

from tests.rooms import PRODUCT, Module, Problems, Rule, check

# Private members of libraries that offer no other way, and those that a class shares with its base.
PRIVATE_BUT_NEEDED = {
    "_activeSession": "pyspark: a session that died is forgotten before the next one starts",
    "_active_spark_context": "pyspark: likewise",
    "_gateway": "pyspark: likewise, and the process of its Java",
    "_instantiatedSession": "pyspark: likewise",
    "_from_java_type": "pyflink: a type of Java as one of Python",
    "_j_configuration": "pyflink: the Java object behind one of Python",
    "_j_data_stream": "pyflink: likewise",
    "_j_table": "pyflink: likewise",
    "_j_tenv": "pyflink: likewise",
    "_jsc": "pyspark: job groups and the status of a job",
    "_jvm": "pyspark: likewise",
    "_jdf": "pyspark: the plan of a query",
    "_name": "pyflink: that of a function of tables",
    "_options": "pyspark: the options of a builder of a session",
    "_streamingCheckpointManager": "pyspark: the offline repartition of a query's state",
    "_add_node": "JobDescription, the base of the environment",
    "_configure_as_submitted": "JobDescription, the base of the environment",
    "_AUTO_OFFSET_RESET": "confluent_kafka: the codes of errors of the client itself begin so",
    "_PARTITION_EOF": "confluent_kafka: likewise",
    "_TIMED_OUT": "confluent_kafka: likewise",
    "_UNKNOWN_PARTITION": "confluent_kafka: likewise",
    "_UNKNOWN_TOPIC": "confluent_kafka: likewise",
    "_UNSUPPORTED_FEATURE": "confluent_kafka: likewise",
    "_value_": "enum: what a member is made of",
    "_asdict": "a named tuple's",
    "_replace": "a named tuple's",
    "_fields": "a named tuple's",
    "_getframe": "sys: the frames of the caller",
    "_exit": "os: ends a process without its clean-up",
    "_set_running_loop": "asyncio: for those who write event loops",
}


def names_defined_in(module: Module) -> set[str]:
    """Return the names that a module's classes and functions define, slots among them."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                names.add(name)
    return names


def private_members_stay_at_home(module: Module) -> Problems:
    own = names_defined_in(module)
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                if name not in own and name not in PRIVATE_BUT_NEEDED:
                    yield node.lineno, f"reads {ast.unparse(node)}, a private member of another module"


def dispatches_by_table(module: Module) -> Problems:
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr"),
                args=[ast.Name(id="self"), ast.Subscript() | ast.JoinedStr(), *_],
            ):
                yield node.lineno, f"calls {ast.unparse(node)}: use match, or a table of functions"
            case ast.Subscript(value=ast.Tuple(), slice=index) if not isinstance(index, ast.Constant):
                yield node.lineno, f"indexes a tuple in {ast.unparse(node)}: name the two cases"
            case ast.Global(names=names):
                yield node.lineno, f"has the global {', '.join(names)}: let an object hold it"


@pytest.mark.parametrize("package", PRODUCT)
def test_private_members_stay_at_home(package: str) -> None:
    check(private_members_stay_at_home, package)


@pytest.mark.parametrize("package", PRODUCT)
def test_dispatch_is_by_table(package: str) -> None:
    check(dispatches_by_table, package)


@pytest.mark.parametrize(
    ("rule", "text", "count"),
    [
        (private_members_stay_at_home, "def f(task):\n    return task._state", 1),
        (private_members_stay_at_home, "class A:\n    _x = 1\ndef f(a):\n    return a._x", 0),
        (private_members_stay_at_home, "class A:\n    def f(self):\n        return self._x + super()._y", 0),
        (private_members_stay_at_home, "def f(a):\n    return a.__dict__", 0),
        (dispatches_by_table, "class A:\n    def f(self, kind):\n        getattr(self, NAMES[kind])()", 1),
        (dispatches_by_table, "class A:\n    def f(self, kind):\n        getattr(self, f'_{kind}')()", 1),
        (dispatches_by_table, "class A:\n    def f(self):\n        getattr(self, 'x', None)", 0),
        (dispatches_by_table, "word = ('no', 'yes')[found]", 1),
        (dispatches_by_table, "first = (1, 2)[0]", 0),
        (dispatches_by_table, "def f():\n    global count\n    count = 1", 1),
    ],
)
def test_rules_see_what_breaks_them(rule: Rule, text: str, count: int) -> None:
    assert len(list(rule(Module.of("engine.task.task", text)))) == count
