"""Records what programs print on real Flink, into ``recorded_programs.json``.

It needs Java 17 and an environment of its own, because PyFlink's requirements clash with the project's::

    python3 -m venv /tmp/pyflink && /tmp/pyflink/bin/pip install apache-flink==2.3.0
    /tmp/pyflink/bin/python -m tests.conformance.record_programs [--check] [PROGRAM ...]

Three kinds of programs are recorded: the examples of PyFlink's wheel, the textbook's programs, and those
below ``programs``. Each runs unchanged in an embedded cluster. A run is a fact: program, parallelism, the
lines that it printed, and whether their order is the program's or chance. The named ones are recorded anew,
the others keep what they have. With ``--check`` runs are compared with the facts instead.

The rules it lives by:

- The source is PyFlink's ``from_collection``, because PyFlink has none in Python. Where event time matters
  the records are a pause apart, and a watermark follows each.
- Lines are those of the JVM's stdout, without the number of the subtask before them.
- Functions run in processes of their own, as is Flink's default. A program whose FUNCTIONS is ``thread`` has
  them in the JVM's process, because the worker processes of PyFlink depart from Flink there: their timers
  that are due at once fire with the next watermark, and their cache of state knows no time to live.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import runpy
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance import pyflink_names, textbook_input

HERE = Path(__file__).parent
FACTS = HERE / "recorded_programs.json"
REMARKS = (
    "Printing result to stdout.",
    "Executing word_count",
    "Use --input",
    "Using Any for unsupported type",
    "No module named google",
    "PYFLINK_CYTHON_ENABLED",
)
"""What programs and Python's packages say about themselves."""
SUBTASK = re.compile(r"^\d+> ")
EACH_RECORD = {
    "pipeline.auto-watermark-interval": "1 ms",
    "execution.buffer-timeout.interval": "0 ms",
    "python.fn-execution.bundle.size": "1",
}
"""Options by which each record goes through a program by itself; the wheel's examples have Flink's own."""
PAUSE_SECONDS = 0.25


class Run(NamedTuple):
    """One run of a program: what makes it, and whether the order of its lines is its own."""

    program: str
    parallelism: int
    in_order: bool
    execute: Callable[[], None]
    functions: str = "process"

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the job, besides those that name Python."""
        each_record = {} if self.program.startswith("wheel/") else EACH_RECORD
        return {**each_record, "rest.port": "0", "python.execution-mode": self.functions}


def textbook(name: str) -> Any:
    """Return the module of a program of the textbook."""
    return importlib.import_module(f"{pyflink_names.TEXTBOOK}.{name}")


def environment() -> Any:
    """Return an environment with the recorder's options."""
    from pyflink.datastream import StreamExecutionEnvironment

    return StreamExecutionEnvironment.get_execution_environment()


def on_lines(name: str, lines: list[str], is_batch: bool = False) -> Callable[[], None]:
    """Run a program on lines of text."""

    def execute() -> None:
        from pyflink.common import Types
        from pyflink.datastream import RuntimeExecutionMode

        env = environment()
        if is_batch:
            env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        textbook(name).build(env.from_collection(lines, Types.STRING())).print()
        env.execute(name)

    return execute


def on_clicks(name: str, clicks: list[tuple[str, str, int]]) -> Callable[[], None]:
    """Run a program on clicks, with a watermark behind each."""

    def execute() -> None:
        module, env = textbook(name), environment()
        module.build(paced(env, clicks, textbook("click_source").CLICK)).print()
        env.execute(name)

    return execute


def on_views() -> None:
    """Run the page views on the views of all partitions in the order of time."""
    module, env = textbook("page_views"), environment()
    views = sorted(module.PARTITIONS * module.views_of_partition())
    module.build(paced(env, views, module.VIEW, 0)).print()
    env.execute("page views")


def paced(env: Any, values: list[Any], value_type: Any, field: int = 2) -> Any:
    """Return a stream whose watermark follows each record."""
    from tests.conformance.programs import _paced

    return _paced.paced(env, values, value_type, field)


def main_of(name: str, *arguments: list[str]) -> Callable[[], None]:
    """Run a program of the textbook as it is."""
    return lambda: textbook(name).main(*arguments)


