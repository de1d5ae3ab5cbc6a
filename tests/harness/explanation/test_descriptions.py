"""Faults, scenarios and commands in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.harness.explanation.descriptions import (
    explain_command,
    fault_text,
    operation_text,
    ordinal,
    reason_text,
    replay_command,
    scenario_text,
)
from onceproof.harness.model.scenario import Fault, Operation, Scenario


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("kill_task", "committing", "count-1", 1), "kill count-1 at committing, checkpoint 1"),
        (Fault("kill_task", "element", occurrence=12), "kill a task at element, 12th time"),
        (
            Fault("kill_all", "completed", "*", 2, 1, 3, 0, 4),
            "kill all tasks at completed, checkpoint 2, 3 steps later, then run with parallelism 4",
        ),
        (Fault("kill_process", "uploaded", "sink-0"), "kill the process at uploaded of sink-0"),
        (
            Fault("delay_message", "acknowledged", delay=1),
            "delay the message at acknowledged, by 1 step",
        ),
        (Fault("fail_commit", "committing", "sink-0"), "fail the commit at committing of sink-0"),
        (
            Fault("commit_error_after_success", "committing", occurrence=2),
            "answer a commit that took place with an error at committing, 2nd time",
        ),
        (
            Fault("kill_server", "committed", "sink-0", delay=7, server="postgres"),
            "kill postgres at committed of sink-0, for 7 ms",
        ),
        (
            Fault("cut_connection", "committing", server="kafka"),
            "cut a connection to kafka at committing",
        ),
    ],
)
def test_a_fault_in_words(fault: Fault, text: str) -> None:
    assert fault_text(fault) == text


def test_ordinals() -> None:
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 101, 111)
    assert " ".join(map(ordinal, numbers)) == "1st 2nd 3rd 4th 11th 12th 13th 21st 101st 111th"


def test_a_scenario_in_words(make_scenario: Callable[..., Scenario]) -> None:
    text = scenario_text(make_scenario(seed=7, faults=(Fault("kill_all", "element"),)))
    assert text == "seed 7 of word_count: 6 records in 1 split, parallelism 2, 1 fault, fair schedule"


def test_commands_can_be_copied_into_a_shell() -> None:
    assert replay_command(7, "word_count") == "onceproof replay 7 --family word_count"
    # A scenario's file names its family; the path of a family's own file must be given.
    assert replay_command(Path("out/a.json"), "word_count") == "onceproof replay out/a.json"
    command = replay_command(Path("my out/a.json"), "./my family.py")
    assert shlex.split(command) == ["onceproof", "replay", "my out/a.json", "--family", "./my family.py"]
    assert explain_command(Path("a.json"), "word_count") == "onceproof explain a.json"


def test_the_reason_of_an_aborted_checkpoint_in_words() -> None:
    assert reason_text("JOB_FAILOVER_REGION") == "the job restarts"
    assert reason_text("A task finished before it answered") == "a task finished before it answered"
    assert reason_text("DISK_FULL") == "DISK_FULL"


def test_a_rescale_of_the_running_job_in_words() -> None:
    rescale = Operation("rescale", "element", "sink-0", occurrence=2, after=1, parallelism=3)
    said = "rescale the running job at element of sink-0, 2nd time, 1 step later, then run with parallelism 3"
    assert operation_text(rescale) == said
