"""Both ends of a program for one trial, on real servers where its file says so.

The rules this module lives by:

- Each trial has topics, a database and folders of its own, which go with it.
- The program reaches servers through a proxy, the harness reaches them directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceproof.harness.model.columns import column_types_of, columns_of
from onceproof.harness.model.family import KAFKA, POSTGRES, FamilyError
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import filled
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.services.kafka_jars import BrokerProgram
from onceproof.harness.systems.process.server_strikes import StruckServer
from onceproof.harness.systems.process.trial_servers import TrialKafka, TrialPostgres
from onceproof.harness.systems.program.inputs import (
    InputFiles,
    InputSocket,
    InputTopic,
    ProgramInput,
    StandardInput,
)
from onceproof.harness.systems.program.line_formats import row_of
from onceproof.harness.systems.program.outputs import (
    OutputFiles,
    OutputTable,
    OutputTopic,
    ProgramOutput,
    StandardOutput,
)

OUTPUT_PARTITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class ProgramEnds:
    """The ends of a program while a trial lasts."""

    input: ProgramInput
    output: ProgramOutput
    servers: Mapping[str, StruckServer]
    """By name, those that faults may strike."""
    values: Mapping[str, str]
    """By placeholder, what it stands for in this trial."""
    broker: str = ""
    """HOST:PORT of the broker of an output topic, past the proxy of the program."""


class ProgramServers:
    """The servers that programs have at their ends, over all trials of a system.

    Args:
        kafka, postgres: servers that run already; None: started when a program needs them.
    """

    def __init__(self, kafka: TrialKafka | None = None, postgres: TrialPostgres | None = None) -> None:
        self._kafka = kafka or TrialKafka()
        self._postgres = postgres or TrialPostgres()

    def close(self) -> None:
        """Stop those that run."""
        self._kafka.close()
        self._postgres.close()

    @contextmanager
    def ends(self, family: ProgramFamily, scenario: Scenario, folder: Path) -> Iterator[ProgramEnds]:
        """Yield the ends of a program for one trial in ``folder``."""
        file = family.file
        splits = list(scenario.records)
        columns = columns_of(family.record_schema)
        parse = row_of(family.row_columns, column_types_of(family.row_schema), file.output.format)
        servers: dict[str, StruckServer] = {}
        values: dict[str, str] = {}
        with ExitStack() as stack:
            direct: dict[str, str] = {}
            topics = ("", "")
            if KAFKA in file.servers:
                partitions = {"in": len(splits), "out": OUTPUT_PARTITIONS}
                own = stack.enter_context(self._kafka.own_topics(partitions))
                topics = (own.names["in"], own.names["out"])
                direct[KAFKA], values[KAFKA] = own.servers, own.servers_of_job
                values["kafka_jars"] = BrokerProgram.find().class_path
                servers[KAFKA] = self._kafka.struck
            if POSTGRES in file.servers:
                database = stack.enter_context(self._postgres.database())
                direct[POSTGRES], values[POSTGRES] = database.address, database.address_of_job
                servers[POSTGRES] = self._postgres.struck
            given: ProgramInput
            match file.input.kind:
                case "files":
                    given = InputFiles(folder / "input", splits, columns, file.input.format)
                case "stdin":
                    given = StandardInput(columns, file.input.format)
                case "socket":
                    given = InputSocket(columns, file.input.format)
                case "kafka":
                    form, key = file.input.format, file.input.key
                    given = InputTopic(direct[KAFKA], topics[0], splits, columns, form, key)
            stack.callback(given.close)
            output: ProgramOutput
            match file.output.kind:
                case "files":
                    output = OutputFiles(folder / "output", file.output.pattern, parse)
                case "stdout":
                    output = StandardOutput(folder / "output", parse)
                case "kafka":
                    output = OutputTopic(direct[KAFKA], topics[1], parse)
                case "postgres":
                    place = f"{family.path}: output.table"
                    table = file.output.table
                    output = OutputTable(direct[POSTGRES], table, family.row_columns, place)
                    _create(
                        direct[POSTGRES],
                        file.output.create,
                        {"output": table},
                        f"{family.path}: output.create",
                    )
            stack.callback(output.close)
            values |= {"input": given.address, "output": output.address}
            broker = direct[KAFKA] if file.output.kind == "kafka" else ""
            yield ProgramEnds(given, output, servers, values, broker)


def _create(address: str, statements: tuple[str, ...], values: Mapping[str, str], place: str) -> None:
    """Make the tables of a program. Raises FamilyError where a statement fails."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        for number, statement in enumerate(statements):
            try:
                connection.execute(filled(statement, values).encode())
            except psycopg.Error as error:
                raise FamilyError(f"{place}[{number}]: {error.diag.message_primary or error}") from None
