"""What a job says of one operator: name, uid, parallelism, chaining.

Rules:

- A setting goes to the node that the stream comes out of. `union`, `key_by`, `rebalance` and
  `get_side_output` add no node, so a setting after them is an InvalidJob error, never a silent change of the
  operator before.
- Nothing here knows a stream class: `DataStream` inherits the settings, a sink hands them on.
"""

from __future__ import annotations

import re
from typing import Final, Self

from onceproof.engine.api.slot_sharing import SlotSharingGroup, group_name
from onceproof.engine.graph import (
    ChainingStrategy,
    InvalidJob,
    StreamNode,
    Upstream,
    check_buffer_timeout,
    check_max_parallelism,
    check_parallelism,
)

Upstreams = tuple[Upstream, ...]
_UID_HASH: Final = re.compile(r"[0-9a-fA-F]{32}")


class OperatorSettings:
    """The settings of the operator that a stream comes out of (Flink: SingleOutputStreamOperator)."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    def _node(self, setting: str) -> StreamNode:
        only = self._upstreams[0]
        if len(self._upstreams) == 1 and only.partitioner is None and only.side_output is None:
            return only.node
        names = ", ".join(repr(upstream.node.name) for upstream in self._upstreams)
        raise InvalidJob(
            f"{setting} cannot be set after key_by, union, get_side_output or a change of partitioning of"
            f" {names}: set it on an operator, before or after"
        )

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._node("name").name

    def name(self, name: str) -> Self:
        """Name the operator. Reports, metrics and error messages use the name."""
        self._node("name").name = name
        return self

    def uid(self, uid: str) -> Self:
        """Set the id under which a restore finds the operator's state. It is unique in the job."""
        node = self._node("uid")
        if not uid:
            raise InvalidJob(f"uid {uid!r} of {node.name!r} must not be empty")
        node.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the operator's id itself, where a uid does not give the id of the state to be restored.

        Args:
            uid_hash: 32 hexadecimal digits, as in the list of a checkpoint's operators.
        """
        node = self._node("uid hash")
        if not _UID_HASH.fullmatch(uid_hash):
            raise InvalidJob(f"uid hash {uid_hash!r} of {node.name!r}: give 32 hexadecimal digits")
        node.uid_hash = uid_hash.lower()
        return self

    def set_description(self, description: str) -> Self:
        """Say what the operator does, for readers of the program; nothing here shows it."""
        self._node("description").description = description
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Keep a slot sharing group, by its name or itself. It has no effect: subtasks have no slots."""
        node = self._node("slot sharing group")
        node.slot_sharing_group = group_name(slot_sharing_group, node.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Bound how long records wait in the buffers of the operator's task, in place of the job's bound.

        Of the operators of a chain the shortest counts. On Spark it has no effect.

        Args:
            timeout_millis: milliseconds; 0: each record is sent by itself; -1: no bound, buffers are full.
        """
        node = self._node("buffer timeout")
        node.buffer_timeout_ms = check_buffer_timeout(timeout_millis, f" of {node.name!r} is")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of the operator."""
        node = self._node("parallelism")
        check_parallelism(parallelism, repr(node.name))
        if node.parallelism_is_fixed and parallelism != 1:
            raise InvalidJob(
                f"{node.name!r} runs in one subtask only: parallelism {parallelism} is not possible"
            )
        node.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator: the bound on any later parallelism."""
        node = self._node("max parallelism")
        node.max_parallelism = check_max_parallelism(max_parallelism, repr(node.name))
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask, whatever the environment says."""
        node = self._node("parallelism")
        node.parallelism = 1
        node.parallelism_is_fixed = True
        return self

    def disable_chaining(self) -> Self:
        """Give the operator a task of its own."""
        self._node("chaining").chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator to the one before it."""
        self._node("chaining").chaining = ChainingStrategy.HEAD
        return self


class DataStreamSink:
    """The sink at the end of a stream, to be named and set (PyFlink: DataStreamSink)."""

    def __init__(self, operator: OperatorSettings) -> None:
        self._operator = operator

    def name(self, name: str) -> DataStreamSink:
        """Name the sink."""
        self._operator.name(name)
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Set the id under which a restore finds the sink's state. It is unique in the job."""
        self._operator.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the sink's id itself: 32 hexadecimal digits, where a uid does not give it."""
        self._operator.set_uid_hash(uid_hash)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Say what the sink does, for readers of the program; nothing here shows it."""
        self._operator.set_description(description)
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Keep a slot sharing group, by its name or itself. It has no effect: subtasks have no slots."""
        self._operator.slot_sharing_group(slot_sharing_group)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set the number of subtasks of the sink."""
        self._operator.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """Set the bound on any later parallelism of the sink."""
        self._operator.set_max_parallelism(max_parallelism)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Give the sink a task of its own."""
        self._operator.disable_chaining()
        return self
