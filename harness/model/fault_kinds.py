"""The names of which faults are made: kinds, means, points, servers, and what a fault strikes.

They stand in scenario files, and are never renamed: the generator derives the seed of a kind from its name.
What is known of a kind stands in its row (`faults.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

FaultKind: TypeAlias = Literal[
    "kill_task",
    "kill_all",
    "kill_process",
    "kill_master",
    "power_cut",
    "lose_message",
    "delay_message",
    "duplicate_message",
    "fail_write",
    "tear_write",
    "late_write",
    "fail_commit",
    "commit_error_after_success",
    "clock_ahead",
    "clock_back",
    "fail_read",
    "fail_delete",
    "late_read",
    "stale_list",
    "late_put",
    "kill_server",
    "pause_server",
    "cut_connection",
    "pause_process",
    "late_commit",
    "late_abort",
    "late_delete",
    "write_error_after_success",
    "short_list",
    "lose_row",
    "function_leaves",
    "change_input",
    "move_output",
    "pause_worker",
    "lose_folder",
    "fail_call",
    "fail_database",
    "own_fault",
]
Means: TypeAlias = Literal[
    "",
    "executor",
    "java",
    "zombie",
    "shuffle",
    "slow",
    "full",
    "read_only",
    "answer",
    "interrupt",
    "cancelled",
    "generator_exit",
    "stop_iteration",
    "fork",
    "chdir",
    "replaced",
    "recreated",
    "expired",
    "no_answer",
    "disconnected",
    "unavailable",
    "throttled",
    "conflict",
]
"""How a fault is brought about in real processes; the empty one is the plain way of its kind."""
ClientAnswer: TypeAlias = Literal["no_answer", "disconnected", "unavailable", "throttled", "conflict"]
ServerName: TypeAlias = Literal["", "postgres", "kafka", "s3"]
"""A server that can be at an end of a job, as `onceproof services` calls it; the empty name is none."""
Point: TypeAlias = Literal[
    "triggered",
    "barrier_received",
    "aligned",
    "pre_committed",
    "snapshotted",
    "uploaded",
    "acknowledged",
    "metadata_written",
    "completed",
    "notified",
    "committing",
    "committed",
    "aborted",
    "restoring",
    "restored",
    "element",
    "end_of_data",
    "declined",
    "abort_notified",
    "mark",
]
Target: TypeAlias = Literal[
    "tasks",
    "process",
    "master",
    "message",
    "write",
    "commit",
    "abort",
    "clock",
    "read",
    "deletion",
    "server",
    "pause",
    "listing",
    "row",
    "function",
    "input",
    "output",
    "worker",
    "folder",
    "call",
    "database",
    "own",
]
"""What a fault strikes. The first three are kills: what dies of them belongs to the job."""
Victims: TypeAlias = Literal["none", "passing", "all"]
"""Which tasks a kill of tasks hits: the one that passes the point, or all of them (`systems/victims.py`)."""
Delay: TypeAlias = Literal["none", "optional", "required"]

CLIENT_ANSWERS: Final[tuple[ClientAnswer, ...]] = get_args(ClientAnswer)
"""The means by which commits and aborts fail as the client of an end reports it; see client_errors.py."""
TOPIC_CHANGES: Final[tuple[Means, ...]] = ("recreated", "expired")
"""The means by which the input of a job that reads a topic of Kafka changes; the others change files."""
FAULT_KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
MESSAGES_ALONE: Final[tuple[Point, ...]] = ("declined", "abort_notified")
"""Messages without a protocol point: a task declines a checkpoint, or hears that one was aborted."""
MARK: Final[Point] = "mark"
"""Passed by programs alone: what their file, or the harness, gives a name that a fault holds besides."""
POINTS: Final[tuple[Point, ...]] = tuple(
    point for point in get_args(Point) if point not in (*MESSAGES_ALONE, MARK)
)
"""The protocol points, which tasks and the job master pass."""
SERVERS: Final[tuple[ServerName, ...]] = tuple(name for name in get_args(ServerName) if name)

COORDINATOR_POINTS: Final[frozenset[Point]] = frozenset({"triggered", "metadata_written", "completed"})
"""Points that the job master passes. Subtasks pass all the others."""
TASK_POINTS: Final[tuple[Point, ...]] = tuple(point for point in POINTS if point not in COORDINATOR_POINTS)

MEANS_POINTS: Final[Mapping[Means, tuple[Point, ...]]] = {
    # The task has read what was sent to it, and no other task has. Sources are sent nothing.
    "shuffle": ("barrier_received", "pre_committed"),
    # Later the stopped task has nothing left to write; before it begins, no other task can take its place.
    "zombie": ("barrier_received", "aligned", "pre_committed", "snapshotted", "uploaded", "element"),
}
"""The points at which a means makes sense; one that is not listed makes sense at all points of its kind."""
