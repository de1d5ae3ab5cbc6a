"""All inputs and outputs of a program for one trial, on real servers where its file says so.

The rules this module lives by:

- Each trial has topics, databases, folders and objects of its own, which go with it.
- The program reaches servers through a proxy, the harness reaches them directly.
- A kind is a line of a table (INPUTS, OUTPUTS): what makes an input or output of one ``TrialEnd``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import KAFKA, POSTGRES, S3, FamilyError
from onceproof.harness.model.program_ends import Input, InputKind, Output, OutputKind, splits_of
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import filled
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.services.kafka_jars import BrokerProgram
from onceproof.harness.services.service import LOOPBACK, free_port
from onceproof.harness.systems.process.job_specification import TrialObjects
from onceproof.harness.systems.process.kafka_groups import DeadMembers
from onceproof.harness.systems.process.server_strikes import StruckServer
from onceproof.harness.systems.process.trial_servers import TrialKafka, TrialObjectStore, TrialPostgres
from onceproof.harness.systems.program.inputs import (
    AllInputs,
    InputFiles,
    NewFiles,
    ProgramInput,
    StandardInput,
)
from onceproof.harness.systems.program.network_inputs import input_http, input_socket
from onceproof.harness.systems.program.outputs import (
    AllOutputs,
    OutputFiles,
    OutputTable,
    OutputTopic,
    ProgramOutput,
    StandardOutput,
)
from onceproof.harness.systems.program.server_inputs import InputObjects, InputTopic, PostgresInput, SqlInput
from onceproof.harness.systems.program.table_readers import (
    CommandOutput,
    DeltaOutput,
    IcebergOutput,
    ObjectsOutput,
    ParquetOutput,
)
from onceproof.harness.systems.program.trial_end import End, TrialEnd

OUTPUT_PARTITIONS: Final = 2
INPUTS: Final[Mapping[InputKind, Callable[[TrialEnd[Input]], ProgramInput]]] = {
    "files": InputFiles,
    "new_files": NewFiles,
    "stdin": StandardInput,
    "socket": input_socket,
    "http": input_http,
    "kafka": InputTopic,
    "postgres": PostgresInput,
    "sql": SqlInput,
    "s3": InputObjects,
}
OUTPUTS: Final[Mapping[OutputKind, Callable[[TrialEnd[Output]], ProgramOutput]]] = {
    "files": OutputFiles,
    "stdout": StandardOutput,
    "kafka": OutputTopic,
    "postgres": OutputTable,
    "command": CommandOutput,
    "parquet": ParquetOutput,
    "s3": ObjectsOutput,
    "delta": DeltaOutput,
    "iceberg": IcebergOutput,
}


@dataclass(frozen=True, slots=True)
class ProgramEnds:
    """The ends of a program while a trial lasts."""

    input: AllInputs
    output: AllOutputs
    servers: Mapping[str, StruckServer]
    """By name, those that faults may strike."""
    values: Mapping[str, str]
    """By placeholder, what it stands for in this trial."""
    environment: Mapping[str, str]
    """The variables by which the program reaches servers."""
    broker: str = ""
    """HOST:PORT of the broker, past the proxy of the program; "" without one."""
    topics: tuple[str, ...] = ()
    """Those of outputs."""
    database: StruckServer | None = None
    """The one with tables of outputs."""
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By topic of an input, the splits that its partitions are."""
    members: DeadMembers | None = None
    """Those of its groups at the broker."""

    def leave(self) -> None:
        """Let a program of which no process lives leave its groups."""
        if self.members is not None:
            self.members.leave()


