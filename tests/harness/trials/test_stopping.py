"""What stops a scenario in its own process, and what it leaves alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.stopping import Stopped, seconds_for_each, stopped_in_time
from onceproof.harness.testing.proof import prove
from onceproof.harness.trials.trial import scenario_of, try_scenario


def slow(forgetful: Path, deed: str) -> Path:
    """Return a family whose process function does something before it answers."""
    text = forgetful.read_text(encoding="utf-8")
    head = next(line for line in text.splitlines() if "def process_element" in line)
    path = forgetful.with_name("slow.py")
    path.write_text(text.replace(head, f"{head}\n        {deed}"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("deed", "anomaly"),
    [
        ("while True: pass", "time exceeded: it computes without an end"),
        (
            "__import__('time').sleep(9**9)",
            "time exceeded: it waits",
        ),
        ("__import__('os')._exit(3)", "calls os._exit(3)"),
    ],
)
def test_a_test_of_pytest_names_operator_and_line_that_do_not_return(
    forgetful: Path, tmp_path: Path, deed: str, anomaly: str
) -> None:
    path = slow(forgetful, deed)
    family = load_family(str(path))
    with seconds_for_each(1.0):
        [failure] = prove(family, SimulatedSystem(), 0, range(3), tmp_path).failures
    assert failure.signature[1].startswith(anomaly)
    line = 1 + path.read_text(encoding="utf-8").splitlines().index(f"        {deed}")
    assert "in operator 'total' of total-" in failure.explanation.sentence
    assert f"in process_element ({path}:{line})" in failure.explanation.sentence
    # Shrinking would wait for each of its runs.
    assert failure.shrunk.runs == 0


def test_a_scenario_after_a_stopped_one_is_what_it_was(sales: Path, forgetful: Path) -> None:
    sound, stuck = load_family(str(sales)), load_family(str(slow(forgetful, "while True: pass")))
    scenario = scenario_of(sound, 7)
    before = try_scenario(sound, scenario).history.trace_hash
    with seconds_for_each(0.2):
        assert not try_scenario(stuck, scenario_of(stuck, 7)).verdict.passed
    assert try_scenario(sound, scenario).history.trace_hash == before
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_timer_that_is_set_already_is_left_alone() -> None:
    rang = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda number, frame: rang.set())
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with seconds_for_each(0.1), stopped_in_time():
            while not rang.is_set():
                time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_scenario_that_waits_in_a_debugger_is_not_stopped() -> None:
    waited: list[None] = []
    # Code of a module with the name of a debugger. It waits longer than a scenario may: ten ticks.
    debugger: dict[str, Any] = {"__name__": "pdb"}
    exec("def interaction(wait):\n    for _ in range(10):\n        wait(0.05)", debugger)
    with seconds_for_each(0.2), stopped_in_time():
        debugger["interaction"](lambda seconds: waited.append(time.sleep(seconds)))
    assert len(waited) == 10


def test_the_exit_of_a_forked_child_and_of_a_thread_are_real() -> None:
    with stopped_in_time():
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(Stopped, match=r"calls os\._exit"):
            os._exit(0)
    assert type(os._exit) is type(os.fork)
