"""The textbook's two-phase commit: what it prints, which phases are restored, and two lessons."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import two_phase_commit
from tests.scenarios.golden import meaning_of
from tests.scenarios.lessons import TEXTBOOK, examined_lesson, passes
from tests.scenarios.textbook_output import printed_as_on_flink

NAME = "textbook_two_phase_commit"
PROGRAM = TEXTBOOK / "two_phase_commit.py"
SEEDS = 60
BETWEEN_PHASES = {
    ("vote", "log"): "a participant has voted, and not yet said so",
    ("vote", "promised"): "a participant holds what it has promised",
    ("decide", "votes"): "a coordinator has one vote of two",
    ("decide", "log"): "a coordinator has decided, and not yet said so",
    ("book", "prepared"): "a participant has voted, and not heard the decision",
    ("outcomes", "heard"): "one participant has heard the decision, the other has not",
}


def test_five_seeds_have_their_golden_hashes() -> None:
    family = load_family(NAME)
    check_family(family)
    assert meaning_of(family) == "1:f66e9b03d516ebd2"


def test_a_sound_engine_commits_each_transfer_at_both_accounts_or_at_none() -> None:
    assert passes(NAME, 15)


def test_five_transfers_have_one_outcome_each(capsys: pytest.CaptureFixture[str]) -> None:
    two_phase_commit.main()
    assert printed_as_on_flink("two_phase_commit.py", capsys.readouterr().out) == [
        "(Alice,1,Bob,committed,300,300)",
        "(Alice,2,Mary,aborted,0,0)",
        "(Alice,3,Zoe,aborted,0,0)",
        "(Alice,4,Mary,committed,100,100)",
        "(Bob,5,Alice,committed,250,250)",
    ]


class RestoredPhases:
    """Collects the states, by operator, in which a restore finds entries; an observer of checkpoints."""

    def __init__(self) -> None:
        self.restored: set[tuple[str, str]] = set()
        self._held: dict[int, set[tuple[str, str]]] = {}

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        self.restored |= self._held.get(restored or 0, set())

    def checkpoint_completed(self, metadata: object, cut: object) -> None:
        pass

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        held = self._held.setdefault(effect.checkpoint_id, set())
        for snapshot in effect.snapshot.operators.values():
            tables = () if snapshot.keyed is None else snapshot.keyed.tables
            held.update((task.vertex.name, table.name) for table in tables if table.entries)


def test_jobs_are_restored_between_any_two_phases() -> None:
    family, found = load_family(NAME), Counter[tuple[str, str]]()
    for seed in range(SEEDS):
        # On the heap each table is in the snapshot as it is.
        world = World(family, msgspec.structs.replace(generate(family, seed), state_backend=msgspec.UNSET))
        world.recorder.observer = phases = RestoredPhases()
        world.run()
        found.update(phases.restored)
        if BETWEEN_PHASES.keys() <= found.keys():
            break
    assert [said for phase, said in BETWEEN_PHASES.items() if not found[phase]] == []


@pytest.mark.parametrize(
    ("lesson", "first", "lost"),
    [
        ("lesson", 49, "aborted, 0, 0) never became visible"),
        ("lesson_of_coordinators", 70, ") never became visible"),
    ],
    ids=("promises", "votes"),
)
def test_a_log_outside_the_state_is_found_and_explained(lesson: str, first: int, lost: str) -> None:
    examined = examined_lesson(f"{PROGRAM}:{lesson}", 100, first=first)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    assert lost in explanation_of(examined.trial).sentence
