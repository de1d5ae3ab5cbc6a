"""Checkpoints on a real HDFS: exclusive creation under races, and a job that is killed at random moments.

Two Javas take too long to start for each change, so pytest does not collect this file by itself. It is run by
its path, and takes a minute on an idle machine of two cores:
``python -m pytest tests/engine/runtime/trials_on_webhdfs.py``.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from onceproof.engine.runtime.mounted_storage import open_storage
from tests.engine.runtime.exact_rows import computed, differences
from tests.engine.runtime.hdfs_cluster import hdfs
from tests.engine.runtime.killed_job import make_input
from tests.engine.runtime.test_object_store_kills import rows_of
from tests.engine.runtime.test_webhdfs_storage import check_calls

pytestmark = [pytest.mark.local_kill, pytest.mark.slow]

RACES = 100
KILLS = 12
ROWS = 200
LONGEST_LIFE_SECONDS = 4.0
JOB = """
import sys
from pathlib import Path
from onceproof.engine import CsvSource, Encoder, FileSink, StreamExecutionEnvironment, Types
from onceproof.engine import Configuration
from tests.engine.runtime.killed_job import FILES
from tests.engine.runtime.killed_object_job import Slowly
address, folder, parallelism = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
options = {
    "execution.checkpointing.interval": "150 ms",
    "execution.checkpointing.dir": address,
    "parallelism.default": parallelism,
    "pipeline.max-parallelism": 12,
    "pipeline.buffer-records": 3,
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
schema = [("key", Types.STRING()), ("number", Types.LONG())]
files = [str(folder / f"{number}.csv") for number in range(FILES)]
numbers = env.from_source(CsvSource(files, schema), None, "numbers").uid("numbers")
counted = numbers.key_by(lambda row: row[0], Types.STRING()).process(Slowly()).uid("counted")
counted.sink_to(FileSink.for_row_format(str(folder / "rows"), Encoder.csv_encoder()).build()).uid("files")
env.execute("killed job")
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as root:
        yield root


def test_storage_gives_the_answers_that_the_test_with_a_stand_in_expects(address: str) -> None:
    check_calls(f"{address}/calls")


def races(create: Callable[[str, bytes], bool]) -> Counter[int]:
    """Return how many of the races of two writers have had so many winners."""
    winners: Counter[int] = Counter()
    for number in range(RACES):
        start = threading.Barrier(2)
        won: list[bytes] = []

        def write(data: bytes, number: int = number, won: list[bytes] = won, start: object = start) -> None:
            assert isinstance(start, threading.Barrier)
            start.wait()
            if create(f"claim-{number}", data):
                won.append(data)

        threads = [threading.Thread(target=write, args=(data,)) for data in (b"one", b"other")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners[len(won)] += 1
    return winners


def test_each_of_many_races_has_one_winner_whose_content_is_there(address: str) -> None:
    storages = threading.local()

    def create(name: str, data: bytes) -> bool:
        if not hasattr(storages, "own"):
            storages.own = open_storage(f"{address}/races")
        created: bool = storages.own.create_exclusive(name, data)
        if created:
            assert storages.own.read(name) == data
        return created

    assert races(create) == {1: RACES}


def test_creation_by_fsspec_alone_is_not_exclusive(address: str) -> None:
    """What the storage would do without renames: a writer may find its file taken away, or two may win."""
    errors: list[str] = []

    def create(name: str, data: bytes) -> bool:
        files, path = fsspec.core.url_to_fs(f"{address}/alone/{name}", skip_instance_cache=True)
        try:
            files.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        except Exception as error:
            errors.append(str(error))
            return False
        return True

    winners = races(create)
    assert errors or winners != {1: RACES}


def test_job_with_its_checkpoints_there_ends_exact_however_often_it_is_killed(
    address: str, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    make_input(folder, random.Random(7), ROWS)
    chance = random.Random(7)

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", JOB, f"{address}/job", str(folder), str(chance.randint(1, 3))]
        return subprocess.Popen(command, cwd=Path(__file__).parents[3])

    kills = 0
    for _ in range(KILLS):
        process = start()
        time.sleep(1 + chance.random() * LONGEST_LIFE_SECONDS)
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert start().wait() == 0
    assert kills > KILLS // 3
    rows = folder / "rows"
    visible = {path.name: path.read_bytes() for path in rows.iterdir() if not path.name.startswith(".")}
    assert not differences(Counter(computed(folder)), rows_of(visible, ""))
