"""Runs the programs of vectors on our own Table API: for their functions, or altogether.

A program imports ``pyflink``; here these modules have the names of ``engine/table/api``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from onceproof.engine import Configuration, StreamExecutionEnvironment
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.table.api import descriptors, expression, udf, window
from onceproof.engine.table.api.environment import StreamTableEnvironment
from onceproof.engine.table.api.planning import use_planner
from onceproof.engine.table.api.recorded import Recorded, Steps
from onceproof.engine.table.api.table import Table
from onceproof.engine.table.api.types import DataTypes
from onceproof.engine.table.planner.planner_process import PlanningFailed, PlanRequest
from onceproof.engine.table.user_functions import PythonFunction
from onceproof.engine.types import Types
from onceproof.engine.types.row import Row
from onceproof.engine.types.row_kind import RowKind
from tests.conformance.sql_vectors import SqlVector, declaration

MODULES: Final = (
    *("pyflink", "pyflink.common", "pyflink.table", "pyflink.table.expression", "pyflink.table.expressions"),
    *("pyflink.table.udf", "pyflink.table.window"),
)
NAMES: Final[Mapping[str, Any]] = {
    **{
        name: value
        for module in (descriptors, expression, udf, window)
        for name, value in vars(module).items()
        if not name.startswith("_")
    },
    **expression.NAMES,
    "DataTypes": DataTypes,
    "Row": Row,
    "RowKind": RowKind,
    "Types": Types,
}


@contextmanager
def modules_of_pyflink() -> Iterator[None]:
    """Have the modules that programs import."""
    before = {name: sys.modules.get(name) for name in MODULES}
    for name in MODULES:
        module = ModuleType(name)
        module.__path__ = []
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(NAMES)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def executed(vector: SqlVector) -> tuple[StreamTableEnvironment, Any]:
    """Execute the program of a vector, and return its environment and what its query returns."""
    configuration = Configuration()
    configuration.set_string("parallelism.default", "1")
    configuration.set_string("pipeline.auto-watermark-interval", "0 ms")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(environment)
    for key, value in vector.content.get("conf", {}).items():
        tables.get_config().set(key, value)
    for name, table in vector.tables.items():
        tables.execute_sql(declaration(name, table))
    for statement in vector.content.get("ddl", ()):
        tables.execute_sql(statement)
    names: dict[str, Any] = {"env": environment}
    with modules_of_pyflink():
        exec(compile(vector.content["python"], vector.id, "exec"), names)
        if "setup" in names:
            names["setup"](tables)
        return tables, names["query"](tables)


def is_of_streams(vector: SqlVector) -> bool:
    """Return whether a vector is a program whose rows come from itself, so that it runs altogether."""
    return vector.content["mode"] == "table_api" and not vector.tables


def answering(
    answer: Callable[[PlanRequest], Mapping[str, Any]],
) -> Callable[[PlanRequest], Mapping[str, Any]]:
    """Return the planner of programs that gives these answers."""

    def ask(request: PlanRequest) -> Mapping[str, Any]:
        found = answer(request)
        if "error" in found:
            raise PlanningFailed(found["error"], found.get("schema"))
        return found

    return ask


def functions_of(vector: SqlVector) -> Mapping[str, PythonFunction]:
    """Return the functions of a vector's program, by the names that plans call them by."""
    if "python" not in vector.content:
        return {}
    tables, found = executed(vector)
    steps = Steps()
    if isinstance(found, Recorded):
        steps.add(found)
    return {**steps.functions, **tables._session.functions}


def difference_of_program(vector: SqlVector, ask: Callable[[PlanRequest], Mapping[str, Any]]) -> str:
    """Run a program whose tables come from streams, and return how it differs from the recording."""
    expected = vector.content["result"]
    use_planner(ask)
    try:
        tables, found = executed(vector)
        if not isinstance(found, Table):
            return "" if found == expected["value"] else f"{found}"
        schema = [list(column) for column in tables._session.schema_of(found)]
        if schema != expected["schema"]:
            return f"the schema is {schema}"
        rows = [[str(row.get_row_kind()), list(row)] for row in found.execute().collect()]
    except JobExecutionFailed as failure:
        return "" if expected.get("error", {}).get("message", "?") in str(failure) else str(failure)
    except PlanningFailed as refused:
        return "" if "error" in expected else str(refused)
    finally:
        use_planner(None)
    wanted = [[each["op"], each["row"]] for each in expected["changelog"]]
    return "" if rows == wanted else f"{rows}"
