"""Slot sharing groups, described as for Flink and without effect (PyFlink: SlotSharingGroup, MemorySize).

A subtask has no slot here. With worker processes subtask i of each operator is in worker i modulo their
number, which is what one group for the whole job means.
"""

from __future__ import annotations

from functools import total_ordering
from typing import Any, Final

from onceproof.engine.graph import InvalidJob

KIBI: Final = 1024


@total_ordering
class MemorySize:
    """An amount of memory.

    Args:
        bytes_size: how many bytes, at least 0.
    """

    def __init__(self, bytes_size: int) -> None:
        if type(bytes_size) is not int or bytes_size < 0:
            raise InvalidJob(f"a memory size is {bytes_size!r}: give a whole number of bytes")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return a size of so many times 1024 * 1024 bytes."""
        return MemorySize(mebi_bytes * KIBI**2)

    def get_bytes(self) -> int:
        """Return the bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the whole kibibytes."""
        return self._bytes // KIBI

    def get_mebi_bytes(self) -> int:
        """Return the whole mebibytes."""
        return self._bytes // KIBI**2

    def get_gibi_bytes(self) -> int:
        """Return the whole gibibytes."""
        return self._bytes // KIBI**3

    def get_tebi_bytes(self) -> int:
        """Return the whole tebibytes."""
        return self._bytes // KIBI**4

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            return NotImplemented
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return self._bytes

    def __repr__(self) -> str:
        return f"{self._bytes} bytes"


class SlotSharingGroup:
    """A name and the resources that a slot of the group would have; ``builder`` makes one."""

    def __init__(self, name: str, resources: dict[str, Any], external: dict[str, float]) -> None:
        self._name = name
        self._resources = resources
        self._external = external

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Return a builder of a group of this name."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """Return the cores of a processor, or None."""
        return self._resources.get("cpu_cores")

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the heap memory, or None."""
        return self._resources.get("task_heap_memory")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory outside of the heap, or None."""
        return self._resources.get("task_off_heap_memory")

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory, or None."""
        return self._resources.get("managed_memory")

    def get_external_resources(self) -> dict[str, float]:
        """Return the amounts of other resources by name."""
        return dict(self._external)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and (self._name, self._resources, self._external) == (
            other._name,
            other._resources,
            other._external,
        )

    def __hash__(self) -> int:
        # Groups that are equal have one name.
        return sum(map(ord, self._name))

    class Builder:
        """Collects the resources of a group."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._resources: dict[str, Any] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores of a processor."""
            self._resources["cpu_cores"] = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap memory."""
            self._resources["task_heap_memory"] = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the heap memory in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory outside of the heap."""
            self._resources["task_off_heap_memory"] = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory outside of the heap in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the managed memory."""
            self._resources["managed_memory"] = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the managed memory in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set the amount of another resource; a later one of the name replaces it."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group."""
            return SlotSharingGroup(self._name, dict(self._resources), dict(self._external))


def group_name(group: str | SlotSharingGroup, operator: str) -> str:
    """Return the name of a group, which may be given by its name; InvalidJob names ``operator``."""
    name: object = group.get_name() if isinstance(group, SlotSharingGroup) else group
    if isinstance(name, str) and name:
        return name
    raise InvalidJob(f"slot sharing group of {operator!r} is {group!r}: give a name or a group")
