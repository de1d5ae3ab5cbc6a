"""Starts and stops Spark, for the engine, the campaign, the oracle and the tests.

The rules this module lives by:

- A session does not depend on the machine's environment: Spark is the one installed with pyspark, Java the
  one that `find_java` finds, and workers run this Python and this source tree. What a user wants otherwise
  are options (spark_settings.py).
- Who may use a Spark that is there *obtains* it: the one that this process runs, or the one that spark-submit
  has prepared; only if there is none, one is started. Who needs a Spark of its own starts it.
- A session leaves nothing behind: the output of Java and the workers goes to a file (`spark_log`), Spark's
  files go to one folder in the temporary directory, and stopping the session deletes both. The folder of a
  process that was killed is deleted by the next start, once its Java has ended, too.
- Stopping a session ends the Java process. pyspark would keep it for the next session, which would silently
  run with the old memory, options and folders; and if it was killed, no session could start at all. So a
  session takes seconds to start: share one.
- A Spark on a cluster runs one task before it is handed out: executors that do not come, or cannot run
  Python, end the start with the reason (spark_executors.py).
"""

from __future__ import annotations

import atexit
import ipaddress
import logging
import os
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_executors import ExecutorWatch, first_task, timeout_of
from onceproof.engine.runtime.spark_settings import (
    EVERYWHERE,
    FOREIGN_VARIABLES,
    MASTER,
    PYTHON,
    SQL_SETTINGS,
    SparkOptions,
    is_local,
    launch_variables,
    properties_text,
    settings_of,
    worker_variables,
)
from onceproof.engine.runtime.spark_surroundings import (
    SessionFolder,
    is_not_raised_as_well,
    kill_launched,
    own_interrupts,
)

# Each error in a query is also written to the standard error, with tens of kilobytes of Java's stack traces;
# the exception says the same in a line.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

