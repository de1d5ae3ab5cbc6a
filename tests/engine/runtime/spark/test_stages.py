"""Jobs of other shapes than a line: their stages, and that they give what the local runtime gives."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.engine import Configuration, Encoder, FileSink, StreamExecutionEnvironment, Types
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.messages import TaskId
from onceproof.engine.protocol_points import ELEMENT, SNAPSHOTTED
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.spark.stages import Place, partitions_of, stages_of

NUMBERS = {f"split-{place}": [(number, None) for number in range(place, 300, 5)] for place in range(5)}


def environment(folder):
    options = {
        "execution.checkpointing.interval-records": 60,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "pipeline.buffer-records": 7,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    return env.set_parallelism(2).set_max_parallelism(16)


def numbers(env):
    return env.from_source(CollectionSource(NUMBERS), None, "numbers").uid("numbers")


def summed(stream):
    pairs = stream.map(lambda number: (number % 3, 1), Types.TUPLE([Types.LONG(), Types.LONG()])).name("pair")
    return pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).name("sum").uid("sum")


def into_files(stream, folder):
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()
    return stream.sink_to(sink).name("files").uid("files")


def rows(folder):
    parts = [part for part in (folder / "out").rglob("part-*") if not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


def line(env, folder):
    into_files(summed(numbers(env)).rebalance(), folder)


def edge_over_a_stage(env, folder):
    """The sink reads the sums of stage 1 and the numbers of stage 0 themselves."""
    source = numbers(env)
    both = summed(source).union(source.map(lambda number: (-1, number)))
    into_files(both.key_by(lambda pair: pair[0], Types.LONG()).map(str), folder).set_parallelism(3)


def two_ends(env, folder):
    """One vertex with two consumers, each with an edge of another kind."""
    source = numbers(env)
    into_files(summed(source).broadcast(), folder)
    sink = FileSink.for_row_format(str(folder / "out" / "other"), Encoder.simple_string_encoder()).build()
    source.rescale().map(lambda number: number).set_parallelism(4).sink_to(sink).set_parallelism(4)


JOBS = [line, edge_over_a_stage, two_ends]


def graph_of(job, folder):
    env = environment(folder)
    job(env, folder)
    return env.get_job_graph("shapes")


def test_a_level_of_the_graph_is_a_stage(tmp_path):
    graph = graph_of(edge_over_a_stage, tmp_path)
    stages = stages_of(graph, layout_of(graph))
    names = [
        [f"{graph.vertices[task.vertex].name}-{task.subtask}" for task in tasks] for tasks in stages.tasks
    ]
    assert names == [
        ["numbers-0", "numbers-1"],
        ["pair-0", "pair-1", "Map-0", "Map-1"],
        ["sum-0", "sum-1"],
        ["Map (2)-0", "Map (2)-1"],
        ["files-0", "files-1", "files-2"],
    ]
    assert stages.places[TaskId(4, 1)] == Place(3, 1)


@pytest.mark.parametrize(("cores", "partitions"), [(1, [2, 4, 2, 2, 3]), (2, [2, 4, 2, 2, 3])])
def test_few_subtasks_have_a_partition_each(tmp_path, cores, partitions):
    graph = graph_of(edge_over_a_stage, tmp_path)
    assert partitions_of(stages_of(graph, layout_of(graph)), cores) == partitions


def test_many_subtasks_share_one_partition_for_each_core(tmp_path):
    env = environment(tmp_path)
    into_files(summed(numbers(env).set_parallelism(5).rebalance()).set_parallelism(9), tmp_path)
    graph = env.get_job_graph("shapes")
    stages = stages_of(graph, layout_of(graph))
    counts = [len(tasks) for tasks in stages.tasks]
    assert counts == [5, 2, 9, 2]
    assert partitions_of(stages, 1) == [1, 2, 1, 2]
    assert partitions_of(stages, 2) == [5, 2, 2, 2]
    assert partitions_of(stages, 3) == counts


@pytest.mark.parametrize("job", JOBS)
def test_spark_gives_the_results_of_the_local_runtime(tmp_path, here, job):
    execute(graph_of(job, tmp_path / "local"))
    here(graph_of(job, tmp_path / "spark"))
    assert rows(tmp_path / "spark") == rows(tmp_path / "local")
    assert sum(rows(tmp_path / "local").values()) >= 300


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("point", [ELEMENT, SNAPSHOTTED])
def test_deaths_in_every_stage_change_nothing(tmp_path, here, job, point):
    execute(graph_of(job, tmp_path / "local"))
    deaths = [here.dying(point, task=name, times=2) for name in ("numbers", "sum", "files")]

    def all_of_them(*passed):
        for each in deaths:
            each(*passed)

    here(graph_of(job, tmp_path / "spark"), all_of_them)
    assert [each.struck for each in deaths] == [2, 2, 2]
    assert rows(tmp_path / "spark") == rows(tmp_path / "local")
