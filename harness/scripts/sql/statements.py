"""The statements of a script of Flink SQL, as the planner gets them.

Rules:

- The ends are the harness's, so each connector becomes one that only declares which changes it sends or
  takes. These follow from connector and format; a connector that is not known appends, and takes any change.
- Watermarks are made in the source, one for each split, as Kafka's source makes them.
- Only what declares tables and views is executed: no statement that loads code, writes files or starts work.
- SET becomes an option of the session. What the scenario decides is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from onceproof.harness.systems.flink.sql_script import SqlScriptError, check_inserts, numbered_statements

_SET: Final = re.compile(r"SET\s+'?([\w.-]+)'?\s*=\s*'?(.*?)'?\s*", re.IGNORECASE | re.DOTALL)
_INSERT: Final = re.compile(r"INSERT\s+(INTO|OVERWRITE)\s", re.IGNORECASE)
CREATE_TABLE: Final = r"CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)"
"""How a statement begins that creates a table."""
CREATE_VIEW: Final = r"CREATE\s+(?:TEMPORARY\s+)?VIEW\b"
_TABLE: Final = re.compile(CREATE_TABLE, re.IGNORECASE)
_WITH: Final = re.compile(r"\)\s*(?P<with>WITH\s*\()", re.IGNORECASE)
_VIEW: Final = re.compile(CREATE_VIEW, re.IGNORECASE)
_HARMLESS: Final = re.compile(r"(DROP|USE)\b", re.IGNORECASE)
_PIECE: Final = re.compile(r"'(?:[^']|'')*'|`[^`]*`|[()]|\bAS\b", re.IGNORECASE)
_BRACKET: Final = re.compile(r"'(?:[^']|'')*'|[()]")
_PARTITIONED: Final = re.compile(r"\s*\bPARTITIONED\s+BY\s*\([^()]*\)\s*$", re.IGNORECASE)
_OPTION: Final = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_KEY: Final = re.compile(r"\bPRIMARY\s+KEY\b", re.IGNORECASE)
_OF_SCENARIOS: Final = ("parallelism.default", "execution.checkpointing.", "state.", "restart-strategy.")
_MODE: Final = "execution.runtime-mode"
_GUARANTEE: Final = "execution.checkpointing.mode"
_CHANGELOGS: Final = ("debezium", "canal", "maxwell", "ogg", "changelog")
"""In the names of formats that hold every kind of change."""
_BY_KEY: Final = ("jdbc", "mongodb", "elasticsearch", "opensearch", "hbase")
"""In the names of connectors that write by key where the table has one."""
_STREAMS: Final = ("kafka", "-cdc", "filesystem", "kinesis", "pulsar", "datagen")
"""In the names of connectors that look no rows up."""
LOOKED_UP: Final = r"`?(?P<table>\w+)`?\s+FOR\s+SYSTEM_TIME\s+AS\s+OF\s"
"""How a table is joined as of a time."""
_LOOKED_UP: Final = re.compile(LOOKED_UP, re.IGNORECASE)
_APPENDS: Final = ("kafka", "filesystem", "kinesis", "pulsar", "firehose")
_REMEDIES: Final[Mapping[str, str]] = {
    r"CREATE\s.*?FUNCTION\b.*\bPYTHON\b": "register the function in a program that executes the statements",
    r"CREATE\s.*?FUNCTION\b": "a function in Java runs on Flink alone: write it in Python or as a view",
    r"(ADD|REMOVE)\s+JAR\b": "leave it out: connectors are replaced on trial",
    r"CREATE\s+CATALOG\b": "leave it out and declare each table with its columns by CREATE TABLE",
    r"CREATE\s.*?TABLE\b": "declare the table by CREATE TABLE, and write AS SELECT as an INSERT INTO it",
    r"(SET|RESET|QUIT|EXIT|HELP|CLEAR|SOURCE)\b": "it is for the prompt of the SQL client: leave it out",
    r"(UPDATE|DELETE|TRUNCATE|UPSERT|MERGE|ANALYZE|CALL)\b": "no stream job does it: INSERT INTO a table",
}
"""How a statement begins that is refused, and what to do."""
DECLARED: Final = "vec"
"""The connector of the planner's own tables."""


class Statement(Struct, frozen=True):
    """A statement of a script."""

    line: int
    text: str


class Statements(Struct, frozen=True):
    """A script, taken apart."""

    options: Mapping[str, str]
    """What it sets for the session."""
    ddl: tuple[Statement, ...]
    """With connectors that only declare."""
    inserts: tuple[Statement, ...]
    given: Mapping[str, Mapping[str, str]] = {}
    """By table, the options that the script gives it."""
    is_at_least_once: bool = False
    """Whether its checkpoints are, so that records may come twice."""


