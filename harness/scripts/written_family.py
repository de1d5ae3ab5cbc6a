"""The text of a family for a script, with all of its members but the rows that should come out.

Rules:

- The family takes its job from the script each time that it is loaded, so the script stays the one place of
  the job. Records, vertices and options are written out, for the user to edit.
- A schema is written where each column has one plain type. Otherwise it is empty, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pprint import pformat
from string import Template
from typing import Any, Final

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.graph import StreamNode
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.firing import TimedOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.types.row import RowType
from onceproof.harness.model.family import Records
from onceproof.harness.model.family_places import joined_address
from onceproof.harness.scripts.calm_runs import calm_scenario, rows_of
from onceproof.harness.scripts.ends import sinks_of, sources_of
from onceproof.harness.scripts.script_family import ScriptFamily
from onceproof.harness.scripts.variations import ENOUGH_RECORDS, first_records

_WAITING: Final = (TimedOperator, WindowOperator, AsyncWaitOperator)
_SHOWN_ROWS: Final = 5
_HELD: Final = "    # Timers and windows hold rows back: end with `return declared.so_far(rows)`.\n"
_WIDTH: Final = 100
_DDL: Final[Mapping[tuple[type, ...], str]] = {
    (str,): "STRING",
    (bool,): "BOOLEAN",
    (int,): "BIGINT",
    (float,): "DOUBLE",
}


def family_text(template: str, family: ScriptFamily, path: str) -> str:
    """Return the file of a family for a script, which lies at ``path`` as seen from that file."""
    operators = family.operators
    records = first_records(family.pools)
    rows = sorted(rows_of(family, calm_scenario(family, records)) or (), key=repr)
    kinds = [source.node.output_type for source in sources_of(operators)]
    names = kinds[0].names if len(kinds) == 1 and isinstance(kinds[0], RowType) else None
    options = {
        name: value
        for name in ("batch", "fan_out", "barriers")
        if (value := getattr(family.options, name)) not in (False, 1, None)
    }
    if any(map(_waits, operators)):
        options["declares"] = True
    fewest = min(map(len, records.values()), default=0)
    return Template(template).substitute(
        program=family.path.name,
        address=repr(joined_address(path, family.said)),
        name=repr(family.name),
        tasks=pformat(dict(family.tasks), sort_dicts=False, width=_WIDTH),
        record_schema=repr(_schema([_cells(value) for own in records.values() for _, value in own], names)),
        row_schema=repr(_schema(rows, ("sink",) if len(sinks_of(operators)) > 1 else ())),
        options=", ".join(f"{name}={value!r}" for name, value in options.items()),
        origin=" and ".join(sorted({pool.origin for pool in family.pools.values()})),
        held=_HELD if "declares" in options else "",
        records=_records_text(records),
        most=max(2, -(-ENOUGH_RECORDS // max(1, fewest))),
        rows="\n    #     ".join([*map(repr, rows[:_SHOWN_ROWS]), *["..."][: len(rows) > _SHOWN_ROWS]]),
    )


def _waits(node: StreamNode) -> bool:
    """Return whether an operator may hold rows back, so that they are not there yet at a cut."""
    return isinstance(node.create, OperatorFactory) and issubclass(node.create.operator_class, _WAITING)


def _records_text(records: Records) -> str:
    lines = []
    for split, own in records.items():
        lines += [f"    {split!r}: [", *[f"        {record!r}," for record in own], "    ],"]
    return "\n".join(["{", *lines, "}"])


def _cells(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _schema(rows: Iterable[Sequence[Any]], names: Sequence[str] | None) -> str:
    """Return the columns of rows in Spark DDL; "" where one has no plain type, or rows differ in length.

    Columns without a name have those of a tuple in Flink: f0, f1.
    """
    try:
        columns = list(zip(*rows, strict=True))
    except ValueError:
        return ""
    named = [*(names or ()), *(f"f{number}" for number in range(len(names or ()), len(columns)))]
    kinds = [tuple({type(cell) for cell in column if cell is not None}) for column in columns]
    if not all(kind in _DDL for kind in kinds):
        return ""
    return ", ".join(f"{name} {_DDL[kind]}" for name, kind in zip(named, kinds, strict=False))
