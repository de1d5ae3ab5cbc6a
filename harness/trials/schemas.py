"""The schemas of a family beside its records and rows, without Spark.

The rules this module lives by:

- The number of columns is compared with each value and each row, and the types of plain columns with theirs.
- Columns of other types (arrays, structs, decimals, times) pass here. Spark compares them in a campaign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from onceproof.harness.model.columns import column_types_of
from onceproof.harness.model.family import Declared, Family, options_of
from onceproof.harness.model.scenario import Scenario

_WHOLE: Final = (int,)
_REAL: Final = (float, int)
FITTING: Final[Mapping[str, tuple[type, ...]]] = {
    "STRING": (str,),
    "BOOLEAN": (bool,),
    "TINYINT": _WHOLE,
    "BYTE": _WHOLE,
    "SMALLINT": _WHOLE,
    "SHORT": _WHOLE,
    "INT": _WHOLE,
    "INTEGER": _WHOLE,
    "BIGINT": _WHOLE,
    "LONG": _WHOLE,
    "FLOAT": _REAL,
    "REAL": _REAL,
    "DOUBLE": _REAL,
}
"""By Spark's name of a plain type, the Python types of its values; None fits every column."""


def misfit_of(family: Family, scenario: Scenario) -> tuple[str, str] | None:
    """Return the schema that does not fit a scenario's records or expected rows, and a sentence about it.

    The rows of a family that ``declares`` follow from its run, so only its records are compared; a script has
    no schema.
    """
    if not family.record_schema:
        return None
    values = [value for records in scenario.records.values() for _, value in records]
    fields = [value if isinstance(value, tuple) else (value,) for value in values]
    sentence = _misfit(column_types_of(family.record_schema), fields)
    if sentence is not None:
        return "record_schema", f"record_schema {sentence} that generate() returns"
    if options_of(family).declares:
        return None
    sentence = _misfit(
        column_types_of(family.row_schema),
        family.expected(scenario.records, Declared(parameters=scenario.parameters)),
    )
    return None if sentence is None else ("row_schema", f"row_schema {sentence} that expected() returns")


def _misfit(columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> str | None:
    for row in rows:
        if len(row) != len(columns):
            return f"has {len(columns)} columns ({', '.join(columns)}) and not the {len(row)} of {row!r}"
        for (name, kind), value in zip(columns.items(), row, strict=True):
            fitting = FITTING.get(kind.upper())
            if fitting is not None and value is not None and type(value) not in fitting:
                return f"says {name} {kind}, which does not hold {value!r} of {row!r}"
    return None
