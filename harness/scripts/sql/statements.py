"""The statements of a script of Flink SQL, as the planner gets them.

Rules:

- The ends are the harness's, so each connector becomes one that only declares which changes it sends or
  takes. These follow from connector and format; a connector that is not known appends, and takes any change.
- Watermarks are made in the source, one for each split, as Kafka's source makes them.
- Only what declares tables and views is executed: no statement that loads code, writes files or starts work.
- A query whose rows nothing takes but a screen, or a table that its query declares, gets a sink with the
  columns of the query. Beside INSERTs, what only shows something is left out.
- SET becomes an option of the session. What the scenario decides is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from onceproof.harness.systems.flink.sql_script import SqlScriptError, check_inserts, numbered_statements

_SET: Final = re.compile(r"SET\s+'?([\w.-]+)'?\s*=\s*'?(.*?)'?\s*", re.IGNORECASE | re.DOTALL)
_RESET: Final = re.compile(r"RESET(?:\s+'?([\w.-]+)'?)?", re.IGNORECASE)
_INSERT: Final = re.compile(r"INSERT\s+(INTO|OVERWRITE)\s", re.IGNORECASE)
CREATE_TABLE: Final = r"CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)"
"""How a statement begins that creates a table."""
CREATE_VIEW: Final = r"CREATE\s+(?:TEMPORARY\s+)?VIEW\b"
_TABLE: Final = re.compile(CREATE_TABLE, re.IGNORECASE)
_WITH: Final = re.compile(r"\)\s*(?P<with>WITH\s*\()", re.IGNORECASE)
_VIEW: Final = re.compile(CREATE_VIEW, re.IGNORECASE)
_HARMLESS: Final = re.compile(r"(DROP|USE|CREATE\s+DATABASE)\b", re.IGNORECASE)
_CATALOG: Final = re.compile(
    r"(?P<creates>CREATE\s+CATALOG\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(?P<name>[\w-]+)`?)\s.*",
    re.IGNORECASE | re.DOTALL,
)
_IN_MEMORY: Final = "generic_in_memory"
_SHOWN: Final = re.compile(r"(SELECT|WITH|VALUES)\b|\(", re.IGNORECASE)
_IDLE: Final = re.compile(r"(SHOW|DESCRIBE|DESC|EXPLAIN|(ADD|REMOVE)\s+JAR)\b", re.IGNORECASE)
"""What changes no row here: connectors are replaced, so their jars are not needed."""
_AS_QUERY: Final = re.compile(
    rf"{CREATE_TABLE}\s*(?:COMMENT\s+'(?:[^']|'')*'\s*)?(?:WITH\s*(?P<with>\(.*\))\s*)?AS\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_HINTED_OPTIONS: Final = re.compile(r"/\*\+\s*OPTIONS\s*\((?:'(?:[^']|'')*'|[^')])*\)\s*\*/", re.IGNORECASE)
_PIECE: Final = re.compile(r"'(?:[^']|'')*'|`[^`]*`|[()]|\bAS\b", re.IGNORECASE)
_BRACKET: Final = re.compile(r"'(?:[^']|'')*'|[()]")
_LIKE: Final = re.compile(r"\s*LIKE\b", re.IGNORECASE)
_PARTITIONED: Final = re.compile(r"\s*\bPARTITIONED\s+BY\s*\([^()]*\)\s*$", re.IGNORECASE)
_OPTION: Final = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_KEY: Final = re.compile(r"\bPRIMARY\s+KEY\b", re.IGNORECASE)
_OF_SCENARIOS: Final = ("parallelism.default", "execution.checkpointing.", "state.", "restart-strategy.")
_MODE: Final = "execution.runtime-mode"
_GUARANTEE: Final = "execution.checkpointing.mode"
_CHANGELOGS: Final = ("debezium", "canal", "maxwell", "ogg", "changelog")
"""In the names of formats that hold every kind of change."""
_BY_KEY: Final = ("jdbc", "mongodb", "elasticsearch", "opensearch", "hbase", "iceberg")
"""In the names of connectors that write by key where the table has one."""
_LAKES: Final = ("paimon", "hudi", "fluss")
"""In the names of those that also send changes by key then."""
_STREAMS: Final = ("kafka", "-cdc", "filesystem", "kinesis", "pulsar", "datagen")
"""In the names of connectors that look no rows up."""
LOOKED_UP: Final = r"`?(?P<table>\w+)`?\s+FOR\s+SYSTEM_TIME\s+AS\s+OF\s"
"""How a table is joined as of a time."""
_LOOKED_UP: Final = re.compile(LOOKED_UP, re.IGNORECASE)
_APPENDS: Final = ("kafka", "filesystem", "kinesis", "pulsar", "firehose")
_REMEDIES: Final[Mapping[str, str]] = {
    r"CREATE\s.*?FUNCTION\b.*\bPYTHON\b": "register the function in a program that executes the statements",
    r"CREATE\s.*?FUNCTION\b": "a function in Java runs on Flink alone: write it in Python or as a view",
    r"CREATE\s.*?TABLE\b": "declare the table by CREATE TABLE, and write AS SELECT as an INSERT INTO it",
    r"(COMPILE\s+PLAN|EXECUTE\s+PLAN)\b": "write the INSERT alone, or run the file of its plan",
    r"(SET|QUIT|EXIT|HELP|CLEAR|SOURCE)\b": "it is for the prompt of the SQL client: leave it out",
    r"(UPDATE|DELETE|TRUNCATE|UPSERT|MERGE|ANALYZE|CALL)\b": "no stream job does it: INSERT INTO a table",
}
"""How a statement begins that is refused, and what to do."""
SHOWN: Final = "shown"
"""The sink of the rows that a script shows on a screen."""
DECLARED: Final = "vec"
"""The connector of the planner's own tables."""


