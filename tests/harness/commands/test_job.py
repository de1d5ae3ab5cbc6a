"""`onceproof job`: run a program, stop it from another command, resume it from the savepoint."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main

PROGRAM = """
import time
from onceproof.engine import *

class Slow(MapFunction):
    def map(self, value):
        time.sleep(0.002)
        return value

options = {
    "execution.checkpointing.interval-records": 20,
    "execution.checkpointing.dir": "checkpoints",
    "pipeline.buffer-records": 1,
    "pipeline.max-parallelism": 8,
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
words = env.from_collection([("a", 1)] * 400, Types.TUPLE([Types.STRING(), Types.LONG()])).uid("words")
slow = words.map(Slow(), Types.TUPLE([Types.STRING(), Types.LONG()])).name("slow")
counts = slow.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("sum")
counts.sink_to(FileSink.for_row_format("out", Encoder.csv_encoder()).build()).uid("files")
env.execute("program")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    return tmp_path


def rows():
    parts = [part for part in Path("out").iterdir() if not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


def test_stopped_program_resumes_with_another_parallelism(folder, capsys):
    codes = []
    running = threading.Thread(target=lambda: codes.append(main(["job", "run", "program.py"])))
    running.start()
    while not (Path("out").exists() and rows()):
        assert running.is_alive()
        time.sleep(0.01)
    assert main(["job", "stop", "program.py", "--directory", "savepoints"]) == 0
    running.join()
    assert codes == [0]
    savepoint = capsys.readouterr().out.split()[-1]
    assert main(["checkpoints", "verify", savepoint]) == 0
    assert main(["checkpoints", "show", savepoint]) == 0
    assert "1 entry in 1 key group" in capsys.readouterr().out
    assert 0 < sum(rows().values()) < 400
    assert main(["job", "run", "program.py", "--from", savepoint, "--parallelism", "2"]) == 0
    assert rows() == Counter(f"a,{count}" for count in range(1, 401))
    assert main(["checkpoints", "delete", savepoint]) == 0
    assert not Path(savepoint).exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["job", "stop", "nothing"], "no job 'nothing' is registered here"),
        (["job", "cancel", "."], "no process runs this job"),
        (["job", "run", "program.py", "--from", "nowhere"], "no savepoint and no checkpoint here"),
        (["job", "run", "missing.py"], "missing.py: cannot be read"),
        (["job", "run", "program.py", "--system", "flink"], "--system flink: no such runtime"),
        (["checkpoints", "delete", "."], "no savepoint or checkpoint"),
    ],
)
def test_unusable_job_request_is_a_one_line_error_with_exit_code_4(folder, capsys, arguments, line):
    assert main(arguments) == 4
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1
