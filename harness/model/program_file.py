"""The file of a program on trial: how any program is started, fed and read, in TOML.

The rules this module lives by:

- The harness knows of the program what the file says, and nothing else: how it starts, what feeds it, where
  its rows appear, and what it promises.
- Every field is checked when the file is read. An unknown field, a wrong type or a contradiction is one line
  that names the file, the field and the nearest name.
- Words in braces stand for what a trial decides: ``{input}``, ``{output}`` and their like (PLACEHOLDERS).
- The command is a list of words, and no shell reads it. The program is as trusted as any that its user
  starts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from onceproof.harness.model.columns import OrderedBy
from onceproof.harness.model.fault_kinds import POINTS, Point, ServerName
from onceproof.harness.model.program_ends import (
    CALLED_BY_HARNESS,
    HARNESS_MARKS,
    SERVER_KINDS,
    Input,
    Output,
    Promise,
    contradictions,
)
from onceproof.harness.model.program_processes import (
    FLINK_VERSION,
    FlinkJob,
    OwnFault,
    Process,
    Request,
    Words,
    contradicting_processes,
)

EndsWhen: TypeAlias = Literal["quiet", "exit"]

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "python": "the Python that has program.packages; without them the one that runs the harness",
    "java": "the Java that Spark would use",
    "kafka_jars": "the class path of the Java client of Kafka",
    "jars": "the class path of program.jars, and of what they need",
    "flink_jars": "the class path of the job's Flink, with its connectors",
    "here": "the folder of the file",
    "folder": "the folder of this trial, in which the program runs; it outlives the program",
    "input": "the folder of the input files, the topic, the table, HOST:PORT of the socket, or the URL",
    "output": "the folder of the output files, the topic, or the table",
    "host": "the host of the input that is a socket or HTTP",
    "port": "its port; with the name of a process, a free port for that",
    "kafka": "HOST:PORT of the Kafka broker",
    "postgres": "the address of the database",
    "s3": "the URL of the object store",
    "parallelism": "how parallel the program is asked to be; a kill may change it",
    "start": "the number of this start of the program, from 1",
}
"""What may stand in braces in commands, environments and statements, and what it becomes."""

ON_THIS_MACHINE: Final = ("python", "java", "here", "flink_jars", "jars")
"""Those that are the same in all trials. A command that builds the program knows no others."""
_OF_ENDS: Final[Mapping[str, str]] = {"input": "input", "output": "output", "host": "input", "port": "input"}
"""Placeholders that stand for an input or output, and with its name for one of several: ``{input.NAME}``."""

READ_POINT: Final[Point] = "element"
"""Passed with each record that the harness gives."""
SEEN_POINT: Final[Point] = "committed"
"""Passed with each row that the harness sees for the first time."""
STARTED_POINT: Final[Point] = "restored"
"""Passed with each start of the program, when it says that it is ready if it says so."""
OWN_POINTS: Final = frozenset({READ_POINT, SEEN_POINT, STARTED_POINT})

MAIN_PROCESS: Final = "program"
"""The name of the process that ``program.command`` starts."""

_SERVER_OF: Final[Mapping[str, ServerName]] = {
    "kafka": "kafka",
    "kafka_jars": "kafka",
    "postgres": "postgres",
    "s3": "s3",
}
"""The server that must be at an end of the program for a placeholder to have a value."""
_WORD: Final = re.compile(r"\{(port\.[\w.-]+|\w+(?:\.\w+)?)\}")
JOB_RUNS: Final = "onceproof: all tasks of the job run"
"""The line among those of a cluster that says that its job is ready."""
TASK_MANAGER: Final = "task-manager"
JOB_MANAGER: Final = "job-manager"
_COORDINATE: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_VERSION: Final = re.compile(r"[1-9]\d*\.\d+\.\d+")
_MARKS_OF_FLINK: Final = {
    "triggered": r"Triggering (checkpoint|savepoint) \d+",
    "completed": r"Completed (checkpoint|savepoint) \d+",
}
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class ProgramFileError(Exception):
    """A file of a program that cannot be used; the message is one line with file, field and mend."""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the program starts, and of which processes it is made."""

    command: Words = ()
    """None: the program consists of ``[[process]]`` tables."""
    resume: tuple[str, ...] = ()
    """Words behind the command from the second start on."""
    environment: dict[str, str] = {}
    """Added to the environment of the harness."""
    ready: str = ""
    """A regular expression for the line that says that the program is ready; records are given then."""
    parts: tuple[str, ...] = ()
    """Regular expressions for command lines: processes of the program that are also killed alone."""
    packages: tuple[str, ...] = ()
    """What pip installs for it, as in "bytewax==0.21.1", in an environment of its own, whose Python is
    ``{python}``."""
    jars: tuple[str, ...] = ()
    """Maven coordinates of what it needs, as in "GROUP:ARTIFACT:VERSION"; their class path is ``{jars}``."""
    prepare: tuple[str, ...] = ()
    """A command that runs once before the first start, in the folder of the file: it builds the program."""