class Statement(Struct, frozen=True):
    """A statement of a script."""

    line: int
    text: str


class QuerySink(Struct, frozen=True):
    """A sink that has the columns of its query."""

    query: Statement
    options: str
    """What stands behind WITH when it is declared."""


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
    query_sinks: Mapping[str, QuerySink] = {}
    """By name."""
    said: tuple[str, ...] = ()
    """What a user should know of it, one sentence each."""


def read_statements(text: str) -> Statements:
    """Return the statements of a script. Raises SqlScriptError."""
    reader = _Reader(_LOOKED_UP.findall(text))
    for line, statement in numbered_statements(text):
        # They are for a connector, which is replaced.
        reader.read(line, _HINTED_OPTIONS.sub("", statement))
    return reader.statements()


class _Reader:
    """Takes the statements of a script, one after another. Raises SqlScriptError.

    Args:
        looked_up: the names of tables that the script joins as of a time.
    """

    def __init__(self, looked_up: Collection[str]) -> None:
        self._looked_up = frozenset(looked_up)
        self._options: dict[str, str] = {}
        self._ddl: list[Statement] = []
        self._inserts: list[Statement] = []
        self._shown: list[Statement] = []
        self._given: dict[str, dict[str, str]] = {}
        self._query_sinks: dict[str, QuerySink] = {}
        self._is_at_least_once = False
        self._stored_in = ""
        """The type of the catalog that stores tables which have no connector; "": there is none."""

    def read(self, line: int, statement: str) -> None:
        """Take a statement."""
        if setting := _SET.fullmatch(statement):
            self._set(line, setting[1], setting[2])
        elif reset := _RESET.fullmatch(statement):
            self._reset(reset[1])
        elif _INSERT.match(statement):
            self._inserts.append(Statement(line, statement))
        elif _SHOWN.match(statement):
            self._shown.append(Statement(line, statement))
        elif catalog := _CATALOG.fullmatch(statement):
            kind = dict(_OPTION.findall(statement)).get("type", "")
            self._stored_in = "" if kind == _IN_MEMORY else kind
            # What a catalog stores elsewhere, is not there on trial: its tables are those of the script.
            self._ddl.append(Statement(line, f"{catalog['creates']} WITH ('type' = '{_IN_MEMORY}')"))
        elif table := _AS_QUERY.fullmatch(statement):
            name = _name_of(table)
            given = self._given[name] = self._stored(dict(_OPTION.findall(table["with"] or "")))
            query = table["query"]
            self._query_sinks[name] = QuerySink(Statement(line, query), _declaring(given, has_key=False))
            self._inserts.append(Statement(line, f"INSERT INTO `{name}` {query}"))
        elif not _declares(statement):
            if not _IDLE.match(statement):
                shown = " ".join(statement.split())[:40]
                raise SqlScriptError(f"line {line}: {shown!r} {_why_not(statement)}")
        else:
            self._ddl.append(Statement(line, declared(statement, self._looked_up, self._stored_in)))
            if table := _TABLE.match(statement):
                self._given[_name_of(table)] = self._stored(dict(_OPTION.findall(statement)))

    def statements(self) -> Statements:
        """Return what has been taken."""
        said = []
        if self._inserts:
            what = "its rows are shown on a screen, beside INSERTs, which alone are on trial"
            said = [f"line {each.line}: this query is left out: {what}" for each in self._shown]
        else:
            for number, each in enumerate(self._shown, 1):
                name = SHOWN if number == 1 else f"{SHOWN}_{number}"
                self._query_sinks[name] = QuerySink(each, f"'connector' = '{DECLARED}'")
                self._inserts.append(Statement(each.line, f"INSERT INTO `{name}` {each.text}"))
                said.append(f"line {each.line}: the rows that this query shows on a screen go to sink {name}")
        check_inserts(each.text for each in self._inserts)
        return Statements(
            self._options,
            tuple(self._ddl),
            tuple(self._inserts),
            self._given,
            self._is_at_least_once,
            self._query_sinks,
            tuple(said),
        )

    def _set(self, line: int, option: str, value: str) -> None:
        if option == _MODE and value.lower() != "streaming":
            raise SqlScriptError(f"line {line}: {_MODE} is {value}: only STREAMING is put on trial")
        if option == _GUARANTEE:
            self._is_at_least_once = value.upper() == "AT_LEAST_ONCE"
        if not option.startswith(_OF_SCENARIOS):
            self._options[option] = value

    def _reset(self, option: str | None) -> None:
        """Take an option back, or all; behind an INSERT it no longer matters."""
        if self._inserts:
            return
        for each in [*self._options] if option is None else [option]:
            self._options.pop(each, None)

    def _stored(self, given: dict[str, str]) -> dict[str, str]:
        """Return the options of a table with a connector, where its catalog implies one."""
        return {"connector": self._stored_in, **given} if self._stored_in else given


