"""Known signatures: failures that a project has listed, so that a new one stands out.

The rules this module lives by:

- A known failure is run, counted, shrunk and shown like any other, and marked; it does not fail the run. As
  with a test that is expected to fail, CI stays green while somebody mends it, and turns red for what is new.
- Listed is what makes two failures the same: family, property, anomaly; for an exception, its type and the
  function. Nothing finer: a step or a record would be another one tomorrow.
- The list must shrink again. One that did not occur though its family ran is told, so that it can be taken
  out. That fails nothing: scenarios are drawn, and what is rare may only not have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceproof.harness.checkers.base import Signature


@dataclass(frozen=True, slots=True)
class KnownSignature:
    """A way to fail that is listed, and why."""

    family: str
    """As outcomes call it; for a family from a file, the file's ``name``."""
    property: str
    """The property, or the type of an exception."""
    anomaly: str
    """The anomaly, or the function that raised."""
    since: str = ""
    """A date, or whatever tells when it was met."""
    why: str = ""
    """What is known about it, and who mends it."""

    def signature(self) -> Signature:
        """Return the signature as verdicts have it."""
        return self.property, self.anomaly

    def about(self) -> str:
        """Return since when it is known, and what; empty where nobody has said."""
        return ": ".join(filter(None, (self.since and f"since {self.since}", self.why)))


def find_known(known: Sequence[KnownSignature], family: str, signature: Signature) -> KnownSignature | None:
    """Return the entry that lists a failure; None if it is new."""
    return next((entry for entry in known if entry.family == family and entry.signature() == signature), None)