def wheel(name: str) -> Callable[[], None]:
    """Run an example of the wheel."""

    def execute() -> None:
        import pyflink

        path = Path(pyflink.__file__).parent / "examples" / "datastream" / name
        sys.argv = [str(path)]
        runpy.run_path(str(path), run_name="__main__")

    return execute


def program(name: str) -> Callable[[], None]:
    """Run a program of this folder."""

    def execute() -> None:
        env = environment()
        importlib.import_module(f"tests.conformance.programs.{name}").build(env)
        env.execute(name)

    return execute


def runs() -> Iterator[Run]:
    """Yield the runs."""
    for name in ("basic_operations", "process_json_data", *WINDOWS):
        yield Run(f"wheel/{name}.py", 1, True, wheel(f"{name}.py"))
    for name in ("event_time_timer", "state_access", "word_count"):
        yield Run(f"wheel/{name}.py", 1, False, wheel(f"{name}.py"))
    for name in ("event_time_timer", "process_json_data", "state_access"):
        yield Run(f"wheel/{name}.py", 2, False, wheel(f"{name}.py"))
    for name in KEYED:
        yield Run(f"textbook/{name}.py", 1, True, main_of(name))
    yield Run("textbook/average_by_reducing_state.py", 1, True, main_of("average_by_reducing_state"))
    lesson = main_of("average_by_reducing_state", ["lesson"])
    yield Run("textbook/average_by_reducing_state.py lesson", 1, True, lesson)
    yield Run("textbook/full_join.py", 1, False, main_of("full_join"))
    yield Run("textbook/two_phase_commit.py", 1, True, main_of("two_phase_commit"))
    clicks, urls = textbook_input.SIXTEEN_CLICKS, textbook_input.CLICKS_ON_TWO_URLS
    yield Run("textbook/average_timestamp.py", 1, True, on_clicks("average_timestamp", clicks))
    views = textbook_input.VIEWS
    yield Run("textbook/periodic_page_views.py", 1, True, on_clicks("periodic_page_views", views))
    yield Run("textbook/window_by_map.py", 1, False, on_clicks("window_by_map", urls))
    numbers = on_lines("greatest_of_five", textbook_input.NUMBERS_OF_WORDS)
    yield Run("textbook/greatest_of_five.py", 1, True, numbers)
    yield Run("textbook/mean_of_three.py", 1, True, on_lines("mean_of_three", textbook_input.ONE_TO_SIX))
    yield Run("textbook/page_views.py", 1, False, on_views)
    words = textbook_input.LINES_OF_WORDS
    yield Run("textbook/word_counts.py", 1, True, on_lines("word_counts", words))
    yield Run("textbook/word_counts.py batch", 1, False, on_lines("word_counts", words, is_batch=True))
    for path in sorted((HERE / "programs").glob("[a-z]*.py")):
        settings = importlib.import_module(f"tests.conformance.programs.{path.stem}")
        for parallelism in settings.PARALLELISMS:
            in_order = settings.IN_ORDER and parallelism == 1
            functions = getattr(settings, "FUNCTIONS", "process")
            yield Run(f"programs/{path.name}", parallelism, in_order, program(path.stem), functions)


WITHOUT_A_TYPE = ("behaviour_patterns", "hello_world")
"""The programs that cannot be loaded, because PyFlink's Types lacks VOID."""
WINDOWS = (
    "windowing/session_with_dynamic_gap_window",
    "windowing/session_with_gap_window",
    "windowing/sliding_time_window",
    "windowing/tumbling_count_window",
    "windowing/tumbling_time_window",
)
KEYED = (
    "average_by_list",
    "average_by_map",
    "average_by_value",
    "concatenation",
    "count_to_100",
    "time_to_live",
)


