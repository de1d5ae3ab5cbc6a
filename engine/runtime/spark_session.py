"""Starts and stops Spark, for the engine, the campaign, the oracle and the tests.

The rules this module lives by:

- A session does not depend on the machine's environment: Spark is the one installed with pyspark, Java the
  one that `find_java` finds, and workers run this Python and this source tree.
- A session leaves nothing behind: the output of Java and the workers goes to a file (`spark_log`), Spark's
  files go to one folder in the temporary directory, and stopping the session deletes both. The folder of a
  process that was killed is deleted by the next start, once its Java has ended, too.
- Stopping a session ends the Java process. pyspark would keep it for the next session, which would silently
  run with the old memory, options and folders; and if it was killed, no session could start at all. So a
  session takes seconds to start: share one.
- The settings are those whose effect was measured; the reasons stand beside them.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from onceproof.engine.file_locks import release_lock
from onceproof.engine.runtime.java import JavaInstallation, find_java
from onceproof.engine.runtime.spark_class_archive import (
    home_variables,
    link_home,
    package_folder,
    quick_start_options,
)
from onceproof.engine.runtime.spark_interrupts import is_no_interrupt, kill_launched, own_interrupts
from onceproof.engine.temporary_folders import mark_as_owned, remove_abandoned

# A task is tried four times: plain `local[2]` fails the whole job at the first worker that dies.
LOCAL_MASTER = "local[2,4]"

# A Unix socket's path holds about a hundred characters, and Spark appends some forty to the folder.
_LONGEST_FOLDER = 55

_FOLDER_PREFIX = "onceproof-spark-"
_JAVA = "java"
"""The file in a session's folder with the process id of its Java and the time of its start."""

# Inherited, each of these would turn the launch into something else: another Spark, Spark Connect, a shell.
_FOREIGN_VARIABLES = (
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "PYTHONHOME",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_REMOTE",
    "SPARK_TESTING",
)

# Each error in a query is also written to the standard error, with tens of kilobytes of Java's stack traces;
# the exception says the same in a line.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

_SECONDS_TO_EXIT = 10
_SECONDS_TO_ANSWER = 5


SPARK_ERRORS = (PySparkException, Py4JError)
"""The exceptions of pyspark; `one_line` gives their message."""


class SparkFailed(Exception):
    """Spark did not start, or may not be started. The message is one line."""


@dataclass(frozen=True, slots=True)
class _Running:
    """The running session: its context, its gateway to Java, and its folder."""

    context: SparkContext
    gateway: JavaGateway
    folder: _SessionFolder


class _ProcessSession:
    """Holds the session that this process has started, if it runs."""

    def __init__(self) -> None:
        self.running: _Running | None = None


_session = _ProcessSession()


@contextmanager
def spark_session(
    master: str = LOCAL_MASTER,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
) -> Iterator[SparkSession]:
    """Return a context manager over a session; see start_spark."""
    session = start_spark(master, name, configuration, python_path)
    try:
        yield session
    finally:
        stop_spark()


@contextmanager
def spark_context(
    master: str = LOCAL_MASTER,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
) -> Iterator[SparkContext]:
    """Return a context manager over a Spark without SQL; otherwise like start_spark.

    SQL takes more than a third of the time of a start.
    """
    context = _start(master, name, configuration, python_path)
    try:
        yield context
    finally:
        stop_spark()


def start_spark(
    master: str = LOCAL_MASTER,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
    links: Path | None = None,
) -> SparkSession:
    """Start Spark and return its session.

    Args:
        master: Spark's master, such as ``local[2,4]`` or ``spark://host:port``.
        name: the application's name.
        configuration: Spark options that override those of this module.
        python_path: folders from which workers import modules as well.
        links: a folder with the links to Spark (spark_class_archive.link_home); None: the session's own.

    Raises:
        JavaMissing: there is no Java.
        SparkFailed: no Spark answers at the master's address, Java or Spark does not start, or this process
            runs a Spark already.
    """
    context = _start(master, name, configuration, python_path, links)
    try:
        return SparkSession(context)
    except BaseException:
        stop_spark()
        raise


