"""The family of a program on trial: its file in TOML, with the input and the oracle of another family.

The rules this module lives by:

- A family in the sense of `family.py`, so that runs, shrinking, reports and replays treat it as any other.
  Its job is a stand-in: the program does the work, and only ``--system command`` can run it.
- Input and expected rows come from the family that the file names as its oracle. Without one each record has
  a number, and each number must come out once.
- Of a file in Python only ``generate`` and ``expected`` are asked; the rest has defaults. The parameters of
  its functions are checked when the file is loaded.
- With several outputs ``expected`` returns a mapping from their names to rows. Each row becomes one that
  begins with the name, as those of a job with several sinks do. ``record_schema`` and ``row_schema`` may be
  mappings by the names of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from onceproof.harness.model.columns import (
    Comparison,
    Comparisons,
    column_types_of,
    comparison,
    wrong_comparison,
)
from onceproof.harness.model.family import (
    FAMILY_MODULE,
    Declared,
    FamilyError,
    FamilyOptions,
    JobIO,
    Records,
    Role,
    Rows,
    Workload,
    nearest,
    options_of,
)
from onceproof.harness.model.history import Row
from onceproof.harness.model.program_ends import Input, Output, splits_of
from onceproof.harness.model.program_file import ProgramFile, ProgramFileError, read_program_file
from onceproof.harness.model.program_processes import FlinkJob
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.user_file import error_line, import_file

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Schema: TypeAlias = str | Mapping[str, str]
"""Columns in Spark DDL; those of several inputs or outputs by name."""

SYSTEM: Final = "command"
"""The system that runs programs."""
UPGRADES: Final = "upgrades"
"""The word of an address that names the version before it, as in ``new.py?upgrades=old.py``."""
RELEASE: Final = "flink_version"
"""The word of an address that names the release of Flink of a job, in place of its file."""
MOST_SPLITS: Final = 2
MOST_RECORDS: Final = 60
LATEST_STEP_MS: Final = 20
KEYS: Final = 5


class ProgramFamily:
    """A program and its oracle as a family.

    Args: path: of the file in TOML. oracle: the family whose input and expected rows are taken; the program's
    own file need not have a job.
    """

    tasks: Final[Mapping[str, Role]] = {"input": "source", "program": "keyed", "output": "sink"}

    def __init__(
        self,
        path: Path,
        file: ProgramFile,
        oracle: Any,
        oracle_file: str | None,
        said: str = "",
        before: ProgramFamily | None = None,
    ) -> None:
        self.path = path
        self.said = said
        """What its address says of it."""
        self.before = before
        """The version that a stop replaces by this one; None: it is not an upgrade."""
        self.file = file
        self.name = path.stem
        self.oracle_file = oracle_file
        """The user's own file with the oracle, as tracebacks name it; None: it is not one of a user."""
        self._oracle = oracle
        self.generator_version: int = getattr(oracle, "generator_version", 1)
        self._record_schema: Schema = getattr(oracle, "record_schema", "")
        self._row_schema: Schema = getattr(oracle, "row_schema", "")
        # Rows of several outputs have no schema in common.
        has_one = isinstance(self._record_schema, str) and len(file.outputs) == 1
        self.record_schema: str = self._record_schema if has_one else ""
        self.row_schema: str = self._row_schema if has_one and isinstance(self._row_schema, str) else ""
        self.oracle_sql: str = getattr(oracle, "oracle_sql", "SELECT 1")
        asked = options_of(oracle)
        versions = asked.versions
        tags = len(file.outputs) > 1
        self.options = FamilyOptions(
            declares=asked.declares,
            at_least_once=asked.at_least_once or ("rows" if file.is_at_least_once else None),
            may_repeat=None if file.is_at_least_once else self._may_repeat(),
            table_keys=asked.table_keys + tags if asked.table_keys else 0,
            versions=None if versions is None else lambda records: self._tagged(versions(records)),
            servers=file.servers,
        )
        if tags and (asked.tolerance or asked.ordered_by):
            raise FamilyError(
                f"{oracle_file or path}: several outputs: tolerance and ordered_by belong to each [[output]]"
            )
        self.comparisons = Comparisons(
            {each.name if tags else "": self._comparison(each, asked) for each in file.outputs}
        )

    @property
    def jobs(self) -> list[tuple[Path, FlinkJob]]:
        """The versions of a job of Flink, in order, with their files; none: it is another program."""
        versions = [] if self.before is None else [self.before]
        return [(each.path, each.file.flink) for each in (*versions, self) if each.file.flink is not None]

    def columns_of(self, end: Input | Output) -> dict[str, str]:
        """Return the columns of a record or row with their types as Spark DDL has them; "": not known."""
        schema = self._record_schema if isinstance(end, Input) else self._row_schema
        types = column_types_of(schema if isinstance(schema, str) else schema.get(end.name, ""))
        if isinstance(end, Output) and end.columns:
            return {name: types.get(name, "") for name in end.columns}
        return types

    def _comparison(self, output: Output, asked: FamilyOptions) -> Comparison:
        """Return how the rows of an output are compared. Raises FamilyError."""
        columns = tuple(self.columns_of(output))
        tolerance, ordered_by = output.tolerance or asked.tolerance, output.ordered_by or asked.ordered_by
        tags = len(self.file.outputs) > 1
        for problem in wrong_comparison(columns, tolerance, ordered_by, asked.table_keys, asked.declares):
            raise FamilyError(f"{self.path}: output.{f'{output.name}.' * tags}{problem}")
        return comparison(("",) * tags + columns, tolerance, ordered_by)

    def generate(self, random: Random) -> Workload:
        """Draw splits of records, as the oracle does."""
        workload: Workload = self._oracle.generate(random)
        if isinstance(workload, Workload):
            try:
                splits_of(self.file.inputs, list(workload.records))
            except ValueError as error:
                raise FamilyError(f"{self.path}: input: {error}") from None
        return workload

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build a job that stands in for the program, and fails at its first record."""
        from onceproof.harness.model.stand_in_job import build_stand_in

        build_stand_in(env, io, ("input", "program", "output"), SYSTEM)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the rows that the oracle expects."""
        return self._tagged(self._oracle.expected(records, declared))

    def _tagged(self, rows: Rows | Mapping[str, Rows]) -> Rows:
        """Return the rows of all outputs, each behind the name of its output; those of one as they are."""
        if len(self.file.outputs) == 1 and not isinstance(rows, Mapping):
            return rows
        names = [output.name for output in self.file.outputs]
        # A family with several sinks has put their names there itself.
        tagged: Rows = (
            [(name, *row) for name, own in rows.items() for row in own] if isinstance(rows, Mapping) else rows
        )
        for row in tagged:
            if not row or row[0] not in names:
                raise FamilyError(
                    f"{self.oracle_file or self.name}: {row!r} belongs to no output: return a mapping from"
                    f" {', '.join(names)} to rows"
                )
        return tagged

    def _may_repeat(self) -> Callable[[Row], bool] | None:
        file = self.file
        names = {each.name for each in file.outputs if file.promise_of(each) == "at_least_once"}
        return (lambda row: row[0] in names) if names else None


