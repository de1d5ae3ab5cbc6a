"""`onceproof job`: run a program, stop it from another command, resume it from the savepoint."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main

PROGRAM = """
import os
import time
from onceproof.engine import *

class Slow(MapFunction):
    count = 0

    def map(self, value):
        self.count += 1
        time.sleep(0.002)
        if self.count > 60 and os.path.exists("held"):
            time.sleep(0.1)
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


HELD = Path("held")
"""The file with which a job takes long for its later rows: a command takes seconds on a busy machine."""
SUBMITTED = "Job has been submitted with JobID "


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
    HELD.touch()
    running = threading.Thread(target=lambda: codes.append(main(["job", "run", "program.py"])))
    running.start()
    while not (Path("out").exists() and rows()):
        assert running.is_alive()
        time.sleep(0.01)
    assert main(["job", "stop", "program.py", "--directory", "savepoints", "--json"]) == 0
    running.join()
    assert codes == [0]
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["request"] == "stop"
    savepoint = answer["savepoint"]
    assert main(["checkpoints", "verify", savepoint]) == 0
    assert main(["checkpoints", "show", savepoint]) == 0
    assert "1 entry in 1 key group" in capsys.readouterr().out
    assert 0 < sum(rows().values()) < 400
    HELD.unlink()
    assert main(["job", "run", "program.py", "--from", savepoint, "--parallelism", "2"]) == 0
    assert rows() == Counter(f"a,{count}" for count in range(1, 401))
    capsys.readouterr()
    assert main(["checkpoints", "delete", savepoint, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": savepoint, "left": []}
    assert not Path(savepoint).exists()


def test_job_is_found_by_its_id_and_by_its_name(folder, capsys):
    HELD.touch()
    running = threading.Thread(target=lambda: main(["job", "run", "program.py", "--name", "my words"]))
    running.start()
    while not (Path("out").exists() and rows()):
        assert running.is_alive()
        time.sleep(0.01)
    assert main(["job", "savepoint", "my words", "savepoints"]) == 0
    submitted, completed = capsys.readouterr().out.splitlines()
    path = completed.removeprefix("Savepoint completed. Path: ")
    assert Path(path, "_metadata").exists()
    assert main(["job", "list", "--json"]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert submitted == f"{SUBMITTED}{listed['id']}"
    assert main(["job", "cancel", listed["id"]]) == 0
    running.join()
    assert f"Cancelled job {listed['id']}." in capsys.readouterr().out.splitlines()
    assert main(["job", "savepoint", "--dispose", path]) == 0
    assert capsys.readouterr().out == f"Savepoint '{path}' disposed.\n"
    assert not Path(path).exists()


README = Path(__file__).parents[3] / "README.md"


def test_job_of_the_readme_goes_on_where_it_was_killed(folder):
    (program,) = re.findall(r"```python\n(from onceproof\.engine.*?)```", README.read_text(), re.DOTALL)
    Path("counts.py").write_text(program)
    (command,) = re.findall(r"^\.venv/bin/(onceproof job run .*)$", README.read_text(), re.MULTILINE)
    words = [sys.executable, "-m", *command.split()]

    def printed_until(least):
        """Start the job, and return what it has printed once a count is at least so high."""
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        lines = []
        assert process.stdout.readline().startswith(SUBMITTED)
        for line in process.stdout:
            lines.append(ast.literal_eval(line.partition("> ")[2] or line))
            if lines[-1][1] >= least:
                break
        return process, lines

    first, counted = printed_until(5)
    assert counted[:4] == [(0, 1), (1, 1), (2, 1), (0, 2)]
    while not any(Path("checkpoints").glob("*/chk-*/_metadata")):
        time.sleep(0.01)
    first.kill()
    first.communicate()
    second, counted = printed_until(8)
    assert counted[0][1] > 1
    assert main(["job", "stop", "counts.py", "-s", "savepoints"]) == 0
    second.communicate()
    assert second.returncode == 0


def test_error_of_the_program_is_named_with_its_line(folder, capsys):
    Path("program.py").write_text("from onceproof.engine import Types\n\nTypes.INTEGER()\n")
    assert main(["job", "run", "program.py"]) == 4
    assert "program.py:3: AttributeError: " in capsys.readouterr().err


OPTIONS = """import sys
from onceproof.engine import StreamExecutionEnvironment

def started():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3)
    env.enable_checkpointing(5000)
    env.from_collection([1, 2]).map(lambda number: number * int(sys.argv[1])).print()
    env.execute()

if __name__ == "__main__":
    started()
"""


@pytest.fixture
def cluster(folder, monkeypatch):
    """The options of a cluster: the file that the test writes."""
    Path("options.py").write_text(OPTIONS)
    Path("conf").mkdir()
    monkeypatch.setenv("ONCEPROOF_CONF_DIR", "conf")
    return Path("conf", "config.yaml")


def test_each_option_is_explained_by_the_last_one_that_set_it(cluster, capsys):
    cluster.write_text(
        "execution:\n  checkpointing:\n    interval: 1 min\n    timeout: 2 min\n    num-retained: 4\n"
    )
    arguments = ["-D", "execution.checkpointing.timeout=3 min", "-D", "parallelism.default=5"]
    assert main(["job", "run", "options.py", "--explain-config", "--name", "sums", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "execution.checkpointing.interval: 5000  (the program)",
        "execution.checkpointing.num-retained: 4  (conf/config.yaml:5)",
        "execution.checkpointing.timeout: 3 min  (-D)",
        "execution.target: local  (the command line)",
        "high-availability.cluster-id: sums  (the command line)",
        "parallelism.default: 5  (-D)",
        "Options that are not listed have their defaults.",
    ]


def test_what_the_program_sets_wins_over_the_cluster(cluster, capsys):
    cluster.write_text("parallelism.default: 2\nrestart-strategy.type: none\n")
    assert main(["job", "run", "options.py", "--explain-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "parallelism.default: 3  (the program)" in lines
    assert "restart-strategy.type: none  (conf/config.yaml:2)" in lines


def test_program_gets_its_arguments_and_one_of_its_functions_may_be_named(folder, capsys):
    Path("options.py").write_text(OPTIONS)
    assert main(["job", "run", "options.py", "--", "10"]) == 0
    assert main(["job", "run", "-c", "started", "-n", "options.py", "--", "7"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(SUBMITTED)]
    values = sorted(int(line.split("> ")[-1]) for line in lines)
    assert values == [7, 10, 14, 20]


@pytest.mark.parametrize(
    ("file", "arguments", "line"),
    [
        (None, [], "ONCEPROOF_CONF_DIR names conf, and there is no config.yaml in it"),
        ("parallelism.default: x", [], "conf/config.yaml:1: option 'parallelism.default' cannot be 'x'"),
        (
            "paralelism.default: 2",
            [],
            "conf/config.yaml:1: unknown option 'paralelism.default': did you mean",
        ),
        ("{}", ["-D", "parallelism.defualt=2"], "-D: unknown option 'parallelism.defualt': did you mean"),
        ("{}", ["-D", "parallelism.default"], "give an option as KEY=VALUE"),
        ("{}", ["-c", "begun"], "options.py: it has no function 'begun', which -c names"),
    ],
)
def test_wrong_option_is_one_line_with_its_place(cluster, capsys, file, arguments, line):
    if file is not None:
        cluster.write_text(file)
    assert main(["job", "run", "options.py", *arguments, "--", "1"]) == 4
    printed = capsys.readouterr()
    assert line in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def failing(name: str, failing_at: int = 300) -> str:
    """Return a program whose execution has another name and which fails at a count."""
    source = PROGRAM.replace('env.execute("program")', f"env.execute({name})")
    limit = f"assert self.count != {failing_at}"
    options = '    "restart-strategy.type": "none",\n'
    source = source.replace("time.sleep(0.002)", limit)
    return source.replace("options = {\n", f"options = {{\n{options}")


def test_cause_of_a_failed_job_stands_on_the_terminal_once(folder):
    Path("first.py").write_text(failing('"orders"'))
    words = [sys.executable, "-m", "onceproof", "job", "run", "first.py"]
    ended = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("job 'orders' failed: ")


def test_another_program_under_the_name_is_refused_with_exit_code_4(folder, capsys):
    Path("first.py").write_text(failing('"orders"'))
    Path("second.py").write_text(PROGRAM.replace('"program"', '"orders"').replace('("a", 1)', '("b", 2)'))
    assert main(["job", "run", "first.py"]) == 1
    capsys.readouterr()
    assert main(["job", "run", "second.py"]) == 4
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"the name 'orders' belongs to another job in {folder}/checkpoints (program" in line
    assert f"(program {folder}/first.py)" in line
    assert "source 'words' reads a collection" in line
    path = line.partition("--from ")[2].partition(",")[0]
    assert Path(path, "_metadata").exists()
    Path("second.py").write_text(Path("second.py").read_text().replace('"out"', '"other"'))
    assert main(["job", "run", "second.py", "--name", "other orders"]) == 0


def test_jobs_are_listed_with_name_id_state_checkpoint_and_program(folder, capsys):
    Path("first.py").write_text(failing('"orders"'))
    assert main(["job", "run", "first.py"]) == 1
    Path("second.py").write_text(PROGRAM.replace('"out"', '"other"'))
    assert main(["job", "run", "second.py", "--name", "more orders"]) == 0
    capsys.readouterr()
    assert main(["job", "list", "checkpoints"]) == 0
    failed, finished = capsys.readouterr().out.splitlines()
    assert failed.startswith("orders: id ")
    assert f", failed, last checkpoint {folder}/checkpoints/" in failed
    assert f", program {folder}/first.py: job 'orders' failed: " in failed
    assert finished.startswith("more orders: id ")
    assert finished.endswith(f", finished, no checkpoint, program {folder}/second.py")
    assert main(["job", "list", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["name"] for document in documents] == ["orders", "more orders"]
    assert main(["checkpoints", "list", "checkpoints"]) == 0
    assert f", job id {documents[0]['id']}" in capsys.readouterr().out
    record = Path("checkpoints", "jobs", f"{documents[0]['id']}.json")
    record.write_bytes(b"\x1b[2J")
    assert main(["job", "list", "checkpoints"]) == 1
    assert "the record of a job cannot be read" in capsys.readouterr().out
    assert main(["job", "list", "other"]) == 5


def test_jobs_are_listed_beside_what_is_deleted_or_damaged(folder, capsys):
    Path("first.py").write_text(PROGRAM)
    assert main(["job", "run", "first.py", "--name", "orders"]) == 0
    other = PROGRAM.replace('"out"', '"other"').replace('"checkpoints"', '"elsewhere"')
    Path("second.py").write_text(other)
    assert main(["job", "run", "second.py", "--name", "sales"]) == 0
    shutil.rmtree("elsewhere")
    Path(".onceproof", "jobs", "third.json").write_text("no note")
    capsys.readouterr()
    assert main(["job", "list"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert sum("orders: id " in line and ", finished, " in line for line in lines) == 1
    assert sum(f"{folder}/elsewhere: no such folder" in line for line in lines) == 1
    assert sum("third.json: cannot be read" in line for line in lines) == 1
    assert main(["job", "list", "--json"]) == 1
    documents = json.loads(capsys.readouterr().out)
    assert [document.get("name") for document in documents] == ["orders", None, None]
    assert main(["job", "list", "elsewhere"]) == 4


def test_a_program_without_a_name_begins_anew_and_says_so(folder):
    Path("program.py").write_text(failing(""))
    command = [sys.executable, "-m", "onceproof", "job", "run", "program.py"]
    ended = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2)]
    assert [each.returncode for each in ended] == [1, 1]
    assert "begins anew" not in ended[0].stderr
    assert "job 'Streaming Job' has no name, so it begins anew, with the id " in ended[1].stderr
    path = ended[1].stderr.partition(" restore ")[2].partition(" (--from")[0]
    assert Path(path, "_metadata").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["job", "stop", "nothing"], "no job 'nothing' is registered here"),
        (["job", "cancel", "."], "no process runs this job"),
        (["job", "run", "program.py", "--from", "nowhere"], "no savepoint and no checkpoint here"),
        (["job", "run", "missing.py"], "missing.py: cannot be read"),
        (["job", "run", "program.py", "--system", "flink"], "--system flink: no such runtime"),
        (["checkpoints", "delete", "."], "no savepoint or checkpoint"),
        (["job", "list", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_unusable_job_request_is_a_one_line_error_with_exit_code_4(folder, capsys, arguments, line):
    assert main(arguments) == 4
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["JOB", "-s"], ["-s", "JOB"], ["--withSavepoint", "--json", "JOB"], ["-s", "other", "JOB"]]
)
def test_cancel_with_a_savepoint_uses_the_configured_folder(folder, arguments, capsys):
    options = ["-D", "execution.checkpointing.savepoint-dir=configured"]
    codes = []
    HELD.touch()
    running = threading.Thread(target=lambda: codes.append(main(["job", "run", "program.py", *options])))
    running.start()
    while not (Path("out").exists() and rows()):
        assert running.is_alive()
        time.sleep(0.01)
    given = ["program.py" if each == "JOB" else each for each in arguments]
    assert main(["job", "cancel", *given]) == 0
    running.join()
    assert codes == [0]
    assert "savepoint-" in capsys.readouterr().out
    [savepoint] = Path("other" if "other" in arguments else "configured").iterdir()
    assert main(["checkpoints", "verify", str(savepoint)]) == 0


def test_cancel_with_a_savepoint_and_no_folder_says_what_to_set(folder, capsys):
    codes = []
    HELD.touch()
    running = threading.Thread(target=lambda: codes.append(main(["job", "run", "program.py"])))
    running.start()
    while not (Path("out").exists() and rows()):
        assert running.is_alive()
        time.sleep(0.01)
    assert main(["job", "cancel", "program.py", "-s"]) == 1
    assert "name one, or set execution.checkpointing.savepoint-dir" in capsys.readouterr().err
    assert main(["job", "cancel", "program.py"]) == 0
    running.join()


def test_cancel_that_names_no_job_asks_for_one(folder, capsys):
    assert main(["job", "cancel", "-s"]) == 4
    assert "missing argument 'JOB'" in capsys.readouterr().err


def test_flat_file_of_the_cluster_is_read_where_there_is_no_yaml(cluster, capsys):
    cluster.with_name("flink-conf.yaml").write_text(
        "# Flink 1.18\nexecution.checkpointing.num-retained: 4 # some\n\n"
        "execution.checkpointing.timeout: 2 min\n"
    )
    assert main(["job", "run", "options.py", "--explain-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "execution.checkpointing.num-retained: 4  (conf/flink-conf.yaml:2)" in lines
    assert "execution.checkpointing.timeout: 2 min  (conf/flink-conf.yaml:4)" in lines
    cluster.write_text("execution.checkpointing.timeout: 3 min\n")
    assert main(["job", "run", "options.py", "--explain-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "execution.checkpointing.timeout: 3 min  (conf/config.yaml:1)" in lines
    assert not any("flink-conf.yaml" in line for line in lines)