def _start(
    master: str,
    name: str,
    configuration: Mapping[str, str] | None,
    python_path: Sequence[Path],
    links: Path | None = None,
) -> SparkContext:
    if _session.running is not None or SparkContext._active_spark_context is not None:
        raise SparkFailed(
            "this process already runs a Spark session, and can run only one: stop it first,"
            " or run this in a process of its own"
        )
    java = find_java(os.environ)
    _check_reachable(master)
    folder = _SessionFolder.make()
    try:
        settings = _settings(folder.path, python_path, java) | dict(configuration or {})
        settings |= {"spark.master": master, "spark.app.name": name}
        with _process_environment(_launch_variables(links or folder.path, java)):
            context, gateway = _launch(settings, folder.path)
        folder.note_java(gateway.proc.pid)
    except BaseException:
        folder.remove()
        raise
    _session.running = _Running(context, gateway, folder)
    return context


def running_context() -> SparkContext | None:
    """Return the Spark context of this process, even one that other code started; None if there is none."""
    return SparkContext._active_spark_context


def stop_spark(seconds_to_exit: float = _SECONDS_TO_EXIT) -> None:
    """Stop the session, end its Java process, and remove its folder.

    A Java that does not end within ``seconds_to_exit`` is killed. A Java that is dead already is no error.
    """
    running, _session.running = _session.running, None
    if running is None:
        return
    process: subprocess.Popen[bytes] = running.gateway.proc
    if process.poll() is None:
        session = SparkSession._instantiatedSession
        with suppress(Py4JError, OSError), warnings.catch_warnings():
            # A Java that ends at this moment is no error.
            warnings.simplefilter("ignore", RuntimeWarning)
            (running.context if session is None else session).stop()
    else:
        # Asked to stop Java too, pyspark would wait for a process that no longer answers, and complain.
        running.context._jsc = None
        running.context.stop()
    _end(running.gateway, seconds_to_exit)
    running.folder.remove()


def spark_log() -> str:
    """Return the output of Java and the Python workers of the running session so far."""
    return "" if _session.running is None else _read_log(_session.running.folder.path)


def one_line(error: Exception) -> str:
    """Return the message of an error of Spark and of its causes in one line, without stack traces."""
    if isinstance(error, PythonException):
        # The traceback of a worker ends with the message.
        return str(error).strip().splitlines()[-1]
    if not isinstance(error, Py4JJavaError):
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    try:
        return _causes_of(error)
    except (Py4JError, OSError):
        # Java has ended meanwhile, and takes its message with it.
        return type(error).__name__


def _causes_of(error: Py4JJavaError) -> str:
    said: dict[str, None] = {}
    raised = error.java_exception
    while raised is not None:
        said[_line_of(str(raised.getMessage() or raised.toString()))] = None
        raised = raised.getCause()
    return ": ".join(said)


def _line_of(message: str) -> str:
    """Return the first line of a message; where it is a Python worker's traceback, the error at its end."""
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    traces = [
        place for place, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")
    ]
    for line in lines[traces[-1] + 1 :] if traces else ():
        if not line.startswith((" ", "\t")):
            return line
    return lines[0] if lines else "no message"


# A program that forgets to stop, or ends by an exception, leaves neither processes nor folders.
atexit.register(stop_spark)


