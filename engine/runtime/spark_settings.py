"""The settings of a Spark session, and the environment in which its Java starts.

Rules:

- What a user sets wins over everything here. Options for Java are added to ours.
- Executors on a cluster get nothing that holds only on the driver's machine: neither its temporary folder nor
  the loopback address. On one machine both are used, so that nothing listens to the network.
- The driver of a standalone cluster is found at the address of this machine by which it reaches the master,
  because the workers are beside the master. Elsewhere Spark chooses, as it does where the environment names
  the address.
- The settings are those whose effect was measured; the reasons stand beside them.
- Options come from `--conf` and from a file that is named; `--conf` wins. A spark-defaults.conf that is not
  named is not read, because a session does not depend on the machine's environment.
- A file is read as spark-submit reads it: a file of Java properties in UTF-8. Keys of other programs are
  ignored.
- The master is the one that is named; else `spark.master` of the options; else all cores of this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.engine.configuration import SPARK_CONF, SPARK_MASTER, Configuration, ConfigurationError
from onceproof.engine.runtime.java import JavaInstallation
from onceproof.engine.runtime.spark_class_archive import home_variables, package_folder, quick_start_options

LOCAL_MASTER: Final = "local[*,4]"
"""All cores of this machine. A task is tried four times: plain `local[*]` fails the whole job at the first
worker that dies."""

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
_PREFIX: Final = "spark."

_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"(?=[=: #!\\])")
_BACKSLASH: Final = r"\\"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """A master, or None for the one in the options, and Spark's options by their names."""

    master: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, master: str | None, settings: Sequence[str] = (), properties_file: Path | None = None
    ) -> SparkOptions:
        """Return the options of a command line. Raises ConfigurationError.

        ``settings`` are KEY=VALUE each, and win over the file.
        """
        configuration = {} if properties_file is None else read_properties(properties_file)
        return cls(master, configuration | dict(map(_key_and_value, settings)))

    def chosen_master(self) -> str:
        """Return the master of a new session. Raises ConfigurationError for a Spark Connect server."""
        master = self.master or self.configuration.get(MASTER) or LOCAL_MASTER
        for address in (master, self.configuration.get(REMOTE, "")):
            if address.startswith("sc://"):
                raise ConfigurationError(
                    f"Spark Connect ({address}) is not supported, because its sessions run no RDD jobs: name"
                    " the cluster's master instead, such as spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
                )
        return master


NO_OPTIONS: Final = SparkOptions()


def spark_options(configuration: Configuration) -> SparkOptions:
    """Return what the configuration of a job asks of Spark."""
    conf: dict[str, str] | None = configuration.get(SPARK_CONF)
    return SparkOptions(configuration.get(SPARK_MASTER), conf or {})


def is_local(master: str) -> bool:
    """Return whether the driver, and all executors that a master starts, run on this machine."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


def read_properties(path: Path) -> dict[str, str]:
    """Return Spark's options in a file such as conf/spark-defaults.conf. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"--properties-file {path}: cannot be read: {said}") from None
    found = {}
    for line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        key, value = (
            (line, "") if separator is None else (line[: separator.start(1)], line[separator.end(1) :])
        )
        found[_unescaped(key)] = _unescaped(value).strip()
    return {key: value for key, value in found.items() if key.startswith(_PREFIX)}


def properties_text(configuration: Mapping[str, str]) -> str:
    """Return options as the text of a file that Java reads as these options."""
    lines = []
    for key, value in configuration.items():
        # A space at the beginning of a value would be taken for the separator.
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{_SPECIAL.sub(_BACKSLASH, key)}={escaped}\n")
    return "".join(lines)


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    key = key.strip()
    if not separator or not key.startswith(_PREFIX):
        raise ConfigurationError(
            f"--conf {text}: give an option of Spark as KEY=VALUE, such as --conf spark.executor.memory=2g"
        )
    return key, value.strip()


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a properties file without comments, each joined with those that it continues on."""
    waiting = ""
    for physical in text.splitlines():
        line = waiting + physical.lstrip()
        if not waiting and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            waiting = line[:-1]
            continue
        waiting = ""
        yield line
    if waiting:
        yield waiting


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(replaced, text)


PYTHON: Final = "spark.pyspark.python"
"""Spark's option for the Python of the executors, which spark-submit would turn into a variable."""
_APPLICATION: Final = "spark.app.name"
_HOST: Final = "spark.driver.host"
_LOCAL_FOLDER: Final = "spark.local.dir"
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
_UTC: Final = "-Duser.timezone=UTC"

