"""A user's script in PyFlink, as it is: its sources give the records of a scenario, and its sinks write rows.

The rules this module lives by:

- The script runs as the main module, so its functions travel with their code, as those of any program do.
- Its sources and sinks are known by the order in which it makes them.
- What a scenario decides, such as parallelism, checkpoints and restarts, holds in place of what the script
  says: its calls do nothing, and the configuration is set again when it executes its job.
- An operator without a parallelism of its own that reads another one directly has as many subtasks as that
  one, as on the engine: otherwise the records of a key would lose their order.
"""

import ast
import importlib
import importlib.util
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

from engine_names import Inert, NoCounterpart
from job_ends import AttachedSink, FlinkEnvironment, as_tuple, files_in, line_of
from plain_sources import RecordsOfScenario
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.data_stream import DataStream, KeyedStream
from pyflink.java_gateway import get_gateway

_ROWS = Path(__file__).parents[3] / "scripts" / "rows.py"
_SETTINGS = (
    "set_parallelism",
    "set_max_parallelism",
    "enable_checkpointing",
    "set_state_backend",
    "set_restart_strategy",
    "set_buffer_timeout",
    "set_default_savepoint_directory",
    "enable_changelog_state_backend",
    "configure",
    "add_jars",
    "add_classpaths",
    "add_python_file",
)
"""The calls of an environment that a scenario answers itself."""
_SINKS = ("print", "add_sink", "sink_to", "execute_and_collect")
_FORWARD = "ForwardPartitioner"


class _Taken(BaseException):
    """The script has executed its job: it ends here."""


def rows_module():
    """Return the module that makes rows, in which the engine's names are PyFlink's."""
    if "script_rows" not in sys.modules:
        spec = importlib.util.spec_from_file_location("script_rows", _ROWS)
        module = importlib.util.module_from_spec(spec)
        sys.modules["script_rows"] = module
        spec.loader.exec_module(module)
    return sys.modules["script_rows"]


class ScriptEnvironment(FlinkEnvironment):
    """The environment that a script gets."""

    def __init__(self, java_environment, order, configuration):
        super().__init__(java_environment, order)
        self._configuration = configuration
        self._script = order["script"]
        self._written = 0

    def from_collection(self, collection, type_info=None):
        return self._records(type_info, None, list(collection)).set_parallelism(1)

    def from_source(self, source, watermark_strategy, source_name, type_info=None):
        return self._records(type_info, watermark_strategy)

    def add_source(self, source_func, source_name="Custom Source", type_info=None):
        return self._records(type_info, None)

    def create_input(self, input_format, type_info=None):
        return self._records(type_info, None)

    def _records(self, type_info, strategy, collection=()):
        """Return the stream of the next source of the script."""
        sources = self._script["sources"]
        # A job that is not on trial may have more of them, and is never run.
        source = sources[min(len(self._streams), len(sources) - 1)]
        prefix = source["prefix"]
        splits = {
            split: [(_restored(source, as_tuple(value), collection), time) for time, value in records]
            for split, records in self._order["records"].items()
            if split.startswith(prefix)
        }
        stream = super().from_source(RecordsOfScenario(splits), strategy, prefix.rstrip("."))
        # Behind a source of pickled values its type is declared once more.
        return stream if type_info is None else stream.map(_same, type_info)

    def write(self, stream):
        """Write a stream to the rows of the scenario, in place of the next sink of the script."""
        sinks = self._script["sinks"]
        tag = sinks[min(self._written, len(sinks) - 1)] if len(sinks) > 1 else None
        self._written += 1
        lines = stream.map(partial(_line, rows_module().row_of, tag), Types.STRING())
        return _ScriptSink(lines, _SINK_TO(lines, files_in(self._order["output"])))

    def execute(self, job_name=None):
        return self.execute_async(job_name)

    def execute_async(self, job_name=None):
        """End the script if this is the job on trial; otherwise forget the job."""
        if self._script["job"] in ("", job_name):
            self._settle()
            raise _Taken
        self._generate_stream_graph(clear_transformations=True)
        self._streams.clear()
        self._written = 0
        return Inert()

    def _settle(self):
        java = self._j_stream_execution_environment
        java.configure(
            self._configuration._j_configuration,
            get_gateway().jvm.Thread.currentThread().getContextClassLoader(),
        )
        java.setParallelism(self._order["parallelism"])
        java.setMaxParallelism(self._order["max_parallelism"])
        for transformation in java.getTransformations():
            size = _size_of_input(transformation)
            if self._script["single"]:
                transformation.setParallelism(1)
            elif size is not None and not transformation.isParallelismConfigured():
                transformation.setParallelism(size, False)


def _ignored(environment, *arguments, **named):
    return environment


for _setting in _SETTINGS:
    setattr(ScriptEnvironment, _setting, _ignored)
_SINK_TO = DataStream.sink_to


def _size_of_input(transformation):
    """Return the parallelism of what an operator reads directly; None if it reads by key, or nothing."""
    inputs = transformation.getInputs()
    while inputs:
        read = inputs[0]
        kind = read.getClass().getSimpleName()
        if kind == "PartitionTransformation":
            if read.getPartitioner().getClass().getSimpleName() != _FORWARD:
                return None
        elif kind not in ("SideOutputTransformation", "UnionTransformation"):
            return read.getParallelism()
        inputs = read.getInputs()
    return None


class _ScriptSink(AttachedSink):
    """A sink on which the script may set more than a family does."""

    def __getattr__(self, setting):
        return lambda *arguments: self


def _restored(source, value, collection):
    """Return a value of the script for what a scenario holds."""
    match source["held_as"]:
        case "row":
            names = source["names"]
            return Row(**dict(zip(names, value, strict=True))) if names else Row(*value)
        case "literal":
            return ast.literal_eval(value)
        case "number":
            if not collection:
                raise NoCounterpart("its records are objects that only its own source makes")
            return collection[value]
    return value


def _same(value):
    return value


def _line(row_of, tag, value):
    return line_of(row_of(tag, value))


def run_script(environment, path, script):
    """Run a script up to its job. Raises NoCounterpart if it ends before."""
    text = path.read_bytes()
    module = ModuleType("__main__")
    module.__file__ = str(path)
    with _standing_in(environment), _main_module(module, [str(path), *script["arguments"]]):
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except _Taken:
            return
        except SystemExit as error:
            raise NoCounterpart(f"the program ends with {error.code!r} before it executes its job") from None
    raise NoCounterpart("the program does not execute its job")


def modules_beside(path):
    """Return the modules beside a script that it imports: their functions travel with their code as well."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        found += [importlib.import_module(name) for name in names if (path.parent / f"{name}.py").is_file()]
    return found


@contextmanager
def _main_module(module, arguments):
    before, given = sys.modules["__main__"], sys.argv
    sys.modules["__main__"], sys.argv = module, arguments
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv = before, given


@contextmanager
def _standing_in(environment):
    """Let the script find the environment and the sinks of the harness."""
    found = StreamExecutionEnvironment.get_execution_environment
    kept = [(each, name, each.__dict__.get(name)) for each in (DataStream, KeyedStream) for name in _SINKS]
    StreamExecutionEnvironment.get_execution_environment = staticmethod(lambda *_, **__: environment)
    for stream, name, _ in kept:
        setattr(stream, name, lambda own, *_, **__: environment.write(own))
    try:
        yield
    finally:
        StreamExecutionEnvironment.get_execution_environment = staticmethod(found)
        for stream, name, method in kept:
            if method is None:
                delattr(stream, name)
            else:
                setattr(stream, name, method)
