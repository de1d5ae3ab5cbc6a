"""Sinks that a script defines itself run for real, in a folder of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault
from onceproof.harness.scripts.outside import Outside
from onceproof.harness.trials.trial import scenario_of, try_scenario

SCENARIOS = 30
FEW = 6
PROGRAM = """
import os, shutil, sqlite3, tempfile
from pathlib import Path
from os import rename
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import SinkFunction, TwoPhaseCommitSinkFunction

SHARED = []

class Own(BASE):
BODY

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([5, 3, 8, 1, 9, 2, 7]).add_sink(Own()).name("own")
env.execute()
"""
IN_MEMORY = """
    def begin_transaction(self):
        return []

    def invoke_transaction(self, transaction, value, context):
        transaction.append(value)

    def pre_commit(self, transaction):
        pass

    def abort(self, transaction):
        pass
"""


def loaded(tmp_path: Path, body: str, base: str = "SinkFunction") -> Family:
    path = tmp_path / "job.py"
    path.write_text(PROGRAM.replace("BASE", base).replace("BODY", body), encoding="utf-8")
    return load_family(str(path))


def notes_of(family: Family) -> str:
    return "\n".join(family.notes())  # type: ignore[attr-defined]


def anomalies(family: Family, scenarios: int = SCENARIOS) -> Iterator[tuple[str, str, str]]:
    """Yield how scenarios fail, with the place in the first row."""
    for seed in range(scenarios):
        violations = try_scenario(family, scenario_of(family, seed), twice=False).verdict.violations
        for each in violations[:1]:
            rows = each.witness.get("rows", [{"row": [""]}])
            yield each.property, each.anomaly, rows[0]["row"][0]


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("import socket", "socket"),
        ("import numpy", "numpy"),
        ("from urllib.request import urlopen", "urllib"),
    ],
)
def test_sink_that_may_reach_a_server_is_not_run(tmp_path: Path, statement: str, module: str) -> None:
    body = f"    def invoke(self, value, context):\n        {statement}\n        raise ValueError('runs')\n"
    assert f"not the sink itself: it may reach more than files with '{module}'" in notes_of(
        loaded(tmp_path, body)
    )


def test_sink_that_fails_by_itself_is_replaced_and_named(tmp_path: Path) -> None:
    family = loaded(
        tmp_path, "    def invoke(self, value, context):\n        raise OSError('no such disk')\n"
    )
    assert "not the sink itself: it fails here without a fault" in notes_of(family)
    assert "no such disk" in notes_of(family)
    assert not list(anomalies(family, FEW))


def test_rows_held_back_behind_the_last_checkpoint_are_refused(tmp_path: Path) -> None:
    body = (
        IN_MEMORY
        + """
    waiting = None

    def invoke(self, value, context):
        self.waiting = [*(self.waiting or []), value]
        if len(self.waiting) == 3:
            self.flush()

    def flush(self):
        for value in self.waiting or []:
            if self.current_transaction() is not None:
                super().invoke(value, None)
        self.waiting = []

    def commit(self, transaction):
        with open("/tmp/own.txt", "a") as file:
            file.writelines(f"{value}\\n" for value in transaction)

    def close(self):
        self.flush()
        super().close()
"""
    )
    with pytest.raises(FamilyError, match=r"sink 'own' loses rows without any fault: of 1 .* and of 3 all"):
        loaded(tmp_path, body, "TwoPhaseCommitSinkFunction")


def test_buffer_in_a_global_dies_with_its_process(tmp_path: Path) -> None:
    body = """
    def invoke(self, value, context):
        SHARED.append(value)
        if len(SHARED) >= 5:
            self.flush()

    def flush(self):
        print(*SHARED, sep="\\n")
        SHARED.clear()

    def finish(self):
        if SHARED:
            self.flush()