# Inherited, each of these would turn the launch into something else: another Spark, Spark Connect, a shell.
FOREIGN_VARIABLES: Final = (
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "PYTHONHOME",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
    "SPARK_TESTING",
)
_ADDRESS_VARIABLES: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")

EVERYWHERE: Final[Mapping[str, str]] = {
    # Halves the time of a trivial job, and is off by default.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
"""The settings of each Spark, also of one that spark-submit has prepared."""

SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # The default of 200 makes small queries wait for 200 small tasks.
    "spark.sql.shuffle.partitions": "4",
}
"""The settings of each session, also of one in a Spark that other code has started."""


def settings_of(
    options: SparkOptions,
    name: str,
    folder: Path,
    python_path: Sequence[Path],
    java: JavaInstallation,
    address: str | None,
) -> dict[str, str]:
    """Return the settings of a new session, as Spark names them.

    Args:
        options: the user's.
        name: the application's name.
        folder: the session's own folder.
        python_path: folders from which workers import modules as well.
        java: the installation that runs the driver.
        address: the address by which this machine reaches the master; None if Spark is to choose.
    """
    master = options.chosen_master()
    here = settings_on_this_machine(java, folder / "local")
    driver_options = here.pop(_EXECUTOR_OPTIONS)
    ours = {
        **EVERYWHERE,
        **SQL_SETTINGS,
        _DRIVER_OPTIONS: driver_options,
        _EXECUTOR_OPTIONS: driver_options if is_local(master) else _UTC,
        **({} if _imports_from_working_folder() else {"spark.executorEnv.PYTHONSAFEPATH": "1"}),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, [_import_folder(), *python_path])),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _APPLICATION: name,
    }
    if is_local(master):
        ours |= here | {_LOCAL_FOLDER: str(folder / "local")}
    elif address is not None and not any(os.environ.get(each) for each in _ADDRESS_VARIABLES):
        ours[_HOST] = address
    given = dict(options.configuration)
    for each in (_DRIVER_OPTIONS, _EXECUTOR_OPTIONS):
        if each in given:
            given[each] = f"{ours[each]} {given[each]}"
    return ours | given | {MASTER: master}


def settings_on_this_machine(java: JavaInstallation, folder: Path) -> dict[str, str]:
    """Return the settings of a session whose executors are all on this machine, wherever its master says.

    Args:
        java: the installation that runs the executors.
        folder: a folder for their temporary files, with a path short enough for sockets.
    """
    log4j2 = Path(__file__).with_name("log4j2.properties").as_uri()
    options = [
        *quick_start_options(java),
        _UTC,
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={log4j2}",
    ]
    return {_HOST: "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", _EXECUTOR_OPTIONS: " ".join(options)}


def launch_variables(
    options: SparkOptions, links: Path, folder: Path, properties: Path, java: JavaInstallation
) -> dict[str, str]:
    """Return the environment in which Java starts.

    Args:
        options: the user's.
        links: a folder with links to Spark.
        folder: the session's own folder.
        properties: the file with the settings.
        java: the installation that runs the driver.
    """
    variables = {
        **home_variables(links, java),
        # In a file that only this user reads: every user of a machine sees the arguments of a process.
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(str(properties))} pyspark-shell",
        # The launcher is a Java of its own that lives for a fraction of a second.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        # On YARN, pyspark would send itself as archives; the Python of executors has it installed.
        "PYSPARK_ARCHIVES_PATH": f"local:{package_folder().parent}",
        **worker_variables(options.configuration.get(PYTHON) or sys.executable),
    }
    if is_local(options.chosen_master()):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    elif _LOCAL_FOLDER not in options.configuration:
        # For the driver alone: as an option it would be that of the executors, too.
        variables["SPARK_LOCAL_DIRS"] = str(folder / "local")
    return variables


def worker_variables(python: str) -> dict[str, str]:
    """Return the variables that are read when the context starts, and decide how each Python worker runs."""
    return {"PYSPARK_PYTHON": python, "PYTHONHASHSEED": "0"}


def _import_folder() -> Path:
    """Return the folder from which workers import onceproof, as this process does."""
    return Path(__file__).absolute().parents[3]


def _imports_from_working_folder() -> bool:
    """Return whether this process finds modules in its working directory, where its workers start.

    Where it does not, they do not either: a json.py there must not stand in for Python's.
    """
    here = Path.cwd()
    return any(Path(each or here) == here for each in sys.path)