class _SessionFolder:
    """The folder of a session, with a SPARK_HOME of links in it so that Spark writes beside them.

    Spark puts the working folders of executors into its home, which for pyspark is the installed package.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = mark_as_owned(str(path))

    @classmethod
    def make(cls) -> _SessionFolder:
        """Make a folder, and remove those of dead processes beside it."""
        here = tempfile.gettempdir()
        base = here if len(here) < _LONGEST_FOLDER - 25 else "/tmp"
        remove_abandoned(base, _FOLDER_PREFIX, _has_living_java)
        folder = cls(Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=base)))
        link_home(folder.path)
        for part in ("local", "warehouse"):
            (folder.path / part).mkdir()
        return folder

    def note_java(self, pid: int) -> None:
        """Note the process that uses the folder beside this one, and ends a moment later if this one dies."""
        with suppress(psutil.Error):
            (self.path / _JAVA).write_text(f"{pid} {psutil.Process(pid).create_time()}")

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        release_lock(self._mark)


def _has_living_java(folder: str) -> bool:
    try:
        pid, started = Path(folder, _JAVA).read_text().split()
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1
    except (OSError, ValueError, psutil.Error):
        return False


def _launch_variables(links: Path, java: JavaInstallation) -> dict[str, str]:
    """Return the environment in which Java starts, from a folder with links to Spark."""
    return {
        **home_variables(links, java),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # The launcher is a Java of its own that lives for a fraction of a second.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "PYSPARK_PYTHON": sys.executable,
        # On YARN, pyspark would send itself as archives; the Python of executors has it installed.
        "PYSPARK_ARCHIVES_PATH": f"local:{package_folder().parent}",
        # Read when the context starts, and handed to every worker.
        "PYTHONHASHSEED": "0",
    }


def _check_reachable(master: str) -> None:
    """Raise SparkFailed if no address of a standalone master answers.

    Spark itself would try for a minute, and then print a stack trace.
    """
    found = re.fullmatch(r"spark://(.+)", master)
    if found is None:
        return
    reasons = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SparkFailed(f"Spark's master {master} has no port: write spark://HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
            return
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
    raise SparkFailed(
        f"no Spark answers at {master} ({', '.join(reasons)}): start it there, or name another master"
    )


def _import_folders() -> list[Path]:
    """Return the folder from which workers import onceproof; none where it is installed in editable mode.

    An editable install needs none: the workers' interpreter finds the package as this one does.
    """
    package = sys.modules[__name__.partition(".")[0]]
    folder = Path(package.__file__ or "").absolute().parent
    return [folder.parent] if folder.name == package.__name__ else []


def _imports_from_working_folder() -> bool:
    """Return whether this process finds modules in its working directory, where its workers start.

    Where it does not, they do not either: a json.py there must not stand in for Python's.
    """
    here = Path.cwd()
    return any(Path(each or here) == here for each in sys.path)


def _settings(folder: Path, python_path: Sequence[Path], java: JavaInstallation) -> dict[str, str]:
    """Return the settings of every session, as Spark names them."""
    log4j2 = Path(__file__).with_name("log4j2.properties").as_uri()
    java_options = " ".join(
        [
            *quick_start_options(java),
            "-Duser.timezone=UTC",
            f"-Djava.io.tmpdir={folder / 'local'}",
            f"-Dlog4j2.configurationFile={log4j2}",
        ]
    )
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options,
        "spark.executor.extraJavaOptions": java_options,
        **({} if _imports_from_working_folder() else {"spark.executorEnv.PYTHONSAFEPATH": "1"}),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, [*_import_folders(), *python_path])),
        "spark.local.dir": str(folder / "local"),
        # Jobs that run side by side, each in a pool of its own, share the cores; else one waits for another.
        "spark.scheduler.mode": "FAIR",
        # Halves the time of a trivial job, and is off by default.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder / "local"),
        "spark.sql.ansi.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # The default of 200 makes small queries wait for 200 small tasks.
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _launch(settings: Mapping[str, str], folder: Path) -> tuple[SparkContext, JavaGateway]:
    """Start Java and in it Spark, or leave nothing behind."""
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger().addFilter(is_no_interrupt)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = None
    try:
        with (folder / "log").open("ab") as log:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": subprocess.STDOUT})
        with own_interrupts():
            return SparkContext(conf=conf, gateway=gateway), gateway
    except Exception as failure:
        # Read the message while Java lives: an error of a Java that has ended cannot be printed any more, not
        # even as the cause of another.
        reason = _reason(failure, _read_log(folder))
        _end(gateway)
        raise SparkFailed(f"Spark did not start: {reason}") from None
    except BaseException:
        if gateway is None:
            kill_launched(folder)
        _end(gateway)
        raise


def _reason(failure: Exception, log: str) -> str:
    """Return pyspark's message and Java's last lines in one line, without stack traces."""
    if isinstance(failure, Py4JJavaError):
        # A Java that was killed cannot say it any more.
        with suppress(Py4JError, OSError):
            return str(failure.java_exception.toString())
    said = [line for line in log.strip().splitlines() if not line.startswith(("\t", " "))]
    first = (str(failure).splitlines() or [type(failure).__name__])[0]
    return f"{first} Java said: {' / '.join(said[-3:])}"


def _end(gateway: JavaGateway | None, seconds_to_exit: float = _SECONDS_TO_EXIT) -> None:
    """End the Java of a gateway, kill it if needed, and reset pyspark's references to it."""
    if gateway is None:
        return
    process: subprocess.Popen[bytes] = gateway.proc
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    # Closing its standard input does not suffice: processes forked from this one hold it open as well.
    process.terminate()
    try:
        process.wait(seconds_to_exit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _read_log(folder: Path) -> str:
    return (folder / "log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def _process_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process for a while, because pyspark starts Java with them."""
    names = (*variables, *_FOREIGN_VARIABLES)
    before = {name: os.environ.get(name) for name in names}
    for name in _FOREIGN_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
