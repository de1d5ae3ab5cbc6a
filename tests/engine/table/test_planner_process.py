"""The planner's process: one that hangs, ends or talks nonsense is broken, in a line."""

import sys

import pytest

from onceproof.engine.table.planner.planner_process import Planner, PlannerBroken, PlannerHome, PlanRequest

READY = """print('{"ready": true}', flush=True)"""
SILENT = "import time; time.sleep(100_000)"
SPOKEN = "import sys; print('the last words', file=sys.stderr)"


@pytest.fixture
def planner(tmp_path):
    """Give a function from the lines of a Python program to a planner that runs it."""
    made = []

    def planner_of(*lines, **arguments):
        script = tmp_path / "python"
        script.write_text("\n".join([f"#!{sys.executable}", *lines]))
        script.chmod(0o755)
        made.append(Planner(PlannerHome(str(script), "", ""), **arguments))
        return made[-1]

    yield planner_of
    for each in made:
        each.close()


@pytest.mark.parametrize("lines", [(SILENT,), (READY, SILENT)])
def test_planner_that_hangs_is_killed_at_the_deadline(planner, lines):
    # The second program may be killed before it is ready, which is the same to the caller.
    hanging = planner(*lines, answers_s=0.5)
    with pytest.raises(PlannerBroken, match=r"planner gave no answer within 0\.5 s$"):
        hanging.plan(PlanRequest(statement="SELECT 1"))


def test_planner_that_does_not_read_is_killed_at_the_deadline(planner):
    hanging = planner(READY, SILENT, answers_s=0.5)
    with pytest.raises(PlannerBroken, match="gave no answer within"):
        hanging.plan(PlanRequest(statement="x" * (1 << 20)))


def test_planner_that_ends_says_its_last_words(planner):
    with pytest.raises(PlannerBroken, match=r"planner ended: the last words$"):
        planner(SPOKEN).plan(PlanRequest(statement="SELECT 1"))


def test_planner_that_ends_when_it_is_asked_is_broken(planner):
    with pytest.raises(PlannerBroken, match=r"planner ended: the last words$"):
        planner(READY, SPOKEN).plan(PlanRequest(statement="x" * (1 << 20)))


def test_planner_that_answers_in_time_goes_on(planner):
    echo = "import sys\nfor line in sys.stdin: print('{\"value\": 1}', flush=True)"
    answering = planner(READY, echo)
    assert [answering.plan(PlanRequest(statement="SELECT 1")) for _ in range(2)] == [{"value": 1}] * 2
