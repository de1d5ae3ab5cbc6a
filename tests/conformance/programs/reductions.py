"""Rolling reductions: sum, least and greatest, by field and by row; ties keep the first row."""

from __future__ import annotations

from onceproof.engine import StreamExecutionEnvironment, Types

PARALLELISMS = (1, 2)
IN_ORDER = False
ROW = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
ROWS = [
    ("a", 3, "x"),
    ("a", 1, "y"),
    ("b", 7, "z"),
    ("a", 5, "v"),
    ("a", 1, "w"),
    ("b", 7, "u"),
    ("a", 5, "t"),
]


def build(env: StreamExecutionEnvironment) -> None:
    """Print each rolling result."""
    keyed = env.from_collection(ROWS, ROW).key_by(lambda row: row[0], Types.STRING())
    results = {
        "sum": keyed.sum(1),
        "min": keyed.min(1),
        "max": keyed.max(1),
        "min by": keyed.min_by(1),
        "max by": keyed.max_by(1),
        "reduce": keyed.reduce(lambda one, other: (one[0], one[1] * other[1], one[2] + other[2])),
    }
    for name, result in results.items():
        result.map(lambda row, name=name: f"{name} {row}", Types.STRING()).print()
