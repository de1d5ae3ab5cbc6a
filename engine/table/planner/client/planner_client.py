"""Compiles statements to plans: the program that runs in Flink's environment.

It reads a request in JSON from each line of its input and answers each with a line of JSON:

- ``options``: the configuration, by key; ``ddl``: statements to execute first.
- ``statements``: INSERTs to compile as one plan; or ``statement``: a query, an INSERT, a statement set or an
  EXPLAIN; or ``program``: source in Python that defines ``query(t)`` and perhaps ``setup(t)``, which is
  executed, so only tests send one; or ``target``: what a program asks for, behind its ``calls``
  (``calls.py``).
- The answer has ``plan`` (and the ``schema`` of a query), ``text`` (of an EXPLAIN), ``rows`` (of a SHOW or
  DESCRIBE), or ``error`` with phase, class and the first line of the message.

The only argument is the jar with the connector ``vec``.
"""

import json
import os
import re
import sys
import tempfile
import traceback

from calls import Calls, jsonable, lasting
from pyflink.common import Configuration, Types, typeinfo
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import ExplainDetail, StreamTableEnvironment, Table, TableDescriptor
from pyflink.table.expressions import call
from pyflink.table.udf import UserDefinedFunctionWrapper

SETTINGS = {
    "parallelism.default": "1",
    "pipeline.auto-watermark-interval": "0 ms",
    "table.local-time-zone": "UTC",
}
SHOWING = re.compile(r"(SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
EXPLAINING = re.compile(r"EXPLAIN\b", re.IGNORECASE)
TOGETHER = re.compile(r"EXECUTE\s+(STATEMENT\s+SET\b.*)", re.IGNORECASE | re.DOTALL)
QUERYING = re.compile(r"(\(|SELECT\b|WITH\b|VALUES\b|FROM\b)", re.IGNORECASE)
TABLE_API = "org.apache.flink.table.api."
CLASS_AND_MESSAGE = re.compile(r"((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?:: (.*))?")


class Failure(Exception):
    """A statement that the planner refuses in a phase: ddl, plan or execute."""

    def __init__(self, phase, error):
        super().__init__(phase)
        self.phase = phase
        self.error = error


def answer(request, jar):
    """Answer one request."""
    environment = new_environment(request.get("options", {}), jar)
    try:
        with_phase("ddl", lambda: [environment.execute_sql(lasting(text)) for text in request.get("ddl", ())])
        return planned(environment, request)
    except Failure as failure:
        return {"error": {"phase": failure.phase, **described(failure.error)}}


def new_environment(options, jar):
    """Return a table environment that shares nothing with the one before but the Java machine."""
    configuration = Configuration()
    for key, value in {**SETTINGS, **options, "pipeline.jars": f"file://{jar}"}.items():
        configuration.set_string(key, value)
    streams = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment = StreamTableEnvironment.create(streams)
    # From here on the jar answers for the tables of every connector.
    environment.execute_sql("LOAD MODULE vec")
    return environment


def planned(environment, request):
    """Compile what the request asks for."""
    if "target" in request:
        return plan_of_calls(environment, request.get("calls", ()), request["target"])
    if "program" in request:
        return plan_of_program(environment, request["program"])
    if "statements" in request:
        together = environment.create_statement_set()
        with_phase("execute", lambda: [together.add_insert_sql(text) for text in request["statements"]])
        return {"plan": compiled(together.compile_plan)}
    statement = request["statement"]
    if EXPLAINING.match(statement):
        result = with_phase("execute", lambda: environment.execute_sql(statement))
        with result.collect() as rows:
            return {"text": next(iter(rows))[0]}
    if SHOWING.match(statement):
        result = with_phase("execute", lambda: environment.execute_sql(statement))
        with result.collect() as rows:
            return {"rows": [[str(value) for value in row] for row in rows]}
    if together := TOGETHER.match(statement):
        return {"plan": plan_of_block(environment, together[1])}
    if QUERYING.match(statement):
        return plan_of_table(with_phase("plan", lambda: environment.sql_query(statement)))
    return {"plan": compiled(lambda: environment.compile_plan_sql(statement))}


def plan_of_block(environment, block):
    """Compile a statement set that is written as one statement."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "plan.json")
        text = f"COMPILE PLAN 'file://{place}' FOR {block}"
        with_phase("execute", lambda: environment.execute_sql(text))
        with open(place, encoding="utf-8") as file:
            return json.load(file)


def plan_of_program(environment, program):
    """Execute a program in Python and compile the table that its query returns."""
    names = {"env": StreamExecutionEnvironment(environment._j_tenv.execEnv())}
    name_functions(environment)
    exec(compile(program, "<program>", "exec"), names)
    if "setup" in names:
        with_phase("ddl", lambda: names["setup"](environment))
    table = with_phase("plan", lambda: names["query"](environment))
    return plan_of_table(table) if isinstance(table, Table) else {"value": table}


def plan_of_calls(environment, steps, target):
    """Compile, or answer, what a program asks for behind its calls."""
    name_functions(environment)
    calls = Calls(environment)
    with_phase("plan", lambda: calls.perform(steps))
    if "statement" in target:
        return planned(environment, target)
    if "value" in target:
        return {"value": jsonable(calls.value(target["value"]))}
    if "schema" in target and "stream" not in target:
        return {"schema": schema_of(calls.value(target["schema"]))}
    if "table" in target:
        return plan_of_table(calls.value(target["table"]))
    if "inserts" in target:
        return plan_of_inserts(environment, calls, target)
    return plan_of_stream(environment, calls, target)


def plan_of_inserts(environment, calls, target):
    """Compile INSERTs as one plan, or explain them."""
    inserts = target["inserts"]
    if len(inserts) == 1 and (together := TOGETHER.match(inserts[0].get("text", ""))):
        return {"plan": plan_of_block(environment, together[1])}
    statements = environment.create_statement_set()

    def add(insert):
        if "text" in insert:
            return statements.add_insert_sql(insert["text"])
        sink = insert["sink"]
        sink = sink if isinstance(sink, str) else calls.value(sink)
        return statements.add_insert(sink, calls.value(insert["table"]))

    with_phase("plan", lambda: [add(insert) for insert in inserts])
    if "explain" in target:
        details = [getattr(ExplainDetail, name) for name in target["explain"]]
        return {"text": with_phase("execute", lambda: statements.explain(*details))}
    return {"plan": compiled(statements.compile_plan)}


def plan_of_stream(environment, calls, target):
    """Compile a table that becomes a stream; PyFlink makes a stream of it before, which checks it."""
    table, builder = calls.value(target["stream"]), TableDescriptor.for_connector("vec")
    arguments = [calls.value(target[name]) if name in target else None for name in ("schema", "mode")]
    if target["method"] == "to_changelog_stream":
        while arguments and arguments[-1] is None:
            arguments.pop()
        if "schema" in target:
            builder.schema(calls.value(target["schema"]))
    elif target["method"] == "to_append_stream":
        types = [column.getDataType() for column in table._j_table.getResolvedSchema().getColumns()]
        arguments = [Types.ROW([_from_java_type_info(kind) for kind in types])]
    else:
        arguments = []
    with_phase("plan", lambda: getattr(environment, target["method"])(table, *arguments))
    if "sink_mode" in target:
        builder.option("sink-mode", target["sink_mode"])
    return plan_of_table(table, builder.build())


def _from_java_type_info(kind):
    """Return the type of streams for a type of columns."""
    utils = get_gateway().jvm.org.apache.flink.table.types.utils
    return typeinfo._from_java_type(utils.LegacyTypeInfoDataTypeConverter.toLegacyTypeInfo(kind))


def name_functions(environment):
    """Let a function that a program calls without registering it be called by its name, as plans need it."""

    def call_by_name(wrapper, *arguments):
        name = wrapper._name
        if name not in environment.list_user_defined_functions():
            environment.create_temporary_system_function(name, wrapper)
        return call(name, *arguments)

    UserDefinedFunctionWrapper.__call__ = call_by_name


def schema_of(table):
    """Return names and types of the columns of a table."""
    return [
        [column.getName(), column.getDataType().getLogicalType().asSummaryString()]
        for column in table._j_table.getResolvedSchema().getColumns()
    ]


def plan_of_table(table, sink=None):
    """Compile an INSERT of a table into a sink, which takes any change unless it is given."""
    schema = schema_of(table)
    sink = sink or TableDescriptor.for_connector("vec").build()
    try:
        return {"plan": compiled(lambda: table.insert_into(sink).compile_plan()), "schema": schema}
    except Failure as failure:
        return {"error": {"phase": failure.phase, **described(failure.error)}, "schema": schema}


def compiled(compile_plan):
    """Return a plan as JSON, after a translation as at execution, which finds more errors."""
    plan = with_phase("execute", compile_plan)
    text = plan.as_json_string()
    with_phase("execute", plan.explain)
    return json.loads(text)


def with_phase(phase, act):
    """Call ``act``, and raise what it raises as the failure of a phase."""
    try:
        return act()
    except Exception as error:
        raise Failure(phase, error) from error


def described(error):
    """Return class, first line of the message and root cause of an error from Java, or from Python.

    Rules of the optimizer wrap what the table API says: its first exception counts, wherever it stands.
    """
    thrown = getattr(error, "java_exception", None)
    if thrown is None:
        chain = chain_in(str(error)) or [{"class": type(error).__name__, "message": first_line(str(error))}]
    else:
        chain = []
        while thrown is not None:
            chain.append({"class": thrown.getClass().getName(), "message": first_line(thrown.getMessage())})
            thrown = thrown.getCause()
    place = next((at for at, link in enumerate(chain) if link["class"].startswith(TABLE_API)), 0)
    found = dict(chain[place])
    if place:
        found["wrapper"] = chain[0]["class"]
    if place < len(chain) - 1:
        found["cause"] = chain[-1]
    return found


def chain_in(trace):
    """Return an exception and its causes from a printed stack trace of Java; [] if it is none."""
    chain = []
    for line in trace.splitlines():
        match = CLASS_AND_MESSAGE.fullmatch(line.removeprefix("Caused by: "))
        if match and (not chain or line.startswith("Caused by: ")):
            chain.append({"class": match[1], "message": match[2] or ""})
        elif not chain:
            return []
    return chain


def first_line(message):
    """Return the first line of a message, which may be missing."""
    return ((message or "").splitlines() or [""])[0]


def main(jar):
    """Answer the requests of the input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    get_gateway()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), jar)
        except Exception as error:
            traceback.print_exc()
            reply = {"error": {"phase": "planner", **described(error)}}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