class Render(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is written before each start."""

    template: str
    """A file beside this one, with placeholders."""
    file: str
    """Its place below ``{folder}``."""


class Hooks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commands that run beside the program, in ``{folder}``."""

    before_start: tuple[str, ...] = ()
    """Once, before the first start."""
    after_ready: tuple[str, ...] = ()
    """After each start, when the program is ready; records are given then."""
    before_restart: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a trial is over."""

    when: EndsWhen = "quiet"
    """quiet: all records are given and no row has come for a while; then the program gets SIGTERM. exit: the
    program ends by itself, with exit code 0."""
    quiet_seconds: _Seconds | None = None
    """How long rows that are missing are waited for. None: it follows from the control run."""
    most_seconds: _Seconds | None = None
    """After which a trial is cut off, and the control run if nothing happens in it. None: it follows from the
    control run."""


class ProgramFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the harness knows of a program on trial."""

    input: Input | tuple[Input, ...]
    output: Output | tuple[Output, ...]
    program: Command = Command()
    process: tuple[Process, ...] = ()
    flink: FlinkJob | None = None
    fault: tuple[OwnFault, ...] = ()
    oracle: str = ""
    """A family, or a Python file with ``generate`` and ``expected``; none: each record comes out once."""
    columns: dict[Literal["id", "key"], str] = {}
    """Other names for the columns of the records that there are without an oracle."""
    promise: Promise = "exactly_once"
    done: Done = Done()
    marks: dict[str, str] = {}
    """By protocol point, or a name of the user's own, a regular expression for what the program prints as it
    passes the point."""
    render: tuple[Render, ...] = ()
    hooks: Hooks = Hooks()

    @property
    def inputs(self) -> tuple[Input, ...]:
        """All inputs; one that stands alone need not have a name."""
        return (self.input,) if isinstance(self.input, Input) else self.input

    @property
    def outputs(self) -> tuple[Output, ...]:
        """All outputs; one that stands alone need not have a name."""
        return (self.output,) if isinstance(self.output, Output) else self.output

    @property
    def ends(self) -> tuple[Input | Output, ...]:
        """All inputs and outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def pace_ms(self) -> int:
        """From one record to the next; of several inputs the longest."""
        return max(each.pace_ms for each in self.inputs)

    @property
    def is_at_least_once(self) -> bool:
        """Whether no output promises more."""
        return all(self.promise_of(each) == "at_least_once" for each in self.outputs)

    def promise_of(self, output: Output) -> Promise:
        """Return what an output promises."""
        return output.promise or self.promise

    @property
    def processes(self) -> tuple[Process, ...]:
        """All processes that the harness starts, the one of ``program.command`` first."""
        one = self.program
        if not one.command:
            return self.process
        main = Process(MAIN_PROCESS, one.command, one.resume, one.environment, one.ready)
        return (main, *self.process)

    @property
    def ready(self) -> tuple[str, ...]:
        """What processes print as they are ready; none: they do not say it."""
        return tuple([each.ready for each in self.processes if each.ready])

    @property
    def alone(self) -> tuple[str, ...]:
        """What is also killed alone: names of processes, and patterns for command lines."""
        processes = self.processes
        names = [each.name for each in processes if each.alone] if len(processes) > 1 else []
        return (*names, *self.program.parts)

    @property
    def servers(self) -> tuple[ServerName, ...]:
        """The servers at the ends of the program."""
        kinds = {each.kind for each in self.ends}
        return tuple([name for name in SERVER_KINDS if name in kinds])

    @property
    def points(self) -> tuple[Point, ...]:
        """The points that the harness sees the program pass, in the order of all points."""
        return tuple([point for point in POINTS if point in OWN_POINTS or point in self.marks])

    @property
    def own_marks(self) -> tuple[str, ...]:
        """The names of marks that are no protocol points."""
        return tuple([name for name in self.marks if name not in POINTS])

    @property
    def can_rescale(self) -> bool:
        """Whether a start says how parallel the program is to be."""
        return self.flink is not None or self.names("parallelism")

    def names(self, placeholder: str) -> bool:
        """Return whether a placeholder stands anywhere in the file."""
        return any(placeholder in _WORD.findall(text) for _, text, _ in placed_texts(self))


def read_program_file(path: Path, flink_version: str = "") -> ProgramFile:
    """Return what a file says of a program. Raises ProgramFileError.

    ``flink_version`` takes the place of the release that it names.
    """
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=ProgramFile)
    except OSError as error:
        raise ProgramFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except msgspec.ValidationError as error:
        raise ProgramFileError(f"{path}: {_in_words(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProgramFileError(f"{path}: not TOML: {error}") from None
    if flink_version and file.flink is not None:
        flink = msgspec.structs.replace(file.flink, version=flink_version)
        file = msgspec.structs.replace(file, flink=flink)
    elif flink_version:
        raise ProgramFileError(f"{path}: --flink-version is for jobs of Flink: the file has no table [flink]")
    for problem in _contradictions(file):
        raise ProgramFileError(f"{path}: {problem}")
    return file if file.flink is None else _with_cluster(file, file.flink)


def _with_cluster(file: ProgramFile, job: FlinkJob) -> ProgramFile:
    """Return the file of a job with the program that it is: the processes of a cluster."""
    parts = (TASK_MANAGER, JOB_MANAGER)
    program = Command(("flink",), ready=f"^{JOB_RUNS}$", parts=parts, prepare=job.prepare)
    return msgspec.structs.replace(file, program=program, marks={**_MARKS_OF_FLINK, **file.marks})


_TEMPLATE: Final = """\
# Of two functions, generate(random) and expected(records, declared). Without it each record comes out once.
oracle = "oracle.py"

[flink]
# Its broker and topics.
jar = "{jar}"
arguments = ["{{kafka}}", "{{input}}", "{{output}}"]
connectors = ["org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"]

[input]
kind = "kafka"

[output]
kind = "kafka"
"""


def template_of_job(path: Path) -> str | None:
    """Return what a file says that puts a jar on trial; None for any other file."""
    return _TEMPLATE.format(jar=path.name) if path.suffix == ".jar" else None


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the placeholders of a trial replaced by their values."""
    return _WORD.sub(lambda found: values.get(found[1], found[0]), text)


def _contradictions(file: ProgramFile) -> Iterator[str]:
    """Yield what is wrong with a file whose fields have the right types."""
    words = _words_of(file)
    for place, text, known in placed_texts(file):
        for name in _WORD.findall(text):
            if name not in words and name.partition(".")[0] not in PLACEHOLDERS:
                yield f"{place}: {{{name}}} stands for nothing{_near(name, known)}"
            elif (server := _SERVER_OF.get(name)) and server not in file.servers:
                yield f"{place}: {{{name}}} has no value: neither input nor output is of the kind {server!r}"
            elif name not in known:
                yield f"{place}: {{{name}}} has no value here: write one of {', '.join(known)}"
    yield from _contradictions_of_flink(file)
    connectors = () if file.flink is None else file.flink.connectors
    for place, coordinates in (("program.jars", file.program.jars), ("flink.connectors", connectors)):
        for number, coordinate in enumerate(coordinates):
            if not _COORDINATE.fullmatch(coordinate):
                yield f"{place}[{number}]: {coordinate!r} is not GROUP:ARTIFACT:VERSION"
    if file.names("jars") and not file.program.jars:
        yield "{jars} has no value: program.jars names none"
    for point in file.marks:
        if point in OWN_POINTS or point in HARNESS_MARKS:
            yield f"marks: {point!r} is seen without a mark; mark another point"
        elif point not in POINTS and difflib.get_close_matches(point, POINTS, n=1, cutoff=_MISSPELT):
            yield f"marks: {point!r} is no protocol point{_near(point, POINTS)}"
    is_piped = any(each.kind in ("stdin", "stdout") for each in file.ends)
    yield from contradicting_processes(file.processes, file.fault, is_piped)
    for place, pattern in _patterns(file):
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{place}: {pattern!r} is no regular expression: {error}"
    for kind, ends in _ends_by_word(file).items():
        names = [each.name for each in ends]
        if not names or len(set(names)) < len(names) or ("" in names and len(names) > 1):
            yield f"{kind}: each [[{kind}]] needs a name of its own"
        for name, end in zip(names, ends, strict=True):
            yield from contradictions(f"{kind}.{name}" if len(names) > 1 else kind, end)
    orders = [each.ordered_by for each in file.outputs if each.ordered_by]
    if len(file.inputs) > 1 and not file.oracle and not all(each.key for each in orders):
        yield "ordered_by: records of several inputs have an order by key only, or by an oracle"
    for number, rendered in enumerate(file.render):
        if rendered.file.startswith("/") or ".." in Path(rendered.file).parts:
            yield f"render[{number}].file: {rendered.file!r} leaves {{folder}}; write it relative to that"
    if file.columns and file.oracle:
        yield "columns: they rename those of records without an oracle; the oracle names its own"
    if file.done.when == "exit" and any(each.kind == "kafka" for each in file.inputs):
        yield "done.when: a topic has no end: a program that reads one is done when it is 'quiet'"


def _ends_by_word(file: ProgramFile) -> dict[str, tuple[Input | Output, ...]]:
    return {"input": file.inputs, "output": file.outputs}


def _words_of(file: ProgramFile) -> list[str]:
    """Return the placeholders that have a value in the file's commands."""
    words: list[str] = []
    for name in PLACEHOLDERS:
        if name not in _OF_ENDS:
            words += [name] if _SERVER_OF.get(name) in (None, *file.servers) else []
            continue
        ends = _ends_by_word(file)[_OF_ENDS[name]]
        if name in ("host", "port"):
            ends = tuple([each for each in ends if each.kind in CALLED_BY_HARNESS])
        words += [name] if len(ends) == 1 else []
        words += [f"{name}.{each.name}" for each in ends if each.name]
    return [*words, *[each.port for each in file.processes]]


def _contradictions_of_flink(file: ProgramFile) -> Iterator[str]:
    job = file.flink
    if job is None:
        if not file.processes:
            yield "missing field program, how it starts; or [[process]] tables, or [flink], a job of Flink"
        return
    if file.program != Command() or file.process:
        yield "[flink] stands in place of [program]: leave one of them out"
    if bool(job.jar) == bool(job.sql):
        yield "flink needs either a jar or a script (sql)"
    if job.sql and (job.main or job.arguments):
        yield "flink.class and flink.arguments belong to a jar; a script has placeholders in its statements"
    for word, ends in _ends_by_word(file).items():
        if any(each.kind in ("stdin", "stdout") for each in ends):
            yield f"{word}.kind: a job of Flink runs in a cluster, which has no standard {word}"
    if any(each.kind == "socket" and each.connects == "harness" for each in file.inputs):
        yield "input.connects: a job of Flink connects to its socket: leave this out, and use {input}"
    if not _VERSION.fullmatch(job.version):
        yield f"flink.version: {job.version!r} is not a release of Flink, such as {FLINK_VERSION!r}"


def _patterns(file: ProgramFile) -> Iterator[tuple[str, str]]:
    """Yield each regular expression, with its place."""
    yield "program.ready", file.program.ready
    for number, process in enumerate(file.process):
        yield f"process[{number}].ready", process.ready
    for number, pattern in enumerate(file.program.parts):
        yield f"program.parts[{number}]", pattern
    for point, pattern in file.marks.items():
        yield f"marks.{point}", pattern


def placed_texts(file: ProgramFile) -> Iterator[tuple[str, str, Collection[str]]]:
    """Yield each text in which placeholders may stand, with its place and the placeholders known there."""
    program, hooks = file.program, file.hooks
    all_words = _words_of(file)
    of_trial = [word for word in all_words if word not in ("parallelism", "start")]
    words: list[tuple[str, Sequence[str], Collection[str]]] = [
        ("program.command", program.command, all_words),
        ("program.resume", program.resume, all_words),
        ("program.prepare", program.prepare, ON_THIS_MACHINE),
        ("hooks.before_start", hooks.before_start, all_words),
        ("hooks.after_ready", hooks.after_ready, all_words),
        ("hooks.before_restart", hooks.before_restart, all_words),
    ]
    for kind, ends in _ends_by_word(file).items():
        for end in ends:
            own = [kind, f"{kind}.{end.name}"] if end.name else [kind]
            words.append((f"{kind}.create", end.create, own))
    for output in file.outputs:
        words.append(("output.command", output.command, of_trial))
        words.append(("output.catalog", tuple(output.catalog.values()), of_trial))
    for place, texts, known in words:
        for number, text in enumerate(texts):
            yield f"{place}[{number}]", text, known
    for given in file.inputs:
        yield "input.url", given.url, of_trial
    if file.flink is not None:
        for number, text in enumerate(file.flink.arguments):
            yield f"flink.arguments[{number}]", text, all_words
        for number, text in enumerate(file.flink.prepare):
            yield f"flink.prepare[{number}]", text, ON_THIS_MACHINE
    for name, value in program.environment.items():
        yield f"program.environment.{name}", value, all_words
    for number, process in enumerate(file.process):
        for text in (*process.command, *process.resume, *process.environment.values()):
            yield f"process[{number}]", text, all_words
    for number, fault in enumerate(file.fault):
        for text in fault.texts:
            yield f"fault[{number}]", text, all_words


_MISSPELT: Final = 0.8
"""How much a mark is like a protocol point that was meant."""


def _near(name: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"


_UNKNOWN: Final = re.compile(r"Object contains unknown field `(\w+)`(?: - at `\$(\S*)`)?")
_TABLES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "": ProgramFile,
    "program": Command,
    "process": Process,
    "fault": OwnFault,
    "fault.request": Request,
    "fault.undo": Request,
    "flink": FlinkJob,
    "input": Input,
    "output": Output,
    "output.ordered_by": OrderedBy,
    "done": Done,
    "render": Render,
    "hooks": Hooks,
}


def _in_words(message: str) -> str:
    """Return msgspec's message in the project's words, with the nearest name of an unknown field."""
    unknown = _UNKNOWN.match(message)
    if unknown is not None:
        name, table = unknown[1], ".".join(re.findall(r"\.(\w+)", unknown[2] or ""))
        fields = dict.fromkeys(_TABLES[table].__struct_encode_fields__)
        where = f"{table}.{name}" if table else name
        return f"unknown field {where}{_near(name, fields)}"
    what, separator, place = message.partition(" - at `$")
    what = what[:1].lower() + what[1:]
    what = what.replace("object missing required field", "missing field").replace("`", "")
    return f"{place.strip('`.')}: {what}" if separator else what