class Recorder:
    """Runs programs in the cluster of one JVM, whose stdout is a file."""

    def __init__(self) -> None:
        self._parallelism = 1
        self._options: dict[str, str] = {}
        self._terminal = os.fdopen(os.dup(1), "w")
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (open as long as the JVM)
        # The JVM inherits it.
        os.dup2(self._output.fileno(), 1)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if "site-packages" in path)
        self._patch()

    def tell(self, line: str) -> None:
        """Print a line on the terminal."""
        self._terminal.write(f"{line}\n")
        self._terminal.flush()

    def _patch(self) -> None:
        from pyflink.common import Configuration
        from pyflink.common.typeinfo import TypeInformation
        from pyflink.datastream import StreamExecutionEnvironment

        original = StreamExecutionEnvironment.get_execution_environment

        def with_options(configuration: Any = None) -> Any:
            given = configuration or Configuration()
            options = {
                **self._options,
                "python.executable": sys.executable,
                "python.client.executable": sys.executable,
            }
            for key, value in options.items():
                given.set_string(key, value)
            env = original(given)
            env.set_parallelism(self._parallelism)
            return env

        StreamExecutionEnvironment.get_execution_environment = staticmethod(with_options)
        # A type that is a global of a program keeps its Java object, and no function is pickled with that.
        TypeInformation.__getstate__ = lambda self: {**self.__dict__, "_j_typeinfo": None}

    def lines_of(self, run: Run) -> list[str]:
        """Run a program and return the lines that it prints about its data."""
        from pyflink.java_gateway import get_gateway

        self._parallelism, self._options = run.parallelism, run.options
        start = os.fstat(1).st_size
        run.execute()
        sys.stdout.flush()
        get_gateway().jvm.System.out.flush()
        text = os.pread(1, os.fstat(1).st_size - start, start).decode()
        lines = [line for line in text.splitlines() if not line.startswith(REMARKS)]
        lines = [SUBTASK.sub("", line) for line in lines]
        return lines if run.in_order else sorted(lines)


def load_programs() -> None:
    """Load all programs; their functions travel by value, as Flink's workers know no module of them."""
    import cloudpickle

    for path in sorted((pyflink_names.ROOT / "scenarios" / "textbook").glob("*.py")):
        if path.stem not in ("__init__", *WITHOUT_A_TYPE):
            textbook(path.stem)
    importlib.import_module("tests.conformance.programs._paced").PAUSE_SECONDS = PAUSE_SECONDS
    list(runs())
    for name, module in list(sys.modules.items()):
        if name.startswith(("onceproof", "tests.conformance.programs")):
            cloudpickle.register_pickle_by_value(module)


def facts() -> dict[tuple[str, int], dict[str, Any]]:
    """Return what is recorded, by program and parallelism."""
    content = json.loads(FACTS.read_text(encoding="utf-8")) if FACTS.exists() else {"runs": []}
    return {(fact["program"], fact["parallelism"]): fact for fact in content["runs"]}


def keep(fact: dict[str, Any]) -> None:
    """Write a fact into the file, in place of the one before."""
    kept = {**facts(), (fact["program"], fact["parallelism"]): fact}
    content = {"runs": [kept[place] for place in sorted(kept)]}
    FACTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Record the named programs, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", nargs="*", help="how their names in the file of facts begin; all if none")
    parser.add_argument("--check", action="store_true", help="compare with the facts and write nothing")
    chosen = parser.parse_args()
    pyflink_names.install()
    recorder = Recorder()
    load_programs()
    from pyflink.version import __version__ as version

    for run in runs():
        if chosen.programs and not run.program.startswith(tuple(chosen.programs)):
            continue
        place, began = f"{run.program} p{run.parallelism}", time.monotonic()
        try:
            lines = recorder.lines_of(run)
        except Exception:
            recorder.tell(f"{place} fails: {traceback.format_exc()[-3000:]}")
            continue
        if chosen.check:
            recorded = facts().get((run.program, run.parallelism), {}).get("output")
            verdict = "as recorded" if lines == recorded else f"{lines}, recorded: {recorded}"
        else:
            verdict = f"{len(lines)} lines"
            keep(
                {
                    "program": run.program,
                    "parallelism": run.parallelism,
                    "flink": version,
                    "functions": run.functions,
                    "order": "as printed" if run.in_order else "sorted",
                    "output": lines,
                }
            )
        recorder.tell(f"{place}: {verdict}, {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