class EachRecordOnce:
    """Records with a number and a key, each of which comes out once; the oracle of a program without one.

    With several inputs each has a split, and with several outputs each record comes out once of each. Splits
    are read in any order. So what has an order stands in one split: all records, or those of a key, which is
    then part of a row.
    """

    def __init__(self, file: ProgramFile) -> None:
        number, key = file.columns.get("id", "id"), file.columns.get("key", "key")
        self.record_schema = f"{number} BIGINT, {key} STRING"
        self._inputs = [each.name for each in file.inputs if each.name]
        self._outputs = [each.name for each in file.outputs if len(file.outputs) > 1]
        orders = [each.ordered_by for each in file.outputs]
        of_keys = [order is not None and key in order.key for order in orders]
        self._columns = [2 if has_key else 1 for has_key in of_keys]
        schemas = [self.record_schema if has_key else f"{number} BIGINT" for has_key in of_keys]
        self.row_schema: Schema = schemas[0]
        if self._outputs:
            self.row_schema = dict(zip(self._outputs, schemas, strict=True))
        self._spreads_keys = not any(of_keys)
        self._most_splits = MOST_SPLITS
        if any(order is not None and not has_key for order, has_key in zip(orders, of_keys, strict=True)):
            self._most_splits = 1

    def generate(self, random: Random) -> Workload:
        """Draw up to MOST_RECORDS records in up to MOST_SPLITS splits; no two have the same number."""
        splits: dict[str, Sequence[InputRecord]] = {}
        number = 0
        for split in range(len(self._inputs) or 1 + int(random.random() * self._most_splits)):
            records: list[InputRecord] = []
            time = 0
            first_key = 0 if self._spreads_keys else split * KEYS
            for _ in range(1 + int(random.random() * MOST_RECORDS / MOST_SPLITS)):
                time += int(random.random() * LATEST_STEP_MS)
                records.append((time, (number, f"k{first_key + int(random.random() * KEYS)}")))
                number += 1
            splits[self._inputs[split] if self._inputs else f"split-{split}"] = records
        return Workload(splits)

    def expected(self, records: Records, declared: Declared) -> Rows | Mapping[str, Rows]:
        """Return the number of each record, with its key where that is part of a row."""
        values = [value for split in records.values() for _, value in split if isinstance(value, tuple)]
        rows = [[value[:columns] for value in values] for columns in self._columns]
        return dict(zip(self._outputs, rows, strict=True)) if self._outputs else rows[0]


