"""Programs on systems of real processes, and what the client of Flink gets of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.commands.cli import main
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.flink import system as flink_system
from onceproof.harness.systems.flink.order import FlinkOrder
from onceproof.harness.systems.flink.run import MOST_OWN_FAILURES, FlinkRun
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.spark.system import SparkSystem
from tests.harness.systems.words import scenario_with

PROGRAM = """
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class InState(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order, ctx):
        self.total.update((self.total.value() or 0) + order[1])
        yield order[0], self.total.value()


class InDict(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = {}

    def process_element(self, order, ctx):
        self.totals[order[0]] = self.totals.get(order[0], 0) + order[1]
        yield order[0], self.totals[order[0]]


kinds = Types.ROW_NAMED(["customer", "amount"], [Types.STRING(), Types.INT()])
env = StreamExecutionEnvironment.get_execution_environment()
for function in (InState(), InDict()):
    orders = env.from_collection([Row("ada", 5), Row("bob", 3), Row("ada", 4)], kinds)
    orders.key_by(lambda order: order[0], Types.STRING()).process(function).print()
    env.execute(type(function).__name__)
"""


def program(folder: Path, job: str, text: str = PROGRAM) -> Family:
    (folder / "totals.py").write_text(text)
    return load_family(f"{folder / 'totals.py'}?job={job}&argument=--fast")


def killed(family: Family) -> Scenario:
    records = tuple((number, ("ada", 1)) for number in range(30))
    kill = Fault("kill_process", "completed", checkpoint=2)
    scenario = scenario_with(kill, family=family.name, records={"collection-source.0": records})
    return replace(scenario, source_parallelism=0, sink_parallelism=0)


def judged(family: Family, scenario: Scenario, history: History) -> Verdict:
    assert history.statistics.attempts == 2
    return judge(scenario, history, PythonOracle(family, scenario))


@pytest.mark.local_kill
@pytest.mark.parametrize(("job", "violated"), [("InState", set()), ("InDict", {"exactly_once"})])
def test_program_in_a_process_that_is_killed(tmp_path: Path, job: str, violated: set[str]) -> None:
    family = program(tmp_path, job)
    scenario = killed(family)
    verdict = judged(family, scenario, LocalSystem().run(family, scenario))
    assert {each.property for each in verdict.violations} == violated


@pytest.mark.spark
@pytest.mark.local_kill
def test_program_on_spark_whose_driver_is_killed(tmp_path: Path) -> None:
    family = program(tmp_path, "InState")
    scenario = killed(family)
    with closing(SparkSystem()) as system:
        verdict = judged(family, scenario, system.run(family, scenario))
    assert verdict.violations == ()


def test_client_of_flink_gets_the_ends_of_a_program(tmp_path: Path) -> None:
    family = program(tmp_path, "InState")
    made = FlinkOrder(family, killed(family), tmp_path).made(1, 1, 2, "hashmap", None)
    assert made["file"] == str(tmp_path / "totals.py")
    assert made["script"] == {
        "arguments": ["--fast"],
        "job": "InState",
        "single": False,
        "sources": [{"prefix": "collection-source.", "held_as": "row", "names": None}],
        "sinks": ["print-to-std-out"],
    }


def test_output_that_nothing_reads_is_refused_by_flink_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flink_system, "find_flink", lambda: None)
    program(tmp_path, "InState", PROGRAM.replace("process(function).print()", "process(function)"))
    path, out = str(tmp_path / "totals.py"), str(tmp_path / "out")
    assert main(["run", path, "--system", "flink", "--scenarios", "1", "-n", "1", "--out", out]) == 4
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"onceproof: {path}: nothing reads the output of 'keyedprocess', and rows leave Flink by sinks: end"
        " it with print()"
    )


def test_objects_that_pyflink_cannot_pass_are_one_line(tmp_path: Path) -> None:
    folders: dict[str, Any] = {name: tmp_path / name for name in ("output", "checkpoints", "kept", "stops")}
    for folder in folders.values():
        folder.mkdir()
    order: Any = SimpleNamespace(
        **folders,
        log=tmp_path / "log",
        row_of=lambda: tuple,
        sink_topic=lambda: None,
        family=SimpleNamespace(name="totals"),
    )
    run = FlinkRun(scenario_with(), (), order, SimpleNamespace())  # type: ignore[arg-type]
    said = "pemja.core.PythonException: <class '_pickle.PicklingError'>: Can't pickle <class '__main__.Seen'>"
    answers = {
        "/exceptions": {"exceptionHistory": {"entries": [{"stacktrace": said}]}},
        "/checkpoints": {"latest": {"failed": None}},
    }
    run._cluster = SimpleNamespace(request=lambda path, *_: answers[path.removeprefix("/jobs/")])  # type: ignore[assignment]
    run._history = SimpleNamespace(  # type: ignore[assignment]
        attempts_without_a_cause=MOST_OWN_FAILURES, look=lambda *seen: []
    )
    with pytest.raises(FamilyError, match=r"totals cannot run on Flink: .* no objects of Seen between"):
        run._look()
