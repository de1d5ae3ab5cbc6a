"""Repeats what a program said of tables on PyFlink: the steps of ``api/recorded.py``.

Only public names of PyFlink's tables are called, with data as arguments. A function of the program is
declared by its types; it is never executed here.
"""

import operator
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pyflink.table
import pyflink.table.expression
import pyflink.table.expressions
import pyflink.table.window
from pyflink.java_gateway import get_gateway
from pyflink.table import AggregateFunction, ScalarFunction, TableAggregateFunction, TableFunction
from pyflink.table.types import _from_java_data_type
from pyflink.table.udf import udaf, udf, udtaf, udtf

OPERATORS = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "invert", "neg", "abs"),
        *("add", "sub", "mul", "truediv", "mod", "pow"),
    )
)
TEMPORARY = re.compile(r"(\s*(?:CREATE|DROP)\s+)TEMPORARY\s+(?=TABLE\b)", re.IGNORECASE)
LASTING = {"create_temporary_table": "create_table", "drop_temporary_table": "drop_table"}
"""A plan names a temporary table and says nothing else of it, as the session has it. Here each request has a
catalog of its own, so a lasting one serves."""
CLASSES = (pyflink.table, pyflink.table.window, pyflink.table.expression)


class Calls:
    """The values of the steps of one request."""

    def __init__(self, environment):
        self._environment = environment
        self._values = []

    def perform(self, steps):
        """Perform steps, in order."""
        for step in steps:
            self._values.append(self._performed(step))

    def value(self, place):
        """Return the value of a step."""
        return self._values[place]

    def _performed(self, step):
        arguments = [self.argument(each) for each in step.get("arguments", ())]
        named = {name: self.argument(each) for name, each in step.get("named", {}).items()}
        if "declare" in step:
            return declared(step)
        if "operator" in step:
            name = step["operator"]
            assert name in OPERATORS, name
            return getattr(operator, name)(*arguments)
        if "constant" in step:
            return public(pyflink.table.expressions, step["constant"])
        if "function" in step:
            return public(pyflink.table.expressions, step["function"])(*arguments, **named)
        if "environment" in step:
            name = step["environment"]
            if name == "execute_sql":
                arguments = [lasting(*arguments)]
            return public(self._environment, LASTING.get(name, name))(*arguments, **named)
        if "class" in step:
            return public(class_named(step["class"]), step["name"])(*arguments, **named)
        on = self.argument(step["on"])
        assert type(on).__module__.startswith("pyflink."), type(on)
        if "property" in step:
            return public(on, step["property"])
        if step["name"] == "call":
            return on(*arguments)
        return public(on, step["name"])(*arguments, **named)

    def argument(self, form):
        """Return an argument from its JSON."""
        if not isinstance(form, dict):
            return form
        ((kind, content), *others) = form.items()
        if kind == "step":
            return self._values[content]
        if kind == "enum":
            return getattr(class_named(content), dict(others)["member"])
        if kind == "list":
            return [self.argument(each) for each in content]
        if kind == "pairs":
            return {self.argument(key): self.argument(item) for key, item in content}
        return {
            "type": type_of,
            "bytes": bytes.fromhex,
            "decimal": Decimal,
            "datetime": datetime.fromisoformat,
            "date": date.fromisoformat,
            "time": time.fromisoformat,
            "timedelta": lambda number: timedelta(microseconds=number),
        }[kind](content)


def lasting(statement):
    """Return a statement that creates or drops a temporary table as one for a lasting table."""
    return TEMPORARY.sub(r"\1", statement)


def public(owner, name):
    """Return an attribute with a public name."""
    assert not name.startswith("_"), name
    return getattr(owner, name)


def class_named(name):
    """Return a class of PyFlink's tables."""
    for module in CLASSES:
        if hasattr(module, name):
            return public(module, name)
    raise AttributeError(f"PyFlink has no class {name}")


def type_of(text):
    """Return the type of PyFlink with a text of SQL."""
    jvm = get_gateway().jvm
    logical = jvm.org.apache.flink.table.types.logical.utils.LogicalTypeParser.parse(
        text, jvm.Thread.currentThread().getContextClassLoader()
    )
    return _from_java_data_type(
        jvm.org.apache.flink.table.types.utils.TypeConversions.fromLogicalToDataType(logical)
    )


def declared(step):
    """Return a function with the types of one of the program, which does nothing."""
    result, name = type_of(step["result"]), step["name"]
    deterministic = step["deterministic"]
    if step["declare"] == "scalar":
        form = "pandas" if step["pandas"] else "general"
        made = udf(Scalar(), result_type=result, deterministic=deterministic, name=name, func_type=form)
    elif step["declare"] == "table":
        kinds = [field.data_type for field in result.fields]
        made = udtf(Rows(), result_types=kinds, deterministic=deterministic, name=name)
    else:
        make, function = {
            "aggregate": (udaf, Aggregate()),
            "table-aggregate": (udtaf, TableAggregate()),
        }[step["declare"]]
        accumulator = type_of(step["accumulator"])
        made = make(
            function,
            result_type=result,
            accumulator_type=accumulator,
            deterministic=deterministic,
            name=name,
        )
    return made


class Scalar(ScalarFunction):
    """Stands for a function of the program."""

    def eval(self, *arguments):
        raise NotImplementedError


class Rows(TableFunction):
    """Stands for a table function of the program."""

    def eval(self, *arguments):
        raise NotImplementedError


class Aggregate(AggregateFunction):
    """Stands for an aggregate function of the program."""

    def create_accumulator(self):
        raise NotImplementedError

    def accumulate(self, accumulator, *arguments):
        raise NotImplementedError

    def retract(self, accumulator, *arguments):
        raise NotImplementedError

    def merge(self, accumulator, accumulators):
        raise NotImplementedError

    def get_value(self, accumulator):
        raise NotImplementedError


class TableAggregate(TableAggregateFunction):
    """Stands for a table aggregate function of the program."""

    def create_accumulator(self):
        raise NotImplementedError

    def accumulate(self, accumulator, *arguments):
        raise NotImplementedError

    def emit_value(self, accumulator):
        raise NotImplementedError


def jsonable(value):
    """Return a value of the program's question as JSON."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else [str(each) for each in value]
