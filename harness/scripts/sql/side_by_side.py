"""A query over several inputs side by side: each row has the number of its input in a first column.

Then one query answers for all inputs. It groups, joins, numbers and takes differences within an input only.

Rules:

- Each table that a SELECT reads has the column, and so has its result. Table functions have none.
- What has another meaning over several inputs at once is Untranslatable, such as a LIMIT.
- No script knows the column: ``*`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp, parse_one

from onceproof.harness.scripts.sql.late_rows import MaybeLate
from onceproof.harness.scripts.sql.windows import Untranslatable

NUMBER: Final = "onceproof_input"
"""The number of an input."""
PLACE: Final = "onceproof_place"
"""Which of the rows of its table a row is."""
_UNTIL: Final = "onceproof_late_until"
"""Up to which end, in microseconds, a row is late for windows."""
_NEVER: Final = -(1 << 62)
TABLES_OF_INPUTS: Final = (
    f"CREATE TABLE inputs ({NUMBER} BIGINT)",
    f"CREATE TABLE late_rows (late_table VARCHAR, late_place BIGINT, stride BIGINT, choices BIGINT,"
    f" choice BIGINT, {_UNTIL} BIGINT)",
)

_READ_BY: Final = (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Insert, exp.Create)
_OUTER: Final = ("LEFT", "RIGHT", "FULL")


def side_by_side(query: exp.Expr, column: str, without: Sequence[str] = ()) -> None:
    """Change a query to one over several inputs. Raises Untranslatable.

    Args:
        column: the one that has the number of the input.
        without: further columns that ``*`` leaves out of the query's result.
    """
    for alias in query.find_all(exp.TableAlias):
        # The columns of a table function stay as they are.
        if (names := alias.args.get("columns")) and isinstance(alias.parent, exp.Subquery | exp.CTE):
            names.insert(0, _name(column))
    for select in list(query.find_all(exp.Select)):
        _change(select, column, without if select is query else ())


def filled_inputs(late: Sequence[MaybeLate], count: int) -> Iterator[str]:
    """Yield the statements that make the inputs in which rows are late or not.

    Args:
        late: the rows that may be late.
        count: in how many ways they may be.
    """
    yield "DELETE FROM inputs"
    yield f"INSERT INTO inputs SELECT range FROM range({count})"
    yield "DELETE FROM late_rows"
    stride, rows = 1, []
    for each in late:
        choices = len(each.ends) + 1
        for choice, end_ms in enumerate(each.ends, 1):
            rows.append(f"('{each.table}', {each.place}, {stride}, {choices}, {choice}, {end_ms * 1000})")
        stride *= choices
    if rows:
        yield f"INSERT INTO late_rows VALUES {', '.join(rows)}"


def views_of_inputs(table: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the views of a table in all inputs: with the late rows, and without those."""
    yield (
        f'CREATE VIEW "{table} late" AS SELECT {NUMBER}, coalesce({_UNTIL}, {_NEVER}) AS {_UNTIL},'
        f' {", ".join(columns)} FROM "{table} rows" CROSS JOIN inputs LEFT JOIN late_rows ON'
        f" late_table = '{table}' AND late_place = {PLACE} AND choice = ({NUMBER} // stride) % choices"
    )
    yield (
        f'CREATE VIEW "{table}" AS SELECT * EXCLUDE ({_UNTIL}) FROM "{table} late" WHERE {_UNTIL} = {_NEVER}'
    )


def window_of_inputs(query: str, table: str) -> str:
    """Return the query of a window function over several inputs.

    Args:
        query: that over one input.
        table: the table that it reads, whose rows may be late; "": they are not.
    """
    tree = parse_one(query, dialect="duckdb")
    side_by_side(tree, NUMBER, [_UNTIL] if table else ())
    if table:
        for each in tree.find_all(exp.Table):
            if each.name == table:
                each.set("this", _name(f"{table} late"))
        assert isinstance(tree, exp.Select)
        tree.where(f"ends > {_UNTIL}", copy=False)
    return tree.sql("duckdb")


def _change(select: exp.Select, column: str, without: Sequence[str]) -> None:
    if not isinstance(_reader(select), _READ_BY) and select.parent is not None:
        raise Untranslatable("a subquery in an expression")
    for part in ("limit", "qualify", "laterals"):
        if select.args.get(part):
            raise Untranslatable(part.upper())
    begin = select.args.get("from_")
    if begin is None:
        raise Untranslatable("SELECT without FROM")
    number = _joined(select, begin.this, column)
    for star in [each for each in select.expressions if _is_star(each)]:
        inner = star.this if isinstance(star, exp.Column) else star
        names = [_name(column), *map(_name, without)]
        inner.set("except_", [*(inner.args.get("except_") or ()), *names])
    for window in select.find_all(exp.Window):
        # One with an alias begins with a window of the SELECT, which is changed itself.
        if window.parent_select is select and not window.alias:
            window.set("partition_by", [number.copy(), *window.args.get("partition_by", ())])
    if group := select.args.get("group"):
        group.set("expressions", [number.copy(), *group.expressions])
    elif _is_aggregate(select):
        select.group_by(number.copy(), copy=False)
    select.set("expressions", [exp.alias_(number, column, quoted=True), *select.expressions])


def _joined(select: exp.Select, first: exp.Expr, column: str) -> exp.Expr:
    """Join what a SELECT reads within an input; return what says the number of a row."""
    numbers = [_number_of(first, column, 0)]
    is_outer = False
    for place, join in enumerate(select.args.get("joins") or (), 1):
        number = _number_of(join.this, column, place)
        if number is None:
            continue
        if join.method or join.args.get("using") or join.kind in ("SEMI", "ANTI"):
            raise Untranslatable(f"the join {join.sql()[:40]}")
        within = exp.EQ(this=_first(numbers), expression=number.copy())
        join.set("kind", None)
        join.on(within, copy=False)
        is_outer = is_outer or join.side in _OUTER
        numbers.append(number)
    found = [each for each in numbers if each is not None]
    if not found:
        raise Untranslatable("SELECT without a table")
    return _first(found) if is_outer else found[0]


def _first(numbers: Sequence[exp.Expr | None]) -> exp.Expr:
    known = [each.copy() for each in numbers if each is not None]
    return known[0] if len(known) == 1 else exp.Coalesce(this=known[0], expressions=known[1:])


def _number_of(source: exp.Expr, column: str, place: int) -> exp.Expr | None:
    """Return the number of a row of a table or a subquery; None: it is a table function."""
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Func):
        return None
    if not isinstance(source, exp.Table | exp.Subquery):
        raise Untranslatable(f"{source.sql()[:40]!r} in FROM")
    if not source.alias:
        name = source.name if isinstance(source, exp.Table) else f"part_{place}"
        alias = source.args.get("alias") or exp.TableAlias()
        alias.set("this", _name(name))
        source.set("alias", alias)
    return exp.column(_name(column), table=_name(source.alias))


def _reader(select: exp.Select) -> exp.Expr | None:
    """Return what reads a SELECT, behind brackets."""
    above: exp.Expr | None = select.parent
    while isinstance(above, exp.Subquery):
        above = above.parent
    return above


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _is_aggregate(select: exp.Select) -> bool:
    return any(
        call.parent_select is select and call.find_ancestor(exp.Window, exp.Select) is select
        for each in select.expressions
        for call in (*each.find_all(exp.AggFunc), *each.find_all(exp.Anonymous))
        if isinstance(call, exp.AggFunc) or call.name == "flink_average"
    )


def _name(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
