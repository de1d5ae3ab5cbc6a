"""The options that the job of a family sets: each counts in every check, or is refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.configuration import OPTIONS
from onceproof.engine.graph import JobGraph
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.job_configuration import DRAWN, HONOURED, OF_THE_PROCESS, REFUSED
from onceproof.harness.systems.process.file_io import CommitFault
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.checkpoint_trials import check_continuations
from onceproof.harness.trials.trial import run_scenario, scenario_of
from tests.engine.option_samples import SAMPLES, others_for

FAMILY = """
from onceproof import Chance, Workload
from onceproof.engine import Configuration, KeyedProcessFunction, Types, ValueStateDescriptor

name = "sums"
generator_version = 1
tasks = {"words -> same": "source", "sums": "keyed", "out": "sink"}
record_schema = "word STRING, n BIGINT"
row_schema = "word STRING, n BIGINT"
oracle_sql = (
    "SELECT scenario_id, word, sum(n) OVER (PARTITION BY scenario_id, word ORDER BY offset) AS n FROM records"
)


def generate(random):
    chance = Chance(random)
    return Workload({"w": [(i, ("a", chance.integer(1, 9))) for i in range(chance.integer(0, 9))]})


class Opaque:
    def __init__(self, total):
        self.total = total


class Sum(KeyedProcessFunction):
    def open(self, context):
        self.sum = context.get_state(ValueStateDescriptor("sum", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, record, ctx):
        total = (self.sum.value() or Opaque(0)).total + record[1]
        self.sum.update(Opaque(total))
        yield record[0], total


def job(env, io):
    env.configure(Configuration.from_mapping(OPTIONS))
    words = env.from_source(io.source("words"), None, "words").uid("words")
    words.set_parallelism(io.source_parallelism)
    same = words.map(lambda record: record).name("same").uid("same").set_parallelism(io.source_parallelism)
    sums = same.key_by(lambda r: r[0], Types.STRING()).process(Sum()).name("sums").uid("sums")
    sums.set_parallelism(io.parallelism)
    sums.key_by(lambda r: r[0]).add_sink(io.sink("out")).name("out").uid("out").set_parallelism(
        io.sink_parallelism
    )


def expected(records, declared):
    rows, total = [], 0
    for _, (word, n) in records["w"]:
        total += n
        rows.append((word, total))
    return rows
"""
SEED = 3


def family_with(folder: Path, options: dict[str, Any]) -> Family:
    """Return the family whose job sets these options."""
    path = folder / "sums.py"
    path.write_text(FAMILY.replace("OPTIONS", repr(options)))
    return load_family(str(path))


def graph_in(system: str, family: Family, folder: Path) -> JobGraph:
    """Return the graph that a system builds of the family's job."""
    scenario = replace(scenario_of(family, SEED), endless=UNSET)
    if system == "simulation":
        return World(family, scenario).job.build_graph()
    records, events = folder / "records", str(folder / "events")
    records.write_text("{}")
    spec = Spec(
        family=str(folder / "sums.py"),
        job_name="sums",
        checkpoints=str(folder / "checkpoints"),
        output=str(folder / "output"),
        events=events,
        records=str(records),
    )
    return Assembly(spec, EventLog(events), CommitFault).graph(2)


def seen(graph: JobGraph) -> object:
    """Return what a system sees of the options: everything but functions, which differ from load to load."""
    made = [[type(node.create) for node in vertex.operators] for vertex in graph.vertices]
    vertices = [replace(vertex, operators=(), inputs=(), outputs=()) for vertex in graph.vertices]
    return made, replace(graph, vertices=tuple(vertices))


@pytest.mark.parametrize("system", ["simulation", "process"])
@pytest.mark.parametrize("key", SAMPLES)
def test_option_of_a_job_counts_or_is_refused_with_the_reason(key: str, system: str, tmp_path: Path) -> None:
    if key == "execution.checkpointing.checkpoints-after-tasks-finish":
        options = {key: True}
        assert seen(graph_in(system, family_with(tmp_path, options), tmp_path))
        return
    others = others_for(key) if key not in REFUSED else {}
    family = family_with(tmp_path, {**others, key: SAMPLES[key]})
    if key in REFUSED:
        with pytest.raises(FamilyError) as caught:
            graph_in(system, family, tmp_path)
        assert str(caught.value).startswith(f"{tmp_path / 'sums.py'}: job() sets the option {key!r} to ")
        assert REFUSED[key] in str(caught.value)
        return
    with_option = seen(graph_in(system, family, tmp_path))
    without = seen(graph_in(system, family_with(tmp_path, others), tmp_path))
    if key == "sink.committer.retries":
        # The sinks of a family are functions, which have no committer; the environment keeps it for others.
        assert with_option == without
    else:
        assert with_option != without


def test_every_option_has_its_place() -> None:
    counted = {option.key for option in HONOURED}
    assert counted | REFUSED.keys() == {option.key for option in OPTIONS}
    assert not counted & REFUSED.keys()
    assert set(REFUSED.values()) == {DRAWN, OF_THE_PROCESS}


def test_page_of_families_lists_what_counts() -> None:
    page = (Path(__file__).parents[2] / "harness/docs/families.md").read_text(encoding="utf-8")
    section = page.partition("## Options of the engine\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert listed == sorted(option.key for option in HONOURED)


def test_settings_of_a_reporter_are_refused(tmp_path: Path) -> None:
    family = family_with(tmp_path, {"metrics.reporter.log.factory.class": "log"})
    with pytest.raises(FamilyError, match=OF_THE_PROCESS):
        graph_in("simulation", family, tmp_path)


def test_options_of_flink_without_effect_are_accepted(tmp_path: Path) -> None:
    family = family_with(tmp_path, {"taskmanager.memory.process.size": "2g"})
    assert graph_in("simulation", family, tmp_path).name == "sums"


# The option that the simulation once ignored.

ALLOWS = {"pipeline.allow-pickled-state": True}


def test_pickled_state_that_the_job_allows_is_restored_in_every_check(tmp_path: Path) -> None:
    family = family_with(tmp_path, ALLOWS)
    restored = 0
    for seed in range(12):
        scenario = scenario_of(family, seed)
        outcome, history = run_scenario(family, scenario)
        assert not outcome.violations, (seed, outcome.violations)
        assert check_continuations(family, scenario) == ()
        restored += sum(event[1] == "attempt_started" for event in history.events) > 1
    assert restored > 3


def test_pickled_state_that_the_job_does_not_allow_is_refused(tmp_path: Path) -> None:
    family = family_with(tmp_path, {})
    outcomes = [run_scenario(family, scenario_of(family, seed))[0] for seed in range(12)]
    causes = " ".join(str(outcome) for outcome in outcomes)
    assert "StateError" in causes or "PickleRefused" in causes
    assert "pipeline.allow-pickled-state" in causes
