"""What a simulated scenario may use before it has failed."""

from __future__ import annotations

from typing import Final

import msgspec

SECONDS: Final = 60.0
"""The processor time of a scenario. Its median is 15 ms, and the slowest take a second."""

MEMORY_MB: Final = 1024
"""What a scenario may allocate beside what its process had allocated before."""


class Budget(msgspec.Struct, frozen=True):
    """What a scenario may use."""

    seconds: float = SECONDS
    memory_mb: int = MEMORY_MB
