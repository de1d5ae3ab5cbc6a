"""Jobs of their own that write part files into one folder, on the local runtime."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    CollectionSource,
    Configuration,
    Encoder,
    FileSink,
    OutputFileConfig,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.errors import Ending
from onceproof.engine.protocol_points import COMMITTING, ELEMENT
from onceproof.engine.runtime.local import execute


class PowerCut(Ending):
    """The process ends here."""


@pytest.fixture
def graph_of(tmp_path):
    """Makes a job that writes forty numbers into the folder that all of them share."""

    def make(name, prefix, checkpoints="checkpoints", sinks=1):
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_mapping(
                {
                    "execution.checkpointing.interval-records": 10,
                    "execution.checkpointing.dir": str(tmp_path / checkpoints),
                    "pipeline.buffer-records": 5,
                    "restart-strategy.type": "none",
                }
            )
        )
        numbers = env.from_source(
            CollectionSource({"numbers": [(number, None) for number in range(40)]}),
            WatermarkStrategy.no_watermarks(),
            "numbers",
        )
        for number in range(sinks):
            sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
            sink.with_output_file_config(OutputFileConfig(prefix, ""))
            numbers.sink_to(sink.build()).uid(f"sink-{number}")
        return env.get_job_graph(name)

    return make


@pytest.fixture
def rows(tmp_path):
    def read(beginning=""):
        files = (tmp_path / "out").glob(f"{beginning}*")
        return sorted(int(row) for file in files for row in file.read_text().split())

    return read


def dying_at(point, occurrence):
    passes = 0

    def probe(passed, task, checkpoint_id):
        nonlocal passes
        passes += passed == point
        if passes == occurrence:
            raise PowerCut

    return probe


@pytest.mark.parametrize(("point", "occurrence"), [(COMMITTING, 2), (ELEMENT, 6)])
def test_job_does_not_delete_what_another_has_prepared(graph_of, rows, tmp_path, point, occurrence):
    with pytest.raises(PowerCut):
        execute(graph_of("B", "part-1"), dying_at(point, occurrence))
    execute(graph_of("A", "part"))
    execute(graph_of("B", "part-1"))
    assert rows() == sorted(2 * list(range(40)))
    # The owner in a name of A may begin with a 1, so the separator is part of the beginning.
    assert rows("part-1-") == list(range(40))
    assert not [path for path in (tmp_path / "out").glob(".*") if entry_of(path.name) is None]


def test_jobs_of_one_name_and_prefix_over_two_checkpoint_folders_do_not_meet(graph_of, rows):
    with pytest.raises(PowerCut):
        execute(graph_of("A", "part", "one"), dying_at(COMMITTING, 2))
    execute(graph_of("A", "part", "other"))
    execute(graph_of("A", "part", "one"))
    assert rows() == sorted(2 * list(range(40)))


def test_two_sinks_of_one_job_may_have_one_folder_and_prefix(graph_of, rows):
    with pytest.raises(PowerCut):
        execute(graph_of("A", "part", sinks=2), dying_at(COMMITTING, 3))
    execute(graph_of("A", "part", sinks=2))
    assert rows() == sorted(2 * list(range(40)))
