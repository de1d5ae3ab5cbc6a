"""Windows in GROUP BY, which are older than window functions: ``GROUP BY k, TUMBLE(at, INTERVAL '1' HOUR)``.

Such a SELECT reads the view of a window function (`windows.py`) and groups by its columns instead.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from onceproof.harness.scripts.sql.windows import Untranslatable, WindowView, window_view

_KINDS: Final = ("TUMBLE", "HOP", "SESSION")
_COLUMNS: Final = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time"}


def without_group_windows(tree: exp.Expr, first: int) -> list[WindowView]:
    """Take the windows out of the GROUP BYs of a statement; return the views that it reads instead.

    Args:
        tree: the statement, which is changed.
        first: the number of the first view.
    """
    views: list[WindowView] = []
    for select in list(tree.find_all(exp.Select)):
        grouped = select.args.get("group")
        windows = [each for each in grouped.expressions if _kind_of(each)] if grouped else []
        if windows:
            views.append(_grouped_view(select, windows[0], f"windows_{first + len(views)}"))
    return views


def _kind_of(node: exp.Expr) -> str:
    """Return the kind of a window; "": it is none."""
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    return name if name in _KINDS else ""


def _grouped_view(select: exp.Select, window: exp.Expr, name: str) -> WindowView:
    kind, (time, *lengths) = _kind_of(window), window.expressions
    source, group = select.args["from_"].this, select.args["group"]
    keys = [each for each in group.expressions if each is not window]
    is_session = kind == "SESSION"
    if (
        not isinstance(source, exp.Table)
        or source.db
        or select.args.get("joins")
        or not isinstance(time, exp.Column)
    ):
        raise Untranslatable(f"{kind} in GROUP BY of what is no table")
    if is_session and (select.args.get("where") or not all(isinstance(key, exp.Column) for key in keys)):
        raise Untranslatable("SESSION in GROUP BY beside WHERE or computed keys")
    by = ", ".join([f"`{key.name}`" for key in keys]) if is_session else ""
    arguments = [
        f"TABLE {source.this.sql()}{f' PARTITION BY {by}' if by else ''}",
        f"DESCRIPTOR(`{time.name}`)",
    ]
    view = window_view(name, kind, [*arguments, *[each.sql() for each in lengths]])
    select.args["from_"].set("this", exp.to_table(name, alias=source.alias_or_name))
    group.set("expressions", [*keys, exp.column("window_start"), exp.column("window_end")])
    for node in list(select.find_all(exp.Anonymous)):
        column = _COLUMNS.get(node.name.upper().removeprefix(f"{kind}_"))
        if column is not None:
            node.replace(exp.column(column))
    return view
