"""Executable specifications of the engine's machines: what each of them must answer by Flink's rules.

Rules:

- A specification is small and pure. It sees the events of one machine and what the machine answered, and says
  what the answer had to be. It imports nothing of the engine but events, effects, messages and elements.
- It is written from the rules of Flink and from vectors that were recorded on Flink's classes, never from the
  engine's code: where both have the same mistake, nothing here shows it.
- ``judge`` returns a Mismatch for the first answer that is not as it must be. After that the machine is no
  longer judged, because what follows is only a consequence.
"""

from __future__ import annotations

from typing import NamedTuple


class Mismatch(NamedTuple):
    """What a machine had to answer, and what it answered, as text."""

    expected: str
    got: str


class Deviation(NamedTuple):
    """The first step at which a machine of a run is not what its specification says."""

    step: int
    machine: str
    event: str
    expected: str
    got: str
