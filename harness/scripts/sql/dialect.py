"""A statement of Flink in the words of DuckDB.

Rules:

- sqlglot reads and writes; only what is listed here is taken, because it means the same in both. Anything
  else is Untranslatable, and the script is judged by its own runs instead.
- Division and averages of integers are cut to integers toward zero, as in Flink, and keep all digits where a
  script has integers only. Those of DECIMAL have other digits in Flink, so they are Untranslatable.
- An aggregate without GROUP BY has no row as long as it has no input: a stream has not sent one.
"""

from __future__ import annotations

from functools import reduce
from typing import ClassVar, Final

from sqlglot import exp, parse_one, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from onceproof.harness.scripts.sql.group_windows import without_group_windows
from onceproof.harness.scripts.sql.translated_functions import FUNCTIONS, translated_function
from onceproof.harness.scripts.sql.windows import Untranslatable, WindowView, without_windows

KNOWN: Final = frozenset(
    {
        exp.Anonymous,
        exp.Insert,
        exp.Schema,
        exp.Create,
        exp.Select,
        exp.From,
        exp.Join,
        exp.Where,
        exp.Group,
        exp.Having,
        exp.Subquery,
        exp.With,
        exp.CTE,
        exp.Union,
        exp.Intersect,
        exp.Except,
        exp.Star,
        exp.Column,
        exp.Identifier,
        exp.Table,
        exp.TableAlias,
        exp.Alias,
        exp.Literal,
        exp.Boolean,
        exp.Null,
        exp.Interval,
        exp.Var,
        exp.Paren,
        exp.Tuple,
        exp.Distinct,
        exp.Values,
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
        exp.And,
        exp.Or,
        exp.Not,
        exp.Is,
        exp.Between,
        exp.In,
        exp.NullSafeEQ,
        exp.Like,
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.Neg,
        exp.Abs,
        exp.Case,
        exp.If,
        exp.Coalesce,
        exp.Nullif,
        exp.Cast,
        exp.DataType,
        exp.DataTypeParam,
        exp.DPipe,
        exp.Upper,
        exp.Lower,
        exp.Length,
        exp.Count,
        exp.Sum,
        exp.Min,
        exp.Max,
        exp.Avg,
        exp.Filter,
        exp.RowNumber,
        exp.Rank,
        exp.DenseRank,
        exp.Window,
        exp.WindowSpec,
        exp.Order,
        exp.Ordered,
        exp.Limit,
        exp.Extract,
        exp.Year,
        exp.Month,
        exp.Hour,
        exp.Minute,
        exp.Second,
        exp.Replace,
        exp.RegexpExtract,
        exp.Exists,
        exp.Lag,
        exp.FirstValue,
        exp.LastValue,
        exp.Greatest,
        exp.Least,
        exp.Concat,
        exp.Ceil,
        exp.Floor,
        exp.Exp,
        exp.Ln,
        exp.Sqrt,
        exp.Sin,
        exp.Cos,
    }
)
"""The expressions of sqlglot that mean the same."""
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS: Final = ("VARCHAR", "TEXT")
_TYPES: Final = frozenset({*_NUMBERS, *_TEXTS, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TIMESTAMP"})
_INTEGERS: Final = "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT')"
_FIELDS: Final = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
"""The parts of a time that both number alike."""
DIVIDED: Final = "flink_divided"
AVERAGE: Final = "flink_average"
TEXT: Final = "flink_text"
_TEXT_MACRO: Final = (
    f"CREATE MACRO {TEXT}(a) AS CASE WHEN typeof(a) IN {_INTEGERS[:-1]}, 'VARCHAR', 'DATE', '\"NULL\"')"
    " THEN CAST(a AS VARCHAR) ELSE error('a text of another type') END"
)
"""Of the other types Flink has another text, so they have none here."""
INTEGER_MACROS: Final = (
    _TEXT_MACRO,
    f"CREATE MACRO {DIVIDED}(a, b) AS a // b",
    f"CREATE MACRO {AVERAGE}(a) AS sum(a) // count(a)",
)
"""Those of a script that has integers only: // cuts toward zero."""
MACROS: Final = (
    _TEXT_MACRO,
    f"CREATE MACRO {DIVIDED}(a, b) AS CASE WHEN typeof(a) IN {_INTEGERS} AND typeof(b) IN {_INTEGERS}"
    " THEN trunc(a / b) ELSE a / b END",
    f"CREATE MACRO {AVERAGE}(a) AS CASE WHEN typeof(any_value(a)) IN {_INTEGERS} THEN trunc(avg(a))"
    " ELSE avg(a) END",
)


class Flink(Dialect):
    """As much of Flink's SQL as is read here."""

    class Tokenizer(tokens.Tokenizer):
        """Names are quoted by backticks."""

        IDENTIFIERS: ClassVar = ["`"]
        # SESSION is a function, too.
        KEYWORDS: ClassVar = {
            word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if word != "SESSION"
        }
        QUOTES: ClassVar = ["'"]


class Translated:
    """A statement in the words of DuckDB.

    Args:
        text: the statement.
        first_view: the number of the first view that it may need.
    """

    def __init__(self, text: str, first_view: int = 0) -> None:
        text, found = without_windows(text, first_view)
        self.views: list[WindowView] = found
        try:
            tree = parse_one(text, dialect=Flink)
        except SqlglotError:
            raise Untranslatable("a statement that sqlglot does not read") from None
        if isinstance(tree, exp.Create):
            # Whether a view is temporary says only for how long there is one.
            tree.set("properties", None)
        self.views += without_group_windows(tree, first_view + len(found))
        for node in tree.walk():
            _check(node)
        self.divides = tree.find(exp.Div, exp.Avg) is not None
        """Whether there is a division or an average."""
        self.kinds = {_kind_of(node) for node in tree.find_all(exp.Cast, exp.Literal)}
        """The types of casts and of literals."""
        self.tree: exp.Expr = tree.transform(_changed)

    def query(self) -> str:
        """Return the query of an INSERT or of a view."""
        query = self.tree.args.get("expression")
        if not isinstance(query, exp.Query):
            raise Untranslatable("a statement without a query")
        return query.sql("duckdb")

    def target(self) -> tuple[str, list[str]]:
        """Return which table or view a statement fills, and the columns that it names."""
        this = self.tree.this
        columns = [each.name for each in this.expressions] if isinstance(this, exp.Schema) else []
        table = this.this if isinstance(this, exp.Schema) else this
        return table.name, columns


def translated_expression(text: str) -> str:
    """Return an expression in the words of DuckDB. Raises Untranslatable."""
    return (
        Translated(f"INSERT INTO t SELECT {text} AS value FROM t")
        .query()
        .partition("SELECT ")[2]
        .rpartition(" AS value FROM")[0]
    )


def _kind_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Cast):
        return str(node.to.this.value).upper()
    if node.is_string or node.is_int:
        return ""
    return "DOUBLE" if "E" in node.name.upper() else "DECIMAL"


def _check(node: exp.Expr) -> None:
    match node:
        case exp.Anonymous() if node.name.upper() not in FUNCTIONS:
            raise Untranslatable(f"the function {node.name}")
        case exp.Cast() if str(node.to.this.value).upper() not in _TYPES:
            raise Untranslatable(f"a cast to {node.to.sql()}")
        case exp.Cast() if node.to.expressions and str(node.to.this.value).upper() in _TEXTS:
            raise Untranslatable(f"a cast to {node.to.sql()}")
        case exp.FirstValue() | exp.LastValue() if not isinstance(node.parent, exp.Window):
            raise Untranslatable(f"{node.sql()[:40]!r} without OVER: it depends on the order of arrival")
        case exp.Floor() if node.args.get("to") or node.args.get("decimals"):
            raise Untranslatable(f"{node.sql()[:40]!r}")
        case exp.Ceil() if node.args.get("to") or node.args.get("decimals"):
            raise Untranslatable(f"{node.sql()[:40]!r}")
        case exp.Select() if not node.args.get("group") and _is_scalar(node) and _aggregates(node):
            raise Untranslatable("an aggregate in a subquery that is a value")
        case exp.Extract() if node.name.upper() not in _FIELDS:
            raise Untranslatable(f"EXTRACT of {node.name}")
        case exp.Avg() if isinstance(node.this, exp.Distinct) or isinstance(node.parent, exp.Filter):
            raise Untranslatable("AVG of DISTINCT values or with FILTER")
        case exp.Table() if node.args.get("version") is not None:
            raise Untranslatable("a temporal join")
        case exp.Replace() if not node.expression.is_string or not node.expression.name:
            raise Untranslatable("REPLACE of what is not a constant text")
        case exp.Limit() if not node.parent or node.parent.args.get("order") is None:
            raise Untranslatable("LIMIT without an order")
    if type(node) not in KNOWN:
        raise Untranslatable(f"{node.sql()[:40]!r}")


def _changed(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Div):
        return exp.Anonymous(
            this=DIVIDED, expressions=[node.left.transform(_changed), node.right.transform(_changed)]
        )
    if isinstance(node, exp.Avg):
        return exp.Anonymous(this=AVERAGE, expressions=[node.this.transform(_changed)])
    if isinstance(node, exp.Cast) and str(node.to.this.value).upper() in _NUMBERS:
        return exp.Cast(
            this=exp.Anonymous(this="trunc", expressions=[node.this.transform(_changed)]), to=node.to
        )
    if isinstance(node, exp.Cast) and str(node.to.this.value).upper() in _TEXTS:
        return exp.Anonymous(this=TEXT, expressions=[node.this.transform(_changed)])
    if isinstance(node, exp.FirstValue | exp.LastValue):
        # In Flink a NULL is no value.
        return exp.IgnoreNulls(this=type(node)(this=node.this.transform(_changed)))
    if isinstance(node, exp.Greatest | exp.Least):
        return _of_all(node)
    if isinstance(node, exp.Concat):
        parts = [each.transform(_changed) for each in node.expressions]
        return exp.Paren(this=reduce(lambda left, right: exp.DPipe(this=left, expression=right), parts))
    if isinstance(node, exp.RegexpExtract):
        # sqlglot takes the group, which stands third in Flink, for the place where to begin.
        given = [node.this, node.expression, node.args.get("position")]
        return translated_function("REGEXP_EXTRACT", [each.transform(_changed) for each in given if each])
    if isinstance(node, exp.Anonymous):
        return translated_function(node.name, [each.transform(_changed) for each in node.expressions])
    if isinstance(node, exp.Select) and not node.args.get("group") and _aggregates(node):
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
        node.having(some, copy=False)
    return node


def _of_all(node: exp.Greatest | exp.Least) -> exp.Expr:
    """Return the greatest or least of values, NULL if one is NULL."""
    values = [each.transform(_changed) for each in (node.this, *node.expressions)]
    tests = [exp.Is(this=each.copy(), expression=exp.Null()) for each in values]
    call = exp.Anonymous(this=type(node).__name__.lower(), expressions=values)
    return exp.Case(ifs=[exp.If(this=exp.or_(*tests), true=exp.Null())], default=call)


def _is_scalar(select: exp.Select) -> bool:
    """Return whether a SELECT is the value of an expression."""
    above = select.parent
    return isinstance(above, exp.Subquery) and not isinstance(
        above.parent,
        exp.From | exp.Join | exp.CTE | exp.SetOperation | exp.Subquery | exp.In | exp.Exists | exp.Insert,
    )


def _aggregates(select: exp.Select) -> bool:
    """Return whether a SELECT without GROUP BY makes one row of all."""
    return any(
        isinstance(node, exp.AggFunc) and not _is_within(node, exp.Window, select)
        for expression in select.expressions
        for node in expression.walk(prune=_is_query)
    )


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _is_within(node: exp.Expr, kind: type[exp.Expr], end: exp.Expr) -> bool:
    above = node.parent
    while above is not None and above is not end:
        if isinstance(above, kind):
            return True
        above = above.parent
    return False
