"""Which records a source of a script gets.

Rules:

- Those of a sample that the user gives, else those that the source itself has, else some drawn from its type.
- A source of the script's own class is read split by split, as it runs for real.
- A later version of a script gets the records of the earlier one; where its own source has the same, they are
  of its own classes.
"""

from __future__ import annotations

from pathlib import Path

from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.ends import ScriptSource
from onceproof.harness.scripts.own_ends import far_module_of, is_of_script, splits_read
from onceproof.harness.scripts.records import (
    MOST_RECORDS,
    Pool,
    drawn_records,
    local_records,
    pool_of,
    sampled_records,
)

_OWN = "of the program itself"


def pool_of_source(
    of_script: ScriptSource, sample: Path | None, own_module: str, inherited: Pool | None, script: Path
) -> Pool:
    """Return the records of a source. Raises FamilyError if it has none on this machine.

    Args:
        sample: the file of the user's sample; None: there is none.
        own_module: the module whose sources run for real; "": none does.
        inherited: the records of an earlier version of the script; None: there is none.
        script: the file, for messages.
    """
    name, node, source = of_script
    kind = node.output_type
    if inherited is not None:
        found = None if sample is not None else local_records(name, source)
        is_same = found is not None and repr(found) == repr([*inherited.records])
        return pool_of(found or (), _OWN, has_splits=inherited.has_splits) if is_same else inherited
    has_splits = not node.parallelism_is_fixed
    if sample is not None:
        return pool_of(sampled_records(sample, kind), f"of {sample.name}", has_splits=has_splits)
    if is_of_script(type(source), own_module) and not far_module_of(source):
        read = splits_read(source, MOST_RECORDS) or {}
        records = [record for own in read.values() for record in own]
        if records:
            lengths = {split: len(own) for split, own in read.items()}
            return pool_of(records, _OWN, has_splits=False, own_splits=lengths)
    found = local_records(name, source)
    if found is not None:
        return pool_of(found, _OWN, has_splits=has_splits)
    found = drawn_records(kind)
    if found is None:
        raise FamilyError(
            f"{script}: the records of the source {name!r} are not on this machine: give some"
            f" with --sample {name}=FILE, lines of JSON, CSV or text"
        )
    return pool_of(found, "drawn from its type", has_splits=has_splits)
