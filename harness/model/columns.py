"""The columns of a schema in Spark DDL, which families give for their records and rows."""

from __future__ import annotations


def columns_of(schema: str) -> tuple[str, ...]:
    """Return the names of the columns in Spark DDL: "word STRING, pair STRUCT<a: INT, b: INT>"."""
    return tuple(column_types_of(schema))


def column_types_of(schema: str) -> dict[str, str]:
    """Return by the names of the columns in Spark DDL their types, as they are written."""
    types, depth, start = {}, 0, 0
    for index, character in enumerate(f"{schema},"):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            column = schema[start:index].strip()
            start = index + 1
            if column:
                quoted = column.startswith("`")
                name = column.split("`")[1] if quoted else column.split()[0].rstrip(":")
                kind = column[len(name) + 2 * quoted :].lstrip(": ").split(maxsplit=1)
                types[name] = kind[0] if kind else ""
    return types
