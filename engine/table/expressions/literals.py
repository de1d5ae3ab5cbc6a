"""The values of literals: plans write them in a JSON of their own (Flink: RexNodeJsonSerializer)."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from onceproof.engine.table.expressions.rex import Literal
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import BINARIES, INTEGERS, TEXTS, LogicalType
from onceproof.engine.table.values import decoder, to_float32, to_scale


def literal_value(literal: Literal) -> Any:
    """Return the value of a literal. Raises UnsupportedPlan."""
    return plain_value(literal.value, literal.type)


def plain_value(value: Any, kind: LogicalType) -> Any:
    """Return the value of a constant of a type, as plans write it. Raises UnsupportedPlan."""
    root = kind.root
    if value is None or root == "BOOLEAN" or root in TEXTS:
        return value
    if root in INTEGERS or root in ("INTERVAL_MONTHS", "INTERVAL_MS"):
        return int(value)
    if root == "DECIMAL":
        return to_scale(Decimal(str(value)), kind.scale)
    if root == "DOUBLE":
        return float(value)
    if root == "FLOAT":
        return to_float32(float(value))
    if root in BINARIES:
        return base64.b64decode(value)
    if root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return decoder(kind)(value)
    raise UnsupportedPlan(f"a literal of type {kind}")