_CANCELLED = re.compile(r"\[SPARK_JOB_CANCELLED\] Job \d+ cancelled (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)

_SECONDS_TO_EXIT = 10
_SECONDS_TO_ANSWER = 5

_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit tells a program where its Java listens."""


SPARK_ERRORS = (PySparkException, Py4JError)
"""The exceptions of pyspark; `one_line` gives their message."""


class SparkFailed(Exception):
    """Spark did not start, or may not be started. The message is one line."""


@dataclass(frozen=True, slots=True)
class _Running:
    """The running session: its context; its gateway and its folder, if its Java was started here."""

    context: SparkContext
    watch: ExecutorWatch | None
    gateway: JavaGateway | None = None
    folder: SessionFolder | None = None


class _ProcessSession:
    """Holds the session that this process has started, if it runs."""

    def __init__(self) -> None:
        self.running: _Running | None = None


_session = _ProcessSession()


@contextmanager
def spark_session(
    master: str | None = None,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
) -> Iterator[SparkSession]:
    """Return a context manager over a new session; see start_spark."""
    session = start_spark(master, name, configuration, python_path)
    try:
        yield session
    finally:
        stop_spark()


@contextmanager
def spark_context(
    master: str | None = None,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
) -> Iterator[SparkContext]:
    """Return a context manager over a new Spark without SQL; otherwise like start_spark.

    SQL takes more than a third of the time of a start.
    """
    context = _start(SparkOptions(master, configuration or {}), name, python_path)
    try:
        yield context
    finally:
        stop_spark()


@contextmanager
def obtained_session(
    options: SparkOptions, name: str, given: SparkSession | None = None
) -> Iterator[SparkSession]:
    """Return a context manager over a session beside a given one, or in the Spark of obtained_context.

    It has our SQL settings, and temporary views of its own. Raises ConfigurationError for a given session of
    Spark Connect.
    """
    if given is not None:
        yield _session_beside(given)
        return
    with obtained_context(options, name) as context:
        yield _session_beside(SparkSession(context))


@contextmanager
def obtained_context(
    options: SparkOptions, name: str, python_path: Sequence[Path] = ()
) -> Iterator[SparkContext]:
    """Return a context manager over the Spark of this process, that of spark-submit, or a new one.

    A Spark that was there stays. Raises the errors of start_spark, and ConfigurationError where the options
    contradict the Spark that is there.
    """
    running = running_context()
    if running is not None:
        _check_options(options, running.master, "this process already runs a Spark: stop it first")
        yield running
        return
    is_submitted = _GATEWAY_PORT in os.environ
    context = _start_submitted(options) if is_submitted else _start(options, name, python_path)
    try:
        yield context
    finally:
        stop_spark()


def _session_beside(session: SparkSession) -> SparkSession:
    if not isinstance(session, SparkSession):
        raise ConfigurationError(
            "a session of Spark Connect is not supported, because it runs no RDD jobs: give one of a cluster"
        )
    own = session.newSession()
    for name, value in SQL_SETTINGS.items():
        own.conf.set(name, value)
    return own


def start_spark(
    master: str | None = None,
    name: str = "onceproof",
    configuration: Mapping[str, str] | None = None,
    python_path: Sequence[Path] = (),
    links: Path | None = None,
) -> SparkSession:
    """Start Spark and return its session.

    Args:
        master: Spark's master, such as ``local[2,4]`` or ``spark://host:port``; None: that of the
            configuration, or all cores of this machine.
        name: the application's name.
        configuration: Spark options that override ours.
        python_path: folders from which workers import modules as well.
        links: a folder with the links to Spark (spark_class_archive.link_home); None: the session's own.

    Raises:
        JavaMissing: there is no Java.
        ConfigurationError: the master is a Spark Connect server, or an option is wrong.
        SparkFailed: no Spark answers at the master's address, it gives no executor in time, Java or Spark
            does not start, or this process runs a Spark already.
    """
    context = _start(SparkOptions(master, configuration or {}), name, python_path, links)
    try:
        return SparkSession(context)
    except BaseException:
        stop_spark()
        raise


def _start(
    options: SparkOptions, name: str, python_path: Sequence[Path], links: Path | None = None
) -> SparkContext:
    if _session.running is not None or SparkContext._active_spark_context is not None:
        raise SparkFailed(
            "this process already runs a Spark session, and can run only one: stop it first,"
            " or run this in a process of its own"
        )
    master = options.chosen_master()
    timeout_of(options.configuration)
    java = find_java(os.environ)
    address = _address_towards(master)
    folder = SessionFolder.make()
    try:
        properties = folder.path / "session.properties"
        settings = settings_of(options, name, folder.path, python_path, java, address)
        properties.write_text(properties_text(settings), encoding="utf-8")
        variables = launch_variables(options, links or folder.path, folder.path, properties, java)
        with _process_environment(variables, FOREIGN_VARIABLES):
            context, gateway = _launch(settings, folder.path)
        folder.note_java(gateway.proc.pid)
    except BaseException:
        folder.remove()
        raise
    return _watched(_Running(context, _watch_of(context), gateway, folder))


def _start_submitted(options: SparkOptions) -> SparkContext:
    """Start the Spark that spark-submit has prepared, with the settings that the user gave to it."""
    gateway = launch_gateway()
    conf = SparkConf(_jvm=gateway.jvm)
    _check_options(options, conf.get(MASTER), "spark-submit has prepared Spark: give it to spark-submit")
    for key, value in {**EVERYWHERE, **SQL_SETTINGS}.items():
        conf.setIfMissing(key, value)
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    try:
        with _process_environment(worker_variables(python)), own_interrupts():
            context = SparkContext(conf=conf, gateway=gateway)
    except SPARK_ERRORS as error:
        raise SparkFailed(f"Spark did not start: {one_line(error)}") from None
    return _watched(_Running(context, _watch_of(context)))


def _check_options(options: SparkOptions, master: str | None, remedy: str) -> None:
    """Raise ConfigurationError if options ask for another Spark than the one that is there."""
    asked = options.chosen_master() if options.master or MASTER in options.configuration else None
    if asked not in (None, master):
        raise ConfigurationError(f"the master cannot be {asked}, it is {master}: {remedy}")
    others = sorted(options.configuration.keys() - {MASTER})
    if others:
        raise ConfigurationError(f"option {others[0]!r} would have no effect: {remedy}")


def _watch_of(context: SparkContext) -> ExecutorWatch | None:
    return None if is_local(context.master or "") else ExecutorWatch(context, spark_log)


def _watched(running: _Running) -> SparkContext:
    """Register a session, and run one task if it is on a cluster."""
    _session.running = running
    context = running.context
    if running.watch is None:
        return context
    try:
        context.parallelize([0], 1).map(first_task).collect()
    except SPARK_ERRORS as error:
        reason = one_line(error)
        if not running.watch.has_cancelled:
            reason = (
                f"the first task on {context.master} failed: {reason}: executors need a Python"
                f" {sys.version_info[0]}.{sys.version_info[1]} that has onceproof; --conf {PYTHON} names it"
            )
        stop_spark()
        raise SparkFailed(reason) from None
    except BaseException:
        stop_spark()
        raise
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
    if running.watch is not None:
        running.watch.stop()
    process: subprocess.Popen[bytes] | None = None if running.gateway is None else running.gateway.proc
    if process is None or process.poll() is None:
        session = SparkSession._instantiatedSession
        with suppress(Py4JError, OSError), warnings.catch_warnings():
            # A Java that ends at this moment is no error.
            warnings.simplefilter("ignore", RuntimeWarning)
            (running.context if session is None else session).stop()
    else:
        # Asked to stop Java too, pyspark would wait for a process that no longer answers, and complain.
        running.context._jsc = None
        running.context.stop()
    # The Java of spark-submit ends when this process has ended.
    _end(running.gateway, seconds_to_exit)
    if running.folder is not None:
        running.folder.remove()


def spark_log() -> str:
    """Return the output of Java and the Python workers of the running session so far."""
    running = _session.running
    return "" if running is None or running.folder is None else _read_log(running.folder.path)


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
    """Return the first line of a message; where it is a Python worker's traceback, the error at its end.

    Of the message of a cancelled job it is the reason for which it was cancelled.
    """
    cancelled = _CANCELLED.search(message)
    if cancelled is not None:
        return cancelled[1]
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


def _address_towards(master: str) -> str | None:
    """Return the address of this machine in a connection to a standalone master; None: let Spark choose.

    Raises SparkFailed if no address of the master answers: Spark itself would try for a minute, and then
    print a stack trace.
    """
    found = re.fullmatch(r"spark://(.+)", master)
    if found is None:
        return None
    reasons = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SparkFailed(f"Spark's master {master} has no port: write spark://HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER) as connection:
                own = str(connection.getsockname()[0])
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
        else:
            # A master on this machine says nothing about the way from the workers to here.
            return None if ipaddress.ip_address(own).is_loopback else own
    raise SparkFailed(
        f"no Spark answers at {master} ({', '.join(reasons)}): start it there, or name another master"
    )


def _launch(settings: Mapping[str, str], folder: Path) -> tuple[SparkContext, JavaGateway]:
    """Start Java and in it Spark, or leave nothing behind."""
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger().addFilter(is_not_raised_as_well)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = None
    try:
        with (folder / "log").open("ab") as log:
            gateway = launch_gateway(None, {"stdout": log, "stderr": subprocess.STDOUT})
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
def _process_environment(variables: Mapping[str, str], removed: Sequence[str] = ()) -> Iterator[None]:
    """Set and remove environment variables of this process for a while: pyspark starts Java with them."""
    before = {name: os.environ.get(name) for name in (*variables, *removed)}
    for name in removed:
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
