"""Known signatures: failures that a project has listed, so that a new failure stands out.

The rules this module lives by:

- A known failure is run, counted, shrunk and shown like any other, and marked as known; it does not fail the
  run. Like a test marked as expected to fail, it keeps CI green until it is fixed; a new failure turns CI
  red.
- An entry lists family, property and anomaly; for an exception, family, exception type and function. It never
  lists a step or a record, which change from run to run.
- An entry that did not occur although its family ran is reported, so that it can be removed. It does not fail
  the run: scenarios are random, and a rare failure may just not have been drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from onceproof.harness.checkers.checker import Signature

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class KnownSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A listed failure of a family, with the reason for listing it."""

    family: Text
    """The family's ``name``, as in outcomes."""
    property: Text
    """The property, or the exception's type."""
    anomaly: Text
    """The anomaly, or the function that raised."""
    since: Text = ""
    """When the failure was first seen: a date or free text."""
    why: Text = ""
    """What is known about it, and who fixes it: free text."""

    def signature(self) -> Signature:
        """Return the signature that verdicts show for this failure."""
        return self.property, self.anomaly

    def about(self) -> str:
        """Return ``since`` and ``why`` as one text; "" if neither is given."""
        return ": ".join(filter(None, (self.since and f"since {self.since}", self.why)))


def find_known(known: Sequence[KnownSignature], family: str, signature: Signature) -> KnownSignature | None:
    """Return the entry for a failure of a family with this signature; None if it is not listed."""
    return next((entry for entry in known if entry.family == family and entry.signature() == signature), None)
