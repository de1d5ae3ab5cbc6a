"""The family of a program on trial: its file in TOML, with the input and the oracle of another family.

The rules this module lives by:

- A family in the sense of `family.py`, so that runs, shrinking, reports and replays treat it as any other.
  Its job is a stand-in: the program does the work, and only ``--system command`` can run it.
- Input and expected rows come from the family that the file names as its oracle. Without one each record has
  a number, and each number must come out once.
- Of a file in Python only ``generate`` and ``expected`` are asked; the rest has defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from onceproof.harness.model.columns import OrderedBy, columns_of
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
from onceproof.harness.model.program_file import FlinkJob, ProgramFile, ProgramFileError, read_program_file
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.user_file import error_line, import_file

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

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
        self.record_schema: str = getattr(oracle, "record_schema", "")
        self.row_schema: str = getattr(oracle, "row_schema", "")
        self.oracle_sql: str = getattr(oracle, "oracle_sql", "SELECT 1")
        asked = options_of(oracle)
        repeats = asked.at_least_once or ("rows" if file.promise == "at_least_once" else None)
        self.options = FamilyOptions(
            declares=asked.declares,
            at_least_once=repeats,
            table_keys=asked.table_keys,
            versions=asked.versions,
            servers=file.servers,
            tolerance=file.output.tolerance or asked.tolerance,
            ordered_by=file.output.ordered_by or asked.ordered_by,
        )
        for problem in self.options.wrong_columns(self.row_columns):
            raise FamilyError(f"{path}: output.{problem}")

    @property
    def jobs(self) -> list[tuple[Path, FlinkJob]]:
        """The versions of a job of Flink, in order, with their files; none: it is another program."""
        versions = [] if self.before is None else [self.before]
        return [(each.path, each.file.flink) for each in (*versions, self) if each.file.flink is not None]

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of a row, in the order in which they are compared; none if neither file says any."""
        return self.file.output.columns or columns_of(self.row_schema)

    def generate(self, random: Random) -> Workload:
        """Draw splits of records, as the oracle does."""
        workload: Workload = self._oracle.generate(random)
        return workload

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build a job that stands in for the program, and fails at its first record."""
        from onceproof.harness.model.stand_in_job import build_stand_in

        build_stand_in(env, io, ("input", "program", "output"), SYSTEM)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the rows that the oracle expects."""
        rows: Rows = self._oracle.expected(records, declared)
        return rows


class EachRecordOnce:
    """Records with a number and a key, each of which comes out once; the oracle of a program without one.

    Splits are read in any order. So what has an order stands in one split: all records, or those of a key,
    which is then part of a row.
    """

    record_schema = "id BIGINT, key STRING"

    def __init__(self, ordered_by: OrderedBy | None = None) -> None:
        self._most_splits = MOST_SPLITS
        self._spreads_keys = True
        self.row_schema = "id BIGINT"
        if ordered_by is not None and "key" in ordered_by.key:
            self._spreads_keys = False
            self.row_schema = self.record_schema
        elif ordered_by is not None:
            self._most_splits = 1

    def generate(self, random: Random) -> Workload:
        """Draw up to MOST_RECORDS records in up to MOST_SPLITS splits; no two have the same number."""
        splits: dict[str, Sequence[InputRecord]] = {}
        number = 0
        for split in range(1 + int(random.random() * self._most_splits)):
            records: list[InputRecord] = []
            time = 0
            first_key = 0 if self._spreads_keys else split * KEYS
            for _ in range(1 + int(random.random() * MOST_RECORDS / MOST_SPLITS)):
                time += int(random.random() * LATEST_STEP_MS)
                records.append((time, (number, f"k{first_key + int(random.random() * KEYS)}")))
                number += 1
            splits[f"split-{split}"] = records
        return Workload(splits)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the number of each record, with its key where that is part of a row."""
        columns = len(columns_of(self.row_schema))
        return [
            value[:columns] for split in records.values() for _, value in split if isinstance(value, tuple)
        ]


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
        return ProgramFamily(path, file, EachRecordOnce(file.output.ordered_by), None, said, before)
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
    if not isinstance(getattr(module, "record_schema", None), str):
        raise FamilyError(
            f"{place}: an oracle needs 'record_schema', the columns of a record, as in 'word STRING'"
        )
    if not isinstance(options_of(module), FamilyOptions):
        raise FamilyError(f"{place}: 'options' must be FamilyOptions(...), not {module.options!r}")
