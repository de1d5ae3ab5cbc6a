"""What the tables of a program share: what was declared, and who plans and runs what is asked of them.

Rules:

- Statements that declare something, views and functions are kept as ``effects``; each request to the planner
  has all of them, and then the table or statement that is asked for. So the planner keeps nothing between two
  requests, and what a statement declares wrongly shows with the first query behind it.
- Streams and rows of the program become declared tables of the connector ``vec``, whose rows the job takes
  from the stream (``ends.py``).
- A query becomes operators of the stream environment of its tables, so streams and tables are one job.
- Options of the job that are set for tables, such as the interval of checkpoints, count for the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.table.api.descriptors import ExplainDetail, TableConfig, TableDescriptor
from onceproof.engine.table.api.ends import ProgramTables, StreamEnd, ToRow
from onceproof.engine.table.api.planning import ask_planner
from onceproof.engine.table.api.recorded import Recorded, Steps
from onceproof.engine.table.api.result import CloseableRows, TableResult
from onceproof.engine.table.planner.planner_process import PlanRequest
from onceproof.engine.table.plans import read_plan
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.table.user_functions import PythonFunction

_OF_JOBS: Final = ("execution.", "parallelism.", "pipeline.", "restart-strategy", "state.")
"""How options begin that say how the job runs."""


class Insert(Struct, frozen=True):
    """An INSERT: its text, or a table and where its rows go."""

    text: str = ""
    table: Any = None
    sink: Any = None


class Session:
    """The declarations of an environment of tables.

    Args:
        environment: where jobs are described.
        options: those of the tables.
    """

    def __init__(self, environment: StreamExecutionEnvironment, options: Mapping[str, str]) -> None:
        self.environment = environment
        self.config = TableConfig(options)
        self._given = dict(options)
        """What the environment has already."""
        self.functions: dict[str, PythonFunction] = {}
        self.streams: dict[str, StreamEnd] = {}
        self.descriptors: dict[str, TableDescriptor] = {}
        self._effects: list[Recorded] = []
        self._numbers: dict[str, int] = {}

    def effect(self, name: str, *arguments: Any, **named: Any) -> None:
        """Keep a call of the environment for every request."""
        self._effects.append(Recorded({"environment": name}, arguments, named))

    def new_name(self, kind: str) -> str:
        """Return a name that no table has."""
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return f"{kind}_{number}"

    def name_of(self, table: Recorded) -> str:
        """Name a table, so that it can stand in the text of a statement."""
        name = self.new_name("unnamed_table")
        self.effect("create_temporary_view", name, table)
        return f"`{name}`"

    def _request(self, target: Mapping[str, Any]) -> tuple[PlanRequest, dict[str, PythonFunction]]:
        steps = Steps()
        for effect in self._effects:
            steps.add(effect)
        form = steps.target(target)
        return PlanRequest(options=self.config.to_map(), calls=steps.steps, target=form), steps.functions

    def ask(self, target: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the planner's answer."""
        return ask_planner(self._request(target)[0])

    def _translated(self, target: Mapping[str, Any]) -> ProgramTables:
        """Add the operators of a plan to the stream environment."""
        request, functions = self._request(target)
        plan = read_plan(ask_planner(request)["plan"])
        self._configure_job()
        tables = ProgramTables(self.streams)
        called: dict[str, Any] = {**functions, **self.functions}
        settings = TableSettings({"table.local-time-zone": "UTC", **self.config.to_map()}, called)
        translate(plan, tables, self.environment, settings)
        return tables

    def _configure_job(self) -> None:
        """Hand options that were set since then to the stream environment. Raises ConfigurationError."""
        found = self.config.to_map()
        changed = {
            key: value
            for key, value in found.items()
            if key.startswith(_OF_JOBS) and self._given.get(key) != value
        }
        self.environment.configure(Configuration.from_mapping(changed))
        self._given = found

    def result_of(self, target: Mapping[str, Any]) -> tuple[DataStream, TableEnd]:
        """Add a query to the job; return the stream of its changes, and what they are."""
        (result,) = self._translated(target).results
        return result

    def schema_of(self, table: Recorded) -> list[tuple[str, str]]:
        """Return names and types of the columns."""
        return [(name, kind) for name, kind in self.ask({"schema": table})["schema"]]

    def value_of(self, step: Recorded) -> Any:
        """Return what a call comes to in the planner."""
        return self.ask({"value": step})["value"]

    def explain_inserts(self, inserts: Sequence[Insert], details: Sequence[ExplainDetail]) -> str:
        """Return the planner's explanation of INSERTs."""
        target = {"inserts": _forms(inserts), "explain": [detail.name for detail in details]}
        return str(self.ask(target)["text"])

    def execute_table(self, table: Recorded) -> TableResult:
        """Run a job that reads a table."""
        stream, end = self.result_of({"table": table})
        found = stream.map(ToRow(end.type, has_names=False)).execute_and_collect()
        columns = [(field.name, str(field.type)) for field in end.type.fields]
        return TableResult(columns, CloseableRows(found, getattr(found, "close", None)))

    def attach(self, inserts: Sequence[Insert]) -> list[str]:
        """Add INSERTs to the job; return the names of their sinks."""
        return self._translated({"inserts": _forms(inserts)}).sinks

    def execute_inserts(self, inserts: Sequence[Insert]) -> TableResult:
        """Run a job of INSERTs, which has the name that Flink gives it."""
        sinks = self.attach(inserts)
        return TableResult(client=self.environment.execute_async(f"insert-into_{','.join(sinks)}"))


def _forms(inserts: Sequence[Insert]) -> list[dict[str, Any]]:
    return [
        {"text": each.text} if each.text else {"table": each.table, "sink": each.sink} for each in inserts
    ]