@dataclass(slots=True)
class _Servers:
    """The servers of one trial and what is on them."""

    struck: dict[str, StruckServer] = field(default_factory=dict)
    direct: dict[str, str] = field(default_factory=dict)
    """By kind, the address past the proxy."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """By the place of an input or output, the name of its topic."""
    objects: TrialObjects | None = None
    values: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


class ProgramServers:
    """The servers that programs have at their ends, over all trials of a system.

    Args:
        kafka, postgres, s3: servers that run already; None: started when a program needs them.
    """

    def __init__(
        self,
        kafka: TrialKafka | None = None,
        postgres: TrialPostgres | None = None,
        s3: TrialObjectStore | None = None,
    ) -> None:
        self._kafka = kafka or TrialKafka()
        self._postgres = postgres or TrialPostgres()
        self._s3 = s3 or TrialObjectStore()

    @property
    def immortal(self) -> tuple[str, ...]:
        """The names of those that would lose everything as they die."""
        return () if self._s3.survives_kills else (S3,)

    def close(self) -> None:
        """Stop those that run."""
        self._kafka.close()
        self._postgres.close()
        self._s3.close()

    @contextmanager
    def ends(
        self, family: ProgramFamily, scenario: Scenario, folder: Path, machine: Mapping[str, str]
    ) -> Iterator[ProgramEnds]:
        """Yield the ends of a program for one trial in ``folder``. Raises FamilyError.

        ``machine``: by placeholder, what it stands for in all trials on this machine.
        """
        file = family.file
        try:
            splits = splits_of(file.inputs, list(scenario.records))
        except ValueError as error:
            raise FamilyError(f"{family.path}: input: {error}") from None
        with ExitStack() as stack:
            servers = _Servers(values={**machine, "folder": str(folder)})
            servers.values |= {each.port: str(free_port()) for each in file.processes}
            # Scripts that packages have installed are found by their names.
            path = [str(Path(machine["python"]).parent), os.environ.get("PATH", os.defpath)]
            servers.environment["PATH"] = os.pathsep.join(path)
            self._reach(servers, family, splits, stack)
            inputs: list[ProgramInput] = []
            outputs: dict[str, ProgramOutput] = {}
            # Outputs come first: what feeds the program may only begin when it can be read.
            for output in file.outputs:
                end = _end_of(output, "output", family, folder, servers, ())
                if output.create:
                    _create(end, "output", output.create, output.table)
                made = outputs[output.name] = OUTPUTS[output.kind](end)
                stack.callback(made.close)
                servers.values |= _named("output", output, made.address, len(file.outputs))
            for given, own in zip(file.inputs, splits, strict=True):
                end_of_input = _end_of(given, "input", family, folder, servers, tuple(own))
                if given.create and given.kind == POSTGRES:
                    _create(end_of_input, "input", given.create, given.table)
                fed = INPUTS[given.kind](end_of_input)
                inputs.append(fed)
                stack.callback(fed.close)
                servers.values |= _named("input", given, fed.address, len(file.inputs))
                if fed.port:
                    servers.values |= _named("host", given, LOOPBACK, 1) | _named(
                        "port", given, str(fed.port), 1
                    )
            members = None
            if KAFKA in servers.direct:
                members = DeadMembers(servers.direct[KAFKA])
                stack.callback(members.close)
            yield ProgramEnds(
                AllInputs(inputs, splits),
                AllOutputs(outputs),
                servers.struck,
                servers.values,
                servers.environment,
                servers.direct.get(KAFKA, ""),
                tuple(
                    [servers.topics[_place("output", each)] for each in file.outputs if each.kind == KAFKA]
                ),
                servers.struck[POSTGRES] if any(each.kind == POSTGRES for each in file.outputs) else None,
                {
                    servers.topics[_place("input", each)]: own
                    for each, own in zip(file.inputs, splits, strict=True)
                    if each.kind == KAFKA
                },
                members,
            )

    def _reach(
        self, servers: _Servers, family: ProgramFamily, splits: Sequence[Sequence[str]], stack: ExitStack
    ) -> None:
        """Make what a trial has on servers, until ``stack`` is closed."""
        file = family.file
        if KAFKA in file.servers:
            ends: list[tuple[str, Input | Output, int]] = [
                *[
                    (_place("input", each), each, len(own))
                    for each, own in zip(file.inputs, splits, strict=True)
                ],
                *[(_place("output", each), each, OUTPUT_PARTITIONS) for each in file.outputs],
            ]
            ends = [each for each in ends if each[1].kind == KAFKA]
            own = stack.enter_context(
                self._kafka.own_topics(
                    {place: max(1, partitions) for place, _, partitions in ends},
                    {place: each.topic for place, each, _ in ends if each.topic},
                )
            )
            servers.topics, servers.direct[KAFKA] = own.names, own.servers
            servers.values[KAFKA] = own.servers_of_job
            servers.values["kafka_jars"] = BrokerProgram.find().class_path
            servers.struck[KAFKA] = self._kafka.struck
        if POSTGRES in file.servers:
            database = stack.enter_context(self._postgres.database())
            servers.direct[POSTGRES] = database.address
            servers.values[POSTGRES] = database.address_of_job
            servers.struck[POSTGRES] = self._postgres.struck
        if S3 in file.servers:
            servers.objects = stack.enter_context(self._s3.place())
            servers.environment |= servers.objects.environment_of_job
            servers.values[S3] = servers.objects.environment_of_job["AWS_ENDPOINT_URL"]
            servers.struck[S3] = self._s3.struck


def _place(kind: str, end: Input | Output) -> str:
    """Return the name of an input or output in its file, and of its folder: "input", "output-orders"."""
    return f"{kind}-{end.name}" if end.name else kind


def _named(word: str, end: Input | Output, value: str, ends: int) -> dict[str, str]:
    """Return by placeholder a value of one of several inputs or outputs."""
    values = {f"{word}.{end.name}": value} if end.name else {}
    return {**values, word: value} if ends == 1 else values


def _end_of(
    end: End,
    kind: str,
    family: ProgramFamily,
    folder: Path,
    servers: _Servers,
    splits: tuple[str, ...],
) -> TrialEnd[End]:
    """Return an input or output with its place in a trial."""
    return TrialEnd(
        end,
        f"{family.path}: {kind}" + (f".{end.name}" if end.name else ""),
        family.path.absolute().parent,
        folder / _place(kind, end),
        family.columns_of(end),
        servers.values,
        splits,
        servers.direct.get(end.kind, ""),
        servers.topics.get(_place(kind, end), ""),
        servers.objects,
    )


def _create(end: TrialEnd[End], word: str, statements: Sequence[str], table: str) -> None:
    """Make the tables of an input or output. Raises FamilyError where a statement fails."""
    import psycopg

    values = _named(word, end.file, table, 1)
    with psycopg.connect(end.server, autocommit=True) as connection:
        for number, statement in enumerate(statements):
            try:
                connection.execute(filled(statement, values).encode())
            except psycopg.Error as error:
                cause = error.diag.message_primary or error
                raise FamilyError(f"{end.place}.create[{number}]: {cause}") from None
