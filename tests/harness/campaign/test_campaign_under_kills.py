"""A campaign during which a worker, an executor and the driver are killed, with a family that aborts.

By hand with many scenarios: CAMPAIGN_SCENARIOS=20000 pytest -q -s -n 0 THIS_FILE
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from onceproof.harness.model.exit_codes import FAILED
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run

WORD_COUNT = Path(__file__).parents[3] / "scenarios" / "word_count.py"
FIRST_LINE = "    chance = Chance(random)\n"
ABORTS = f"{FIRST_LINE}    if chance.integer(1, 30) == 1:\n        import os\n        os.abort()\n"
SCENARIOS = int(os.environ.get("CAMPAIGN_SCENARIOS", "120"))
MOST_SECONDS = 1_200 + SCENARIOS
"""Bounds a test that hangs; no mark of it decides anything."""


def started(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    with log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def wait_for(what: Callable[[], object], driver: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until something holds while the driver runs."""
    until = time.monotonic() + MOST_SECONDS
    while not what():
        assert driver.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.05)


def below(driver: subprocess.Popen[bytes], mark: str) -> list[psutil.Process]:
    """Return the processes below the driver whose command line has a mark."""
    found = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        try:
            if mark in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill_one(driver: subprocess.Popen[bytes], mark: str, folder: Path) -> None:
    wait_for(lambda: below(driver, mark), driver, folder)
    below(driver, mark)[-1].send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.spark
def test_a_campaign_under_kills_has_every_scenario_and_names_the_culprit(tmp_path: Path) -> None:
    text = WORD_COUNT.read_text(encoding="utf-8").replace('name = "word_count"', 'name = "aborting"')
    (tmp_path / "aborting.py").write_text(text.replace(FIRST_LINE, ABORTS), encoding="utf-8")
    command = [sys.executable, "-m", "onceproof", "campaign", "./aborting.py", "--seed", "4"]
    command += ["--scenarios", str(SCENARIOS), "--out", "out", "--master", "local-cluster[2,1,1024]"]
    trials = tmp_path / "out" / "trials" / "parts"

    def files(count: int) -> bool:
        return len(list(trials.glob("part-*"))) >= count

    driver = started(command, tmp_path)
    # A process of scenarios, a worker of Spark and an executor die, and the campaign goes on.
    for number, mark in enumerate(("scenario_worker", "pyspark.daemon", "CoarseGrainedExecutorBackend"), 1):
        wait_for(lambda number=number: files(number), driver, tmp_path)
        kill_one(driver, mark, tmp_path)
    wait_for(lambda: files(5), driver, tmp_path)
    kept = len(list(trials.glob("part-*")))
    driver.kill()
    driver.wait()

    again = subprocess.run(command, cwd=tmp_path, timeout=MOST_SECONDS, check=False, capture_output=True)
    assert again.returncode == FAILED, again.stderr.decode()
    [resumed] = re.findall(r"resumed: ([\d,]+) scenarios had ended before", again.stderr.decode())
    assert int(resumed.replace(",", "")) >= kept
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    lines = (tmp_path / "out" / "outcomes.jsonl").read_bytes().splitlines()
    assert (len(lines), report["facts"]["scenarios"]) == (SCENARIOS, SCENARIOS)
    plain = run(RunPlan((str(tmp_path / "aborting.py"),), scenarios=SCENARIOS, seed=4, workers=2))
    assert report["facts"]["trace_hash"] == plain.tally.trace_hash()
    [failure] = report["failures"]
    assert (failure["property"], failure["anomaly"]) == ("no_error", "its process died: SIGABRT")
    assert failure["scenarios"] == plain.tally.failed > 0
    # Python alone judges what is at least once, and a process that died has nothing to be judged.
    assert SCENARIOS / 2 < report["oracles"]["scenarios"] <= SCENARIOS - plain.tally.failed
    assert failure["replay"].startswith("onceproof replay out/failures/aborting-")