def program_family(path: Path, named_family: Any, said: str = "") -> ProgramFamily:
    """Return the program in a file in TOML as a family.

    ``named_family`` returns a built-in family by its name. ``said`` is what the address says of a job of
    Flink: its release (RELEASE), or the file of the version before it (UPGRADES). Raises FamilyError.
    """
    words = dict(parse_qsl(said))
    try:
        file = read_program_file(path, words.get(RELEASE, ""))
    except ProgramFileError as error:
        raise FamilyError(str(error)) from None
    before = None
    if earlier := words.get(UPGRADES):
        before = program_family(path.parent / earlier, named_family)
        for place, each in ((before.path, before.file), (path, file)):
            if each.flink is None:
                raise FamilyError(f"{place}: upgrade takes jobs of Flink, and the file has no table [flink]")
    if not file.oracle:
        return ProgramFamily(path, file, EachRecordOnce(file), None, said, before)
    place = path.parent / file.oracle
    if not file.oracle.endswith(".py"):
        return ProgramFamily(path, file, named_family(file.oracle), None, said, before)
    if not place.is_file():
        raise FamilyError(f"{path}: oracle: {place}: no such file")
    try:
        module = import_file(place, FAMILY_MODULE)
    except Exception as error:
        raise FamilyError(error_line(place, error, FamilyError)) from error
    _check_oracle(module, place)
    return ProgramFamily(path, file, module, str(place), said, before)


def _check_oracle(module: ModuleType, place: Path) -> None:
    """Raise FamilyError where a file has not what is asked of an oracle."""
    for member in ("generate", "expected"):
        if not callable(getattr(module, member, None)):
            near = nearest(member, vars(module))
            raise FamilyError(f"{place}: an oracle needs a function {member!r}; it is missing{near}")
    for member, example in (("record_schema", "word STRING"), ("row_schema", "word STRING, n BIGINT")):
        schema = getattr(module, member, "" if member == "row_schema" else None)
        if not isinstance(schema, str | Mapping):
            raise FamilyError(
                f"{place}: an oracle needs {member!r}, the columns as in {example!r}, or a mapping of such"
                " by the names of several inputs or outputs"
            )
    options = options_of(module)
    if not isinstance(options, FamilyOptions):
        raise FamilyError(f"{place}: 'options' must be FamilyOptions(...), not {options!r}")
    functions: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("generate", module.generate, ("random",)),
        ("expected", module.expected, ("records", "declared")),
        ("versions", options.versions, ("records",)),
    )
    for name, function, parameters in functions:
        if callable(function):
            try:
                signature(function).bind(*parameters)
            except TypeError as error:
                raise FamilyError(
                    f"{place}: {name}() is called with ({', '.join(parameters)}): {error}; declare"
                    f" def {name}({', '.join(parameters)})"
                ) from None
