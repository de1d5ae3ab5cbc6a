"""Random jobs: the graph is drawn with the records, from all operators of the public API.

A scenario's parameters hold the graph, one line for each vertex (``random_graphs/_graph.py``). So a failing
job replays, shrinks with the rest, and is printed as a program: ``onceproof replay FILE --as-program``.

A row is (lane, key, origin, number): the way it came, and the records that went into it. A vertex is drawn
only where its input lets its output follow from the records: running totals and the last three values only
where the values of a lane come in order, windows only where no timestamp depends on the order of arrival, and
what loses the order (counts, joins, windows) says nothing about it. So a serial interpreter in Python is the
oracle (``random_graphs/_reference.py``), and a fold over the vertices in Spark SQL is the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.family import (
    Declared,
    FamilyOptions,
    JobIO,
    Records,
    Role,
    Rows,
    Vertices,
    Workload,
)
from onceproof.harness.model.scenario import Parameter
from onceproof.scenarios.random_graphs._building import build
from onceproof.scenarios.random_graphs._drawing import draw_graph, draw_records, with_additions
from onceproof.scenarios.random_graphs._graph import arrival_states_of, graph_of, tasks_of
from onceproof.scenarios.random_graphs._printing import as_program
from onceproof.scenarios.random_graphs._reference import expected_rows
from onceproof.scenarios.random_graphs._simplifying import simpler_parameters
from onceproof.scenarios.random_graphs._sql import ORACLE_SQL

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "random_job"
generator_version = 12
tasks: dict[str, Role] = {"left": "source", "s1": "sink"}
"""Those of the job without a graph; ``tasks_with`` has those of each graph."""
record_schema = "key STRING, origin STRING, number BIGINT"
row_schema = "lane STRING, key STRING, origin STRING, number BIGINT"
oracle_sql = ORACLE_SQL

REACTIONS = ("raises", "puts off", "updates", "fails")


def generate(random: Random) -> Workload:
    """Draw a graph, the records of its sources, and how its committers react to an error."""
    chance = Chance(random)
    graph = draw_graph(chance)
    records = draw_records(chance, graph.sources)
    reaction = chance.choice(REACTIONS)
    own = Random(derived_seed(f"calls of {graph.parameters()} {records}", 0))
    added = with_additions(Chance(own), graph)
    return Workload(records, {**added.parameters(), "reaction": reaction})


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build the graph."""
    build(env, io, graph_of(io.parameters))


def expected(records: Records, declared: Declared) -> Rows:
    """Interpret the graph."""
    return expected_rows(records, declared)


def tasks_with(parameters: Mapping[str, Parameter]) -> Vertices:
    return tasks_of(graph_of(parameters))


def arrival_states(parameters: Mapping[str, Parameter]) -> Collection[str]:
    return arrival_states_of(graph_of(parameters))


def sends_batches(parameters: Mapping[str, Parameter]) -> bool:
    return any(sink.form == "write_ahead" for sink in graph_of(parameters).sinks)


def in_batch(parameters: Mapping[str, Parameter]) -> bool:
    return graph_of(parameters).in_batch


options = FamilyOptions(
    batch=in_batch,
    declares=True,
    sends_batches=sends_batches,
    arrival_states=arrival_states,
    tasks_with=tasks_with,
    simpler_parameters=simpler_parameters,
    as_program=as_program,
    any_backend=True,
    # What the other families have, it has in any combination.
)