def read_statements(text: str) -> Statements:
    """Return the statements of a script. Raises SqlScriptError."""
    options: dict[str, str] = {}
    ddl: list[Statement] = []
    inserts: list[Statement] = []
    given: dict[str, dict[str, str]] = {}
    is_at_least_once = False
    looked_up = frozenset(_LOOKED_UP.findall(text))
    for line, statement in numbered_statements(text):
        if setting := _SET.fullmatch(statement):
            if setting[1] == _MODE and setting[2].lower() != "streaming":
                raise SqlScriptError(f"line {line}: {_MODE} is {setting[2]}: only STREAMING is put on trial")
            if setting[1] == _GUARANTEE:
                is_at_least_once = setting[2].upper() == "AT_LEAST_ONCE"
            if not setting[1].startswith(_OF_SCENARIOS):
                options[setting[1]] = setting[2]
        elif _INSERT.match(statement):
            inserts.append(Statement(line, statement))
        elif not _declares(statement):
            raise SqlScriptError(f"line {line}: {' '.join(statement.split())[:40]!r} {_why_not(statement)}")
        else:
            ddl.append(Statement(line, declared(statement, looked_up)))
            if table := _TABLE.match(statement):
                name = table["name"].rpartition(".")[2].strip("`")
                given[name] = dict(_OPTION.findall(statement))
    check_inserts(each.text for each in inserts)
    return Statements(options, tuple(ddl), tuple(inserts), given, is_at_least_once)


def _why_not(statement: str) -> str:
    """Return why a statement is not executed, and what to do, as the end of a sentence."""
    for begins, remedy in _REMEDIES.items():
        if re.match(begins, statement, re.IGNORECASE):
            return f"is not executed: {remedy}"
    return "is not executed: only SET, USE, DROP, CREATE TABLE, CREATE VIEW and INSERT are"


def declared(statement: str, looked_up: Collection[str] = ()) -> str:
    """Return a statement whose table, if it creates one, only declares its changes.

    Args:
        statement: the statement.
        looked_up: the names of tables that a script joins as of a time.
    """
    table = _TABLE.match(statement)
    if table is None:
        return statement
    found = list(_WITH.finditer(statement))
    if not found:
        return statement
    begins = found[-1].start("with")
    ends = closing(statement, found[-1].end("with"))
    given = dict(_OPTION.findall(statement[begins:ends]))
    connector = given.get("connector")
    if connector == DECLARED:
        return statement
    pairs = []
    if connector is not None:
        has_key = bool(_KEY.search(statement[:begins]))
        pairs = [("connector", DECLARED), *changes_of(given, has_key=has_key).items()]
        is_joined = table["name"].rpartition(".")[2].strip("`") in looked_up
        if is_joined and not any(each in connector.lower() for each in _STREAMS):
            pairs.append(("lookup", "sync"))
    options = ", ".join([f"'{key}' = '{value}'" for key, value in pairs])
    # Partitions only say in which folders a sink writes its rows.
    columns = _PARTITIONED.sub(" ", statement[:begins])
    return f"{columns}{f'WITH ({options})' if pairs else ''}{statement[ends:]}"


def _declares(statement: str) -> bool:
    """Return whether a statement only declares something."""
    if _TABLE.match(statement) is None:
        return bool(_VIEW.match(statement) or _HARMLESS.match(statement))
    depth = 0
    for piece in _PIECE.finditer(statement):
        if depth == 0 and piece[0].upper() == "AS":
            return False
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
    return True


def changes_of(given: Mapping[str, str], *, has_key: bool) -> dict[str, str]:
    """Return the options that say which changes a table with some options sends and takes.

    Args:
        has_key: whether it has a primary key.
    """
    connector = given["connector"].lower()
    texts = " ".join([value for key, value in given.items() if key.endswith("format")]).lower()
    sends, takes = "append", "any"
    if any(each in texts for each in _CHANGELOGS) or connector.endswith("-cdc"):
        sends = "retract"
    elif connector.startswith("upsert-"):
        sends = takes = "upsert"
    elif any(each in connector for each in _BY_KEY):
        takes = "upsert" if has_key else "append"
    elif any(each in connector for each in _APPENDS):
        takes = "append"
    return {"mode": sends, "sink-mode": takes, "pushed-watermarks": "true"}


def closing(text: str, place: int) -> int:
    """Return the place behind the bracket that closes the one before ``place``; the end if none does."""
    depth = 1
    for piece in _BRACKET.finditer(text, place):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0:
            return piece.end()
    return len(text)
