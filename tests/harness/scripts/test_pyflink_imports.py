"""Programs that import pyflink find the engine, and libraries in the same process find nothing."""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest

from onceproof import engine
from onceproof.harness.commands.cli import main
from onceproof.harness.scripts.pyflink_imports import pyflink_imports

ROOT = Path(__file__).parents[3]
PROGRAM = """
import pyflink
import pyflink.datastream.functions as functions
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment, window
from pyflink.datastream.window import TumblingEventTimeWindows


def row():
    from pyflink.common.types import Row
    return Row
"""


@pytest.fixture(autouse=True)
def pyflink_is_not_installed() -> None:
    assert importlib.util.find_spec("pyflink") is None, "these tests are for a machine without PyFlink"


def run(text: str, file: str | None = "program.py") -> dict[str, Any]:
    """Run the text of a program, or of a module that lies elsewhere."""
    names: dict[str, Any] = {"__name__": "program"}
    if file is not None:
        names["__file__"] = str(Path(file).absolute())
    exec(compile(text, file or "<text>", "exec"), names)
    return names


def test_program_finds_the_classes_of_the_engine() -> None:
    with pyflink_imports():
        names = run(PROGRAM)
        assert names["row"]() is engine.Row
    assert names["Types"] is engine.Types
    assert names["StreamExecutionEnvironment"] is engine.StreamExecutionEnvironment
    assert names["functions"].MapFunction is engine.MapFunction
    assert names["pyflink"].datastream.window.CountTrigger is engine.CountTrigger
    assert names["window"].TumblingEventTimeWindows is names["TumblingEventTimeWindows"]


def test_program_without_a_file_and_one_that_imports_all_names() -> None:
    with pyflink_imports():
        names = run("from pyflink.datastream import *", file=None)
    assert names["MapFunction"] is engine.MapFunction


def test_library_in_the_same_process_does_not_find_pyflink() -> None:
    library = str(Path(sysconfig.get_paths()["purelib"], "other", "library.py"))
    with pyflink_imports():
        run("import pyflink")
        with pytest.raises(ModuleNotFoundError, match=r"^No module named 'pyflink'$"):
            run("import pyflink", library)
        assert importlib.util.find_spec("pyflink") is None
        assert not any(name.startswith("pyflink") for name in sys.modules)


def in_a_new_process(text: str, folder: Path = ROOT) -> None:
    """Run a test's text where no script has been loaded: from then on a process answers its imports."""
    given = f"from tests.harness.scripts.test_pyflink_imports import *\n{text}"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    subprocess.run([sys.executable, "-c", given], check=True, env=environment)


def test_nothing_is_left_after_the_outer_block() -> None:
    in_a_new_process(
        "before = builtins.__import__\n"
        "with pyflink_imports():\n"
        "    with pyflink_imports():\n"
        "        pass\n"
        "    run('import pyflink')\n"
        "assert builtins.__import__ is before\n"
        "with pytest.raises(ModuleNotFoundError):\n"
        "    run('import pyflink')\n"
    )


def test_block_that_is_left_by_an_error_leaves_nothing() -> None:
    before = builtins.__import__
    with pytest.raises(ZeroDivisionError), pyflink_imports():
        run("1 / 0")
    assert builtins.__import__ is before


def test_thread_of_the_program_imports_while_the_block_is_open() -> None:
    found: list[Any] = []
    with pyflink_imports():
        thread = threading.Thread(target=lambda: found.append(run(PROGRAM)["Types"]))
        thread.start()
        thread.join()
    assert found == [engine.Types]


def test_module_that_the_program_imports_finds_the_engine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_program.py").write_text("from pyflink.common import Types\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pyflink_imports():
        names = run("from beside_the_program import Types", str(tmp_path / "program.py"))
    assert names["Types"] is engine.Types


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "from pyflink.table.catalog import HiveCatalog",
            "HiveCatalog of PyFlink is missing here: the planner",
        ),
        ("from pyflink.table import BatchTableEnvironment", "belongs to the Table API"),
        ("from pyflink.datastream import SourceFunction", "use Source$"),
        ("from pyflink.common import Nothing", "pyflink.common has no name 'Nothing'"),
        ("import pyflink.fn_execution.beam", "for its own work"),
        ("import pyflink.dataset", "RuntimeExecutionMode.BATCH"),
        ("import pyflink.nothing", "PyFlink has no module 'pyflink.nothing'"),
    ],
)
def test_import_of_what_is_missing_says_why(line: str, reason: str) -> None:
    with pyflink_imports(), pytest.raises(ImportError, match=reason):
        run(line)


def test_where_pyflink_is_installed_the_program_gets_it(tmp_path: Path) -> None:
    (tmp_path / "pyflink.py").write_text("here = True\n")
    in_a_new_process(
        "with pyflink_imports():\n    names = run('import pyflink')\nassert names['pyflink'].here\n", tmp_path
    )


def test_beside_an_installed_pyflink_a_program_on_trial_gets_the_engine(
    tmp_path: Path,
) -> None:
    for folder in ("installed", "jobs", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "installed" / "pyflink.py").write_text("here = True\n")
    job = tmp_path / "jobs" / "job.py"
    job.write_text(
        "import beside\n"
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(beside.kind).print()\n"
        "env.execute()\n"
    )
    (tmp_path / "jobs" / "beside.py").write_text(
        "def kind(value):\n    from pyflink.common import Types\n    return str(Types)\n"
    )
    (tmp_path / "jobs" / "plain.py").write_text("import pyflink\nprint(pyflink.here)\n")
    in_a_new_process(
        "from onceproof.harness.model.family_places import load_family\n"
        f"load_family({str(job)!r})\n"
        f"assert run('import pyflink', {str(tmp_path / 'tests' / 'test_job.py')!r})['pyflink'].here\n"
        "from onceproof.harness.scripts.pyflink_imports import _folders\n"
        f"load_family({f'{job}?argument=--fast'!r})\n"
        "assert len(_folders) == 1\n"
        f"plain = {str(tmp_path / 'jobs' / 'plain.py')!r}\n"
        "assert main(['job', 'run', plain, '--pyflink', 'engine']) == 4\n",
        tmp_path / "installed",
    )


def test_program_on_trial_is_not_tested_on_the_installed_pyflink(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "job.py", "--pyflink", "installed"]) == 4
    assert capsys.readouterr().err == (
        "onceproof: --pyflink installed: what is tested is the engine's graph of a program; on PyFlink it"
        " runs with --system flink\n"
    )


def test_job_run_finds_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(
        f"{PROGRAM}env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(lambda value: row()(value)).map(lambda each: each[0] * 7).print()\n"
        "env.execute()\n"
    )
    before = builtins.__import__
    assert main(["job", "run", "program.py"]) == 0
    assert "14" in capsys.readouterr().out
    assert builtins.__import__ is before
