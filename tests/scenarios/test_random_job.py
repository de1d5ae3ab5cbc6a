"""The family of random jobs: graphs as data, their two oracles, how they shrink, and what they refuse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from runpy import run_path

import pytest
from msgspec.structs import replace

from onceproof.engine.operators.base import FunctionOperator, OperatorContext
from onceproof.harness.commands.replay import replay_command, scenario_and_family
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family import Declared, Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import Scenario, ScenarioError, from_json, to_json
from onceproof.harness.shrinking.reductions import cost_of
from onceproof.harness.shrinking.shrinker import shrink
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.trial import try_scenario
from onceproof.scenarios.random_graphs._functions import EMITTED_TYPES
from onceproof.scenarios.random_graphs._graph import (
    CHANGING_KINDS,
    EDGES,
    KINDS,
    GraphError,
    graph_of,
    tasks_of,
)
from onceproof.scenarios.random_graphs._panes import PLAINEST
from onceproof.scenarios.random_graphs._printing import as_program
from onceproof.scenarios.random_graphs._simplifying import simpler_parameters

RANDOM_JOB: Family = load_family("random_job")
MANY = range(60)
THREE = {"left-0": ((0, ("a", "l0.0", 2)), (1, ("a", "l0.1", 3)), (70, ("b", "l0.2", 4)))}


def rows_of(parameters: dict[str, str], is_whole: bool = True) -> list[tuple[object, ...]]:
    return sorted(RANDOM_JOB.expected(THREE, Declared((), is_whole, parameters)))


def test_drawn_graphs_have_all_kinds_forms_and_edges() -> None:
    vertices = [
        vertex for seed in range(500) for vertex in graph_of(generate(RANDOM_JOB, seed).parameters).vertices
    ]
    assert {(vertex.kind, vertex.form) for vertex in vertices} == {
        (kind, form) for kind, row in KINDS.items() for form in row.forms
    }
    assert {vertex.edge for vertex in vertices} == set(EDGES)
    assert {"1", "12", "job", "sink"} <= {vertex.parallelism for vertex in vertices}
    assert {True, False} == {vertex.ttl for vertex in vertices} == {vertex.alone for vertex in vertices}
    assert max(vertex.max_parallelism for vertex in vertices) == 128
    assert {vertex.emits for vertex in vertices} == {"", *EMITTED_TYPES}
    assert {vertex.kind for vertex in vertices if vertex.emits} == CHANGING_KINDS


def test_a_graph_is_the_same_read_back_from_its_lines() -> None:
    for seed in MANY:
        scenario = generate(RANDOM_JOB, seed)
        graph = graph_of(scenario.parameters)
        assert graph_of(from_json(to_json(scenario)).parameters) == graph
        assert graph_of(graph.parameters()) == graph


def test_the_vertices_of_a_graph_are_those_that_the_engine_chains() -> None:
    for seed in MANY:
        scenario = generate(RANDOM_JOB, seed)
        equal = replace(scenario, parallelism=2, source_parallelism=2, sink_parallelism=2)
        built = [vertex.name for vertex in World(RANDOM_JOB, equal).job.build_graph().vertices]
        assert sorted(built) == sorted(tasks_of(graph_of(scenario.parameters))), seed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("total", "v1: of= is missing"),
        ("nothing of=left", "v1: 'nothing' is no kind of vertex"),
        ("total of=v2", "v1: of=v2 is no stream before it: left, right"),
        ("total of=left form=loud", "v1: form=loud is not one of value, reducing"),
        ("total of=left over=air", "v1: over=air is not one of hash"),
        ("total of=left at=99", "v1: at=99 is not one of source, job, sink nor 1 to 12"),
        ("total of=left most=999", "v1: most=999 is no number up to 128"),
        ("total of=left loud", "v1: 'loud' is no setting of a vertex"),
        ("total of=left ttl ttl", "v1: 'ttl' is no setting of a vertex, or is given twice"),
        ("pairs of=left", "v1: pairs reads 2 or more different streams"),
        ("map of=left over=forward", "v1: over=forward needs the parallelism of left"),
        ("triples of=left ttl", "v1: ttl belongs to a function with state"),
        ("sink of=left", "v1: sink is no kind for it"),
        ("map of=left emits=air", "v1: emits=air is not one of text, list, row, nested"),
        (
            "parity of=left emits=list",
            "v1: emits=list is not one of text, list, row, nested, or parity",
        ),
    ],
)
def test_a_line_that_is_no_vertex_is_refused_with_its_name(line: str, words: str) -> None:
    with pytest.raises(GraphError) as refused:
        graph_of({"v1": line, "s1": "sink of=left"})
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_a_vertex_whose_input_is_not_certain_enough_is_refused() -> None:
    with pytest.raises(GraphError, match="v2: total needs values in order"):
        graph_of({"v1": "map of=left over=rebalance", "v2": "total of=v1", "s1": "sink of=v2"})
    with pytest.raises(GraphError, match="v2: session needs timestamps"):
        graph_of({"v1": "count of=left", "v2": "session of=v1", "s1": "sink of=v2"})
    with pytest.raises(GraphError, match="v1: total needs values in order"):
        graph_of({"v1": "total of=left", "s1": "sink of=v1", "mode": "batch"})
    with pytest.raises(GraphError, match="mode: 'bach' is not a mode"):
        graph_of({"s1": "sink of=left", "mode": "bach"})
    with pytest.raises(GraphError, match="s1: a job has write-ahead sinks, or others"):
        graph_of({"s1": "sink of=left form=write_ahead", "s2": "sink of=left"})


def test_the_reference_follows_each_kind_by_hand() -> None:
    def after(line: str, **others: str) -> list[tuple[object, ...]]:
        return rows_of({"v1": line, "s1": "sink of=v1", **others})

    assert after("total of=left") == [
        ("left-01", "a", "l0.0", 2), ("left-01", "a", "l0.1", 5), ("left-01", "b", "l0.2", 4)
    ]  # fmt: skip
    assert after("latest of=left")[1] == ("left-01", "a", "l0.0 l0.1", 5)
    assert after("residues of=left") == [
        ("left-01", "a", "l0.0", 11), ("left-01", "a", "l0.1", 12), ("left-01", "b", "l0.2", 11)
    ]  # fmt: skip
    assert after("triples of=left") == []
    assert after("count of=left") == [("1", "a", "", 1), ("1", "a", "", 2), ("1", "b", "", 1)]
    assert after("tally of=left") == [("1", "a", "", 7), ("1", "a", "", 8), ("1", "b", "", 9)]
    assert after("punctual of=left") == [
        ("left-01", "a", "l0.0", 11), ("left-01", "a", "l0.1", 12), ("left-01", "b", "l0.2", 83)
    ]  # fmt: skip
    assert after("filter of=left") == [("left-01", "a", "l0.0", 2), ("left-01", "b", "l0.2", 4)]
    assert after("tumbling of=left") == [("1", "a", "l0.0 l0.1", 5), ("1", "b", "l0.2", 4)]
    # What is at 9 ms is in three windows, what is at 79 ms in two: 30 does not divide 70.
    assert len(after("sliding of=left")) == 3 + 2
    assert after("session of=left") == after("tumbling of=left")
    assert after("parity of=left") == [("left-01", "a", "l0.0", 2), ("left-01", "b", "l0.2", 4)]
    assert after("parity of=left", s1="sink of=v1s") == [("left-01s", "a", "l0.1", 3)]
    assert after("lateness of=left")[0] == ("left-01", "a", "l0.0", 2)
    assert after("lateness of=left form=session") == after("lateness of=left")
    assert after("whole of=left") == [("1", "a", "l0.0 l0.1", 5), ("1", "b", "l0.2", 4)]
    pairs = {"v1": "map of=left", "v2": "pairs of=left,v1", "s1": "sink of=v2"}
    assert ("2", "a", "l0.0+l0.1", (31 * 2 + 10) % 1009) in rows_of(pairs)
    assert len(rows_of(pairs)) == 2 * 2 + 1
    assert len(rows_of({**pairs, "v2": "twins of=left,v1"})) == 3
    assert len(rows_of({**pairs, "v2": "near of=left,v1"})) == 5
    assert after("distinct of=left,right form=copies") == [
        ("1", "a", "l0.0", 2), ("1", "a", "l0.1", 3), ("1", "b", "l0.2", 4)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_printed_program_prints_the_rows_of_the_reference(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = generate(RANDOM_JOB, seed)
    if seed == 3:
        graph = {"v1": "total of=left emits=row", "v2": "session of=v1 emits=nested", "s1": "sink of=v2"}
        scenario = replace(scenario, records=THREE, parameters=graph)
    if seed == 4:
        graph = {"v1": "tally of=left", "v2": "whole of=left", "s1": "sink of=v1,v2", "mode": "batch"}
        scenario = replace(scenario, records=THREE, parameters=graph)
    program = tmp_path / "program.py"
    program.write_text(as_program(scenario.records, scenario.parameters), encoding="utf-8")
    run_path(str(program), run_name="__main__")
    printed = [line.rpartition("> ")[2] for line in capsys.readouterr().out.splitlines()]
    declared = Declared(parameters=scenario.parameters)
    expected = RANDOM_JOB.expected(scenario.records, declared)
    assert Counter(printed) == Counter(f"({','.join(map(str, row))})" for row in expected)


def test_each_kind_and_form_is_printed_as_statements_of_python() -> None:
    printed = set()
    for kind, row in KINDS.items():
        for form in row.forms if kind != "sink" else ():
            of = "left,right" if row.inputs == 2 else "left"
            said = f" panes={PLAINEST}" * (kind == "panes")
            graph = {"v1": f"{kind} of={of} form={form} at=2 alone{said}", "s1": "sink of=v1 over=custom"}
            text = as_program(THREE, graph)
            compile(text, f"{kind} {form}", "exec")
            printed.add(text.partition("env = ")[2])
    assert len(printed) == len({(kind, form) for kind, row in KINDS.items() for form in row.forms}) - len(
        KINDS["sink"].forms
    )


def test_a_file_with_a_wrong_line_is_refused_with_its_place(tmp_path: Path) -> None:
    scenario = generate(RANDOM_JOB, 1)
    path = tmp_path / "wrong.json"
    path.write_text(to_json(replace(scenario, parameters={"v1": "total of=air", "s1": "sink of=v1"})))
    with pytest.raises(ScenarioError, match=r"wrong.json: parameters: v1: of=air is no stream before it"):
        scenario_and_family(str(path), None)


def test_only_a_drawn_job_is_printed_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay_command("1", "random_job", False, None, False, as_program=True) == 0
    assert "env.execute('random_job')" in capsys.readouterr().out
    with pytest.raises(UsageError, match="the job of word_count is in its file"):
        replay_command("1", "word_count", False, None, False, as_program=True)


def test_only_what_a_vertex_may_hold_back_may_be_missing_before_the_end() -> None:
    both = {"v1": "tumbling of=left", "s1": "sink of=v1,left"}
    assert len(rows_of(both)) == 5
    assert len(rows_of(both, is_whole=False)) == 3
    for form in ("buffering", "sharing"):
        assert rows_of({"s1": f"sink of=left form={form}"}, is_whole=False) == []


def test_objects_that_a_function_changes_are_not_shared_with_the_next_operator() -> None:
    def rows(emits: str) -> list[tuple[object, ...]]:
        graph = {"v1": f"twice of=left over=global emits={emits}", "s1": "sink of=v1"}
        scenario = undisturbed(generate(RANDOM_JOB, 1))
        return sorted(
            rows_at_end(World(RANDOM_JOB, replace(scenario, records=THREE, parameters=graph)).run())
        )

    right = rows_of({"v1": "twice of=left over=global", "s1": "sink of=v1"})
    assert [rows(emits) for emits in EMITTED_TYPES] == [right] * len(EMITTED_TYPES)
    open_operator = FunctionOperator.open

    def sharing(self: FunctionOperator, context: OperatorContext) -> None:
        open_operator(self, context)
        self._own = lambda value: value

    with replaced(FunctionOperator, "open", sharing):
        assert all(rows(emits) != right for emits in ("list", "row"))


def test_random_jobs_pass_with_all_their_faults() -> None:
    for seed in range(10):
        trial = try_scenario(RANDOM_JOB, generate(RANDOM_JOB, seed), continued=True)
        assert trial.verdict.violations == (), seed


def test_a_simpler_graph_is_legitimate_and_costs_less() -> None:
    removed = 0
    for seed in range(60):
        scenario = generate(RANDOM_JOB, seed)
        for parameters in simpler_parameters(scenario.parameters):
            graph_of(parameters)
            removed += cost_of(replace(scenario, parameters=dict(parameters))) < cost_of(scenario)
    assert removed > 600


def test_a_failing_graph_shrinks_to_the_vertex_that_it_needs() -> None:
    def fails(scenario: Scenario) -> tuple[str, str] | None:
        graph = graph_of(scenario.parameters)
        has_session = any(vertex.kind == "session" for vertex in graph.operators)
        return ("exactly_once", "lost") if has_session and scenario.record_count() else None

    large = next(
        scenario
        for scenario in (generate(RANDOM_JOB, seed) for seed in range(500))
        if fails(scenario) and len(graph_of(scenario.parameters).operators) >= 4
    )
    small = shrink(large, fails, ("exactly_once", "lost"), 60, None, simpler_parameters).scenario
    assert small.parameters == {"v1": "session of=left", "s1": "sink of=v1"} or (
        [line.split()[0] for line in map(str, small.parameters.values())] == ["session", "sink"]
    )
    assert small.record_count() == 1


def test_the_rows_of_an_undisturbed_run_are_those_of_the_reference() -> None:
    rows = 0
    for seed in range(20):
        scenario = undisturbed(generate(RANDOM_JOB, seed))
        found = rows_at_end(World(RANDOM_JOB, scenario).run())
        rows += len(found)
        declared = Declared(found, True, scenario.parameters)
        assert Counter(found) == Counter(RANDOM_JOB.expected(scenario.records, declared)), seed
    assert rows > 200