"""
    assert ("exactly_once", "lost", "written to the output of print") in anomalies(loaded(tmp_path, body))


def test_container_that_stands_for_a_server_shows_a_second_commit(tmp_path: Path) -> None:
    body = f"{IN_MEMORY}\n    def commit(self, transaction):\n        SHARED.extend(transaction)\n"
    family = loaded(tmp_path, body, "TwoPhaseCommitSinkFunction")
    assert ("exactly_once", "duplicated", "written to SHARED") in anomalies(family)


def test_files_of_sinks_are_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = """
    def open(self, runtime_context):
        os.makedirs("parts", exist_ok=True)
        handle, self.path = tempfile.mkstemp(dir="parts")
        os.close(handle)

    def invoke(self, value, context):
        with open(self.path, "w") as file:
            file.write("no row\\n")
        shutil.copy(self.path, "parts/copy")
        rename("parts/copy", "parts/renamed")
        Path("parts/renamed").replace(Path("parts") / "moved")
        with sqlite3.connect(tmp / "own.db") as database:
            database.execute("CREATE TABLE IF NOT EXISTS own (value)")
            database.execute("INSERT INTO own VALUES (?)", (value,))
        database.close()
        assert sorted(os.listdir("parts"))[0] == "moved" and Path("own.db").exists()
        assert not Path("parts/copy").exists()
""".replace("tmp /", f"Path({str(tmp_path)!r}) /")
    family = loaded(tmp_path, body)
    assert "written to own.db, table own" in notes_of(family)
    assert not list(anomalies(family, FEW))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.py"]


def test_what_a_dead_process_has_not_flushed_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = Outside()
    outside.begin("1")
    with outside.entered("own"):
        first = open("rows.txt", "a")  # noqa: SIM115
        first.write("lost\n")
    outside.begin("2")
    with outside.entered("own"):
        second = open("rows.txt", "a")  # noqa: SIM115
        second.write("kept\n")
    assert [each.row for each in outside.written()] == [("written to rows.txt", "kept")]
    twin = outside.copy()
    outside.close()
    assert [each.row for each in twin.written()] == [("written to rows.txt", "kept")]


def test_sink_of_a_module_beside_the_script_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "ends_beside.py").write_text(
        """
import sys

from pyflink.datastream.functions import SinkFunction

TABLE = {}


class Beside(SinkFunction):
    def invoke(self, value, context):
        TABLE[value] = True
        sys.stdout.write(f"{value}\\n")
""",
        encoding="utf-8",
    )
    (tmp_path / "job.py").write_text(
        """
from ends_beside import Beside
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([5, 3, 8]).add_sink(Beside()).name("own")
env.execute()
""",
        encoding="utf-8",
    )
    family = load_family(str(tmp_path / "job.py"))
    assert "is judged by what is written to TABLE, written to the output of print" in notes_of(family)
    assert not list(anomalies(family, FEW))


TO_A_FILE = """
    def invoke(self, value, context):
        for _ in range(TRIES):
            try:
                with open("rows.txt", "a") as file:
                    file.write(f"{value}\\n")
                break
            except OSError:
                pass
        else:
            raise RuntimeError("the disk is away")
"""


def test_sink_that_tries_a_failed_call_again_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    family = loaded(tmp_path, TO_A_FILE.replace("TRIES", "4"))
    failed = 0
    for seed in range(SCENARIOS):
        trial = try_scenario(family, scenario_of(family, seed), twice=False)
        assert trial.verdict.passed, (seed, trial.verdict.violations)
        failed += trial.history.statistics.coverage.get(("fail_call", "element"), 0)
    assert failed


def test_sink_that_swallows_the_error_of_a_call_loses_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    family = loaded(tmp_path, TO_A_FILE.replace("TRIES", "1").replace("raise RuntimeError", "print"))
    found = next(anomalies(family), None)
    assert found == ("exactly_once", "lost", "written to rows.txt")


def test_read_of_a_source_that_is_answered_with_an_error_is_repeated() -> None:
    family = load_family(str(Path(__file__).with_name("sound") / "whole_fetches.py"))
    struck = Fault("fail_call", "element", occurrence=2)
    for fault in (struck, msgspec.structs.replace(struck, means="answer")):
        scenario = msgspec.structs.replace(scenario_of(family, 1), faults=(fault,))
        trial = try_scenario(family, scenario, twice=False)
        assert trial.verdict.passed, trial.verdict.violations
        assert trial.history.statistics.coverage["fail_call", "element"] == 1
