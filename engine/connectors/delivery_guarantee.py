"""What a sink promises about each row (PyFlink: DeliveryGuarantee)."""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """What a sink promises; the values are Flink's names in options."""

    EXACTLY_ONCE = "exactly-once"
    """Each row is visible once, with its checkpoint."""
    AT_LEAST_ONCE = "at-least-once"
    """Each row is visible; a failure may write some again."""
    NONE = "none"
    """A failure may lose rows and write some again."""
