"""Situations: each is recognised in the shortest run that is in it, and not one event before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from onceproof.engine.checkpoint import failure_counter
from onceproof.harness.checkers import situations
from onceproof.harness.checkers.situations import NAMES, SITUATIONS, situations_of
from onceproof.harness.model.family_places import family_names
from onceproof.harness.model.history import History
from tests.harness.conftest import Run


class Story:
    """Writes a history: attempts of one process, or of the next one after ``dies``."""

    def __init__(self) -> None:
        self.history = History()
        self._process, self._number, self.parallelism = 1, 0, 2

    def starts(self, restored: int | None = None, parallelism: int = 0) -> Story:
        self._number += 1
        self.parallelism = parallelism or self.parallelism
        self.history.attempt_started(0, self.attempt, self.parallelism, restored)
        return self

    @property
    def attempt(self) -> str:
        return f"{self._process}.{self._number}"

    def triggers(self, checkpoint: int) -> Story:
        self.history.checkpoint_triggered(0, checkpoint)
        return self

    def completes(self, checkpoint: int, transactions: tuple[str, ...] = (), **more: Any) -> Story:
        self.history.checkpoint_completed(0, checkpoint, self.attempt, {}, transactions, **more)
        return self

    def aborts(self, checkpoint: int, reason: str) -> Story:
        self.history.checkpoint_aborted(0, checkpoint, reason)
        return self

    def commits(self, *transactions: str) -> Story:
        for each in transactions:
            self.history.transaction_visible(0, each, 0, self.attempt, 1, [])
        return self

    def strikes(self, kind: str, point: str = "element") -> Story:
        self.history.fault_fired(0, kind, point, "count-0")
        return self

    def dies(self, point: str = "element") -> Story:
        """Let the process die; the next attempt is of another one."""
        self._process, self._number = self._process + 1, 0
        return self.strikes("kill_process", point)

    def says(self, what: str, *arguments: Any, **named: Any) -> Story:
        """Record another event of the history."""
        getattr(self.history, what)(0, *arguments, **named)
        return self


def chain(attempts: int) -> Story:
    """Return a job each of whose attempts completes one checkpoint."""
    story = Story().starts()
    for checkpoint in range(1, attempts + 1):
        story.completes(checkpoint).strikes("kill_all").starts(checkpoint)
    return story


def many(count: int, of: str) -> Story:
    story = Story()
    for number in range(1, count + 1):
        if of == "checkpoints":
            story.completes(number)
        elif of == "attempts":
            story.starts()
        else:
            story.starts().dies()
    return story if of != "processes" else story.starts()


def in_flight(times: int, parallelism: int = 2) -> Story:
    story = Story().starts()
    for number in range(1, times + 1):
        story.completes(number, in_flight=3).starts(number, parallelism)
    return story


STORIES: Final[dict[str, Callable[[], Story]]] = {
    "restored": lambda: Story().starts().completes(1).starts(1),
    "restored from two checkpoints": lambda: chain(2),
    "restored from three checkpoints": lambda: chain(3),
    "same checkpoint restored again": lambda: Story().starts().completes(1).starts(1).starts(1),
    "restored from nothing": lambda: Story().starts().starts(),
    "killed while restoring": lambda: (
        Story().starts().completes(1).starts(1).strikes("kill_all", "restoring")
    ),
    "killed at completion, then while restoring": lambda: (
        Story()
        .starts()
        .completes(1)
        .strikes("kill_all", "completed")
        .starts(1)
        .strikes("kill_task", "restored")
    ),
    "killed before its first checkpoint": lambda: Story().starts().completes(1).starts(1).starts(1),
    "three attempts without progress": lambda: many(4, "attempts"),
    "one checkpoint for each attempt": lambda: chain(3),
    "rescaled down": lambda: Story().starts().starts(parallelism=1),
    "rescaled up": lambda: Story().starts().starts(parallelism=3),
    "rescaled twice": lambda: Story().starts().starts(parallelism=3).starts(parallelism=1),
    "key groups came back": lambda: Story().starts().completes(1).starts(1, 1).completes(2).starts(2, 2),
    "restored with something prepared": lambda: Story().starts().completes(1, ("a",)).starts(1),
    "restored when some was committed": lambda: (
        Story().starts().completes(1, ("a", "b")).commits("b").starts(1)
    ),
    "commit failed": lambda: Story().starts().completes(1, ("a",)).says("commit_failed", "a"),
    "commit failed at a restore": lambda: (
        Story().starts().completes(1, ("a",)).starts(1).says("commit_failed", "a")
    ),
    "notification lost, then restored": lambda: (
        Story().starts().completes(1).strikes("lose_message", "notified").starts(1)
    ),
    "records in flight restored": lambda: in_flight(1),
    "records in flight restored twice": lambda: in_flight(2),
    "records in flight rescaled": lambda: in_flight(1, 3),
    "ended subtasks restored": lambda: Story().starts().completes(1, ended=1).starts(1),
    "ended subtasks rescaled": lambda: Story().starts().completes(1, ended=1).starts(1, 1),
    "killed behind the end of the data": lambda: Story().starts().strikes("kill_all", "end_of_data"),
    "expired, then completed": lambda: Story().starts().aborts(1, situations.EXPIRED).completes(2),
    "declined, then completed": lambda: (
        Story().starts().says("checkpoint_declined", "count-0", 1).completes(2)
    ),
    "write refused, then completed": lambda: (
        Story().starts().says("write_refused", "count-0", 1).completes(2)
    ),
    "two checkpoints at a time": lambda: Story().starts().triggers(1).triggers(2),
    "checkpoint subsumed": lambda: Story().starts().aborts(1, situations.SUBSUMED),
    "id of a checkpoint used again": lambda: Story().starts().triggers(1).starts().triggers(1),
    "found complete by the next process": lambda: Story().starts().triggers(1).dies().completes(1),
    "more than nine checkpoints": lambda: many(10, "checkpoints"),
    "more than nine attempts": lambda: many(10, "attempts"),
    "more than nine processes": lambda: many(9, "processes"),
    "job master lost": lambda: Story().starts().strikes("kill_master"),
    "power cut, then restored": lambda: Story().starts().completes(1).strikes("power_cut").starts(1),
    "clock set back between checkpoints": lambda: (
        Story().starts().completes(1).strikes("clock_back").completes(2)
    ),
    "late put": lambda: Story().starts().strikes("late_put", "snapshotted"),
    "deletion failed, then another process": lambda: (
        Story().starts().strikes("fail_delete", "completed").dies().starts()
    ),
    "upload discarded, then completed": lambda: (
        Story().starts().strikes("write_error_after_success", "snapshotted").completes(2)
    ),
    "savepoint between checkpoints": lambda: (
        Story().starts().completes(1).says("savepoint_completed", 2, "1.1").completes(3)
    ),
    "restored behind a savepoint": lambda: (
        Story().starts().completes(1).says("savepoint_completed", 2, "1.1").starts(1)
    ),
    "stopped and started again": lambda: (
        Story().starts().completes(1, stops=True).says("job_stopped").starts(1)
    ),
    "stopped and rescaled": lambda: (
        Story().starts().completes(1, stops=True).says("job_stopped").starts(1, 1)
    ),
    "rescaled while it runs": lambda: Story().starts().says("job_rescaled", 3),
    "rescaled while transactions are open": lambda: Story().starts().says("job_rescaled", 3, 1),
    "stop failed": lambda: Story().starts().says("stop_failed", "a task failed"),
    "cancelled with a savepoint": lambda: Story().starts().completes(1).says("job_stopped", cancelled=True),
    "stopped with something prepared": lambda: Story().starts().completes(1, ("a",)).completes(2, stops=True),
    "function left": lambda: Story().starts().strikes("function_leaves"),
    "restored from a changed input": lambda: (
        Story().starts().completes(1).strikes("change_input", "completed").starts(1)
    ),
    "changed input reported": lambda: (
        Story().starts().completes(1).strikes("change_input", "completed").says("job_failed", "a file")
    ),
    "visible output taken away before a restore": lambda: (
        Story().starts().completes(1).strikes("move_output", "committed").starts(1)
    ),
    "failed for good, then submitted again": lambda: (
        Story().starts().says("job_failed", "no restart left").dies().starts()
    ),
    "killed while stopping": lambda: Story().starts().completes(1, stops=True).starts(1),
}
BY_STATISTICS: Final = {
    "record late after a restore",
    "incremental checkpoint restored",
    "parallelism limit left to the checkpoint",
}


def seen(story: Story, run: Run, **changes: Any) -> tuple[str, ...]:
    return situations_of(msgspec.structs.replace(run.scenario, **changes), story.history)


def test_every_situation_has_a_story_a_purpose_and_a_family() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 30
    assert set(NAMES) == {*STORIES, *BY_STATISTICS}
    for situation in SITUATIONS:
        assert situation.purpose
        assert situation.family in family_names()


@pytest.mark.parametrize("name", STORIES)
def test_situation_is_recognised_with_its_last_event(name: str, sound_run: Run) -> None:
    story = STORIES[name]()
    assert name in seen(story, sound_run)
    story.history.events.pop()
    assert name not in seen(story, sound_run)


def test_undisturbed_run_is_in_no_situation(sound_run: Run) -> None:
    story = Story().starts().triggers(1).completes(1, ("a",)).commits("a").triggers(2).completes(2)
    assert seen(story, sound_run) == ()


def test_key_groups_that_come_back_without_progress_in_between_are_as_they_were(sound_run: Run) -> None:
    story = Story().starts().completes(1).starts(1, 1).starts(1, 2)
    assert "rescaled twice" in seen(story, sound_run)
    assert "key groups came back" not in seen(story, sound_run)


def test_attempt_that_its_user_ends_by_a_rescale_has_not_failed(sound_run: Run) -> None:
    found = seen(Story().starts().completes(1).starts(1).says("job_rescaled", 1).starts(1, 1), sound_run)
    assert "rescaled down" in found
    assert "killed before its first checkpoint" not in found


def test_late_record_counts_only_in_a_restored_attempt(sound_run: Run) -> None:
    story = Story().starts()
    assert "record late after a restore" not in seen(story, sound_run)
    story.history.statistics.late_after_restore = 1
    assert "record late after a restore" in seen(story, sound_run)


def test_restore_of_an_incremental_checkpoint_is_one_of_a_database(sound_run: Run) -> None:
    story = Story().starts().completes(1).starts(1)
    assert "incremental checkpoint restored" not in seen(story, sound_run)
    changes = {"state_backend": "rocksdb", "incremental": True}
    assert "incremental checkpoint restored" in seen(story, sound_run, **changes)
    assert "incremental checkpoint restored" not in seen(Story().starts(), sound_run, **changes)


def test_limit_is_left_to_the_checkpoint_by_another_process_that_restores(sound_run: Run) -> None:
    name, changes = "parallelism limit left to the checkpoint", {"leaves_max_parallelism": True}
    restored = Story().starts().completes(1).dies().starts(1)
    assert name in seen(restored, sound_run, **changes)
    assert name not in seen(restored, sound_run)
    assert name not in seen(Story().starts().completes(1).starts(1), sound_run, **changes)
    assert name not in seen(Story().starts().dies().starts(), sound_run, **changes)


def test_reasons_of_the_coordinator_are_those_of_the_engine() -> None:
    assert failure_counter.EXPIRED == situations.EXPIRED
    assert failure_counter.SUBSUMED == situations.SUBSUMED