def _name_of(table: re.Match[str]) -> str:
    return table["name"].rpartition(".")[2].strip("`")


def _why_not(statement: str) -> str:
    """Return why a statement is not executed, and what to do, as the end of a sentence."""
    for begins, remedy in _REMEDIES.items():
        if re.match(begins, statement, re.IGNORECASE | re.DOTALL):
            return f"is not executed: {remedy}"
    return "is not executed: only SET, USE, DROP, CREATE TABLE, CREATE VIEW and INSERT are"


def declared(statement: str, looked_up: Collection[str] = (), stored_in: str = "") -> str:
    """Return a statement whose table, if it creates one, only declares its changes.

    Args:
        statement: the statement.
        looked_up: the names of tables that a script joins as of a time.
        stored_in: the type of the catalog that stores a table without a connector; "": none does.
    """
    table = _TABLE.match(statement)
    if table is None:
        return statement
    found = list(_WITH.finditer(statement))
    if not found and not stored_in:
        return statement
    begins = found[-1].start("with") if found else len(statement)
    ends = closing(statement, found[-1].end("with")) if found else begins
    given = dict(_OPTION.findall(statement[begins:ends]))
    if stored_in and not _LIKE.match(statement, ends):
        given = {"connector": stored_in, **given}
    connector = given.get("connector")
    if connector == DECLARED:
        return statement
    options = ""
    if connector is not None:
        options = _declaring(given, has_key=bool(_KEY.search(statement[:begins])))
        if _name_of(table) in looked_up and not any(each in connector.lower() for each in _STREAMS):
            options += ", 'lookup' = 'sync'"
    # Partitions only say in which folders a sink writes its rows.
    columns = _PARTITIONED.sub(" ", statement[:begins])
    return f"{columns}{options and f'WITH ({options})'}{statement[ends:]}"


def _declaring(given: Mapping[str, str], *, has_key: bool) -> str:
    """Return the options of the table that stands for one with a connector."""
    pairs = [("connector", DECLARED), *changes_of(given, has_key=has_key).items()]
    return ", ".join([f"'{key}' = '{value}'" for key, value in pairs])


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
    elif any(each in connector for each in _LAKES):
        sends, takes = ("upsert", "upsert") if has_key else ("append", "append")
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
