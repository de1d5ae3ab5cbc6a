"""Fixtures of the tests of the local runtime: a word count, and the ways to run and to stop it."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.errors import Ending
from onceproof.engine.protocol_points import no_probe
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.local import LocalExecution, execute
from onceproof.engine.runtime.recovery import recover
from onceproof.engine.runtime.storage import LocalCheckpointStorage

WORDS = [f"w{number % 7}" for number in range(600)]
COUNTS = Counter(f"('w{number % 7}', {number // 7 + 1})" for number in range(600))


class Count(KeyedProcessFunction):
    """A running count."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class PowerCut(Ending):
    """The death of the process; an Ending, so that the engine takes it for no failure of user code."""


class Job:
    """A word count from memory into part files, with a checkpoint directory beside them."""

    words = WORDS
    counts = COUNTS
    function = Count
    power_cut = PowerCut
    storage_class = LocalCheckpointStorage

    def __init__(self, folder):
        self.checkpoints = folder / "checkpoints"
        self.output = folder / "out"
        self.splits = {
            "a": [(word, None) for word in WORDS[::2]],
            "b": [(word, None) for word in WORDS[1::2]],
        }
        self.source = CollectionSource(
            {name: [((word,), time) for word, time in split] for name, split in self.splits.items()}
        )

    def configuration(self, **options):
        settings = {
            "execution.checkpointing.interval-records": 100,
            "execution.checkpointing.dir": str(self.checkpoints),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": 0,
            "pipeline.buffer-records": 10,
        }
        settings.update({key.replace("__", ".").replace("_", "-"): value for key, value in options.items()})
        return Configuration.from_mapping(
            {key: value for key, value in settings.items() if value is not None}
        )

    def graph(self, parallelism=2, **options):
        env = self.environment(**options)
        self.describe(env, parallelism)
        return env.get_job_graph("words")

    def environment(self, **options):
        return StreamExecutionEnvironment.get_execution_environment(self.configuration(**options))

    def describe(self, env, parallelism=2, before=lambda words: words):
        env.set_parallelism(parallelism).set_max_parallelism(16)
        words = before(env.from_source(self.source, None, "words"))
        counted = words.key_by(lambda value: value[0], Types.STRING())
        self.into_files(counted.process(Count()).name("count"))

    def into_files(self, stream):
        sink = FileSink.for_row_format(str(self.output), Encoder.simple_string_encoder()).build()
        stream.sink_to(sink).name("sink")

    @property
    def directory(self):
        [directory] = [each for each in self.checkpoints.iterdir() if each.name != REGISTRY]
        return directory

    def rows(self):
        files = [path for path in self.output.iterdir() if not path.name.startswith(".")]
        return Counter(line for path in files for line in path.read_text().splitlines())

    def hidden(self):
        names = [path.name for path in self.output.iterdir() if path.name.startswith(".")]
        return [name for name in names if entry_of(name) is None]

    def left_behind(self):
        """The names of checkpoint files without the owner's token, and of hidden part files."""
        names = sorted(path.name for path in self.directory.iterdir())
        return [name for name in names if not name.startswith("owner-")], self.hidden()

    def files(self, folder=None):
        """Return file names and contents without the markers; of the checkpoints by default."""
        folder = folder or self.directory
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(("incarnation-", "owner-"))
        }

    def execution(self, graph, storage, probe=no_probe):
        """Return a run over a storage of the test."""
        return LocalExecution(graph, storage, recover(storage, graph.settings.num_retained), probe)

    @staticmethod
    def raising(point, error, occurrence=1):
        """Return a probe that raises at the n-th pass of a point."""
        passes = 0

        def probe(passed, task, checkpoint_id):
            nonlocal passes
            if passed == point:
                passes += 1
                if passes == occurrence:
                    raise error

        return probe

    @staticmethod
    def raising_always(point, error):
        """Return a probe that raises at each pass of a point."""

        def probe(passed, task, checkpoint_id):
            if passed == point:
                raise error

        return probe

    def stopped(self, point, occurrence=1, **options):
        """Run the job until a simulated power cut."""
        with pytest.raises(PowerCut):
            execute(self.graph(**options), self.raising(point, PowerCut(), occurrence))


@pytest.fixture(scope="session")
def new_job():
    """Makes a job in a folder, for tests that share one."""
    return Job


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)
