"""The fingerprint of a job: by what a program is recognised as the one whose checkpoints lie under a name.

The rules this module lives by:

- The measure is what Flink restores from a savepoint while all its state must be claimed. A new version of a
  job may have new operators, lack operators without state, and change names, parallelism and functions.
- It may not lack an operator that has state, nor give the place of one without a uid to another operator: its
  id says no more than where it stands, and any program of the same shape has one there. The name of the
  operator and the class of its function tell them apart.
- Ours: a source must read what it read before, because its positions mean nothing elsewhere
  (``Source.identity``). Flink leaves this to its user, who names each checkpoint that is restored.
- State of a wrong kind or type is found when an operator asks for it; the metadata do not hold its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import InvalidJob, JobGraph, OperatorNode
from onceproof.engine.operators.source import SourceOperator

States: TypeAlias = Mapping[str, Mapping[str, str]]
"""By operator id, the kind of each state by its name."""

KEYED: Final = "keyed"


class OperatorPrint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of an operator without running it; None: unknown."""

    operator_id: str
    name: str
    uid: str = ""
    function: str | None = None
    """The class of the user's function; "" if there is none."""
    reads: str | None = None
    """What a source reads; "" of any other operator."""
    extent: str = ""
    """How much of it there is."""

    @property
    def shown(self) -> str:
        """The operator in a message."""
        function = f" (function {self.function})" if self.function else ""
        return f"{printable(self.uid or self.name)!r}{printable(function)}"


def fingerprint_of(graph: JobGraph) -> tuple[OperatorPrint, ...]:
    """Return the prints of a job's operators. Raises InvalidJob for a source without a valid identity."""
    return tuple(
        [
            _print_of(node, not vertex.inputs and node is vertex.operators[0])
            for vertex in graph.vertices
            for node in vertex.operators
        ]
    )


def _print_of(node: OperatorNode, is_source: bool) -> OperatorPrint:
    function = getattr(node.create, "function_name", "")
    reads = extent = ""
    if is_source:
        operator = node.create()
        if isinstance(operator, SourceOperator):
            source = operator.source
            try:
                reads, extent = map(encodable, source.identity())
            except Exception as error:
                raise InvalidJob(
                    f"source {node.name!r}: identity() of {type(source).__name__} must return a"
                    f" SourceIdentity of two texts ({' '.join(str(error).split())})"
                ) from error
    return OperatorPrint(
        node.operator_id, encodable(node.name), encodable(node.uid or ""), function, reads, extent
    )


def prints_of(metadata: CheckpointMetadata) -> tuple[OperatorPrint, ...]:
    """Return what a checkpoint knows of the operators of its job."""
    return tuple([OperatorPrint(each.operator_id, each.name, each.uid or "") for each in metadata.operators])


def states_of(metadata: CheckpointMetadata) -> dict[str, dict[str, str]]:
    """Return the states of each operator that has any in a checkpoint."""
    found: dict[str, dict[str, str]] = {}
    for operator in metadata.operators:
        if not operator.has_state:
            continue
        states = found[operator.operator_id] = {}
        for subtask in operator.subtasks:
            index = None if subtask.handle is None else subtask.handle.index.get(operator.operator_id)
            if index is not None:
                states.update(dict.fromkeys(index.keyed, KEYED))
                states.update({name: mode.lower() for name, (mode, _) in index.operator.items()})
    return found


def differences(
    before: Sequence[OperatorPrint],
    states: States | None,
    after: Sequence[OperatorPrint],
    *,
    is_exact: bool,
    allows_unclaimed: bool,
) -> Iterator[str]:
    """Yield why a job cannot go on from the checkpoints of another one.

    Args:
        before: the operators of the job whose checkpoints they are.
        states: their states; None: unknown, so only its sources certainly have one.
        after: the operators of the job that would go on.
        is_exact: whether the sources must also have the same extent.
        allows_unclaimed: whether state that no operator takes may be left behind.
    """
    found = {each.operator_id: each for each in after}
    for old in before:
        new = found.get(old.operator_id)
        held = _held(old, states)
        if new is None:
            if held and not allows_unclaimed:
                yield f"operator {old.shown} with {held} is missing"
        elif old.reads is not None and old.reads != new.reads:
            yield f"source {new.shown} reads {_shown(new.reads)}, not {_shown(old.reads)}"
        elif is_exact and old.extent != new.extent:
            yield f"source {new.shown} reads {_shown(new.extent)}, not {_shown(old.extent)}"
        elif held and not old.uid and _is_other(old, new):
            yield f"operator {new.shown} stands in the place of {old.shown} with {held}"


def _is_other(old: OperatorPrint, new: OperatorPrint) -> bool:
    return old.name != new.name or (old.function is not None and old.function != new.function)


def _held(operator: OperatorPrint, states: States | None) -> str:
    """Return the states of an operator for a message; "" if it has none."""
    if states is None:
        return "its positions" if operator.reads else ""
    own = states.get(operator.operator_id)
    if own is None:
        return ""
    names = ", ".join([f"{printable(name)} ({printable(kind)})" for name, kind in sorted(own.items())])
    return f"state {names}" if names else "state"


def _shown(text: str | None) -> str:
    return printable(text) if text else "nothing"


def encodable(text: str) -> str:
    """Return a text that can be stored: file names may hold what UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    """Return a text from a file for a message of one line."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
