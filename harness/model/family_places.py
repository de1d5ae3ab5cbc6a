"""How a family is found: a built-in one by name, a user's own by its file.

The rules this module lives by:

- A family is a module: built-in ones stand under ``scenarios``, a user's own in any file. Nothing is
  registered or subclassed, so the shortest family is a short file.
- An object or a class with the same members is a family as well, where one file holds several. The family
  ``nexmark_q5`` of a package is ``nexmark/q5.py``; the built-in modules that hold several families are listed
  in ``scenarios.SEVERAL``.
- A file that defines none of a family's functions is a script, a program of PyFlink as people write it. If
  it imports pyspark and not pyflink it is a query of Structured Streaming. Its syntax tree says so; nothing
  of it runs.
- Which families come more often in a run of all of them is data: the file of ``TURNS``.
- FILE.sql is a script of Flink SQL, and FILE.json a compiled plan of one.
- Every process finds a family by its address: a name, FILE.py, FILE.py:OBJECT, the FILE.toml of a program, or
  FILE.py?WORDS of a script, where the words are those of a query: ``job.py?job=totals&argument=--fast``.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from onceproof import scenarios
from onceproof.harness.model.exit_codes import FOLLOWING
from onceproof.harness.model.family import (
    FAMILY_MODULE,
    Declared,
    Family,
    FamilyError,
    Records,
    family_of,
    nearest,
    options_of,
    source_file,
)
from onceproof.harness.model.program_family import SYSTEM as PROGRAMS
from onceproof.harness.model.program_family import UPGRADES as UPGRADES
from onceproof.harness.model.program_family import ProgramFamily, program_family
from onceproof.harness.model.program_file import template_of_job
from onceproof.harness.model.user_file import defined_in, error_line, import_file, imported_by

TURNS: Final = Path(scenarios.__file__).with_name("turns.json")
PROGRAM_SUFFIX: Final = ".toml"
SQL_SUFFIXES: Final = (".sql", ".json")
"""Of scripts of Flink SQL and of their plans."""
QUERIES: Final = "structured_streaming"
"""The system that runs queries."""
FLINK: Final = "flink"
"""The system that runs families on Flink; jobs in files are programs."""
WORDS: Final = "?"
"""Stands between a script and what its address says of it."""
_SCRIPTS: Final = "onceproof.harness.scripts.script_family"
_UPGRADES: Final = "onceproof.harness.scripts.upgrade_family"
_QUERIES: Final = "onceproof.harness.scripts.query_family"
_STATEMENTS: Final = "onceproof.harness.scripts.sql.sql_family"
_STATEMENT_UPGRADES: Final = "onceproof.harness.scripts.sql.sql_upgrade"
"""Imported when a script or query is loaded: it runs on the systems, which import this module."""
_OF_FAMILIES: Final = frozenset(
    ("generate", "job", "expected", "oracle_sql", "record_schema", "generator_version")
)
_SAID: Final = ("job", "sample", "argument")
_BUILT_IN: Final = f"{scenarios.__name__}."


def family_names() -> list[str]:
    """Return the names of the built-in families."""
    return sorted(_built_in_places())


@cache
def _built_in_places() -> Mapping[str, tuple[str, str]]:
    """Return by family name its module and attribute; "" if the module itself is the family.

    To look through the folders takes a millisecond, and some callers load all families one after another.
    """
    found = {}
    for module in pkgutil.iter_modules(scenarios.__path__, _BUILT_IN):
        inner = [module]
        if module.ispkg:
            package = importlib.import_module(module.name)
            inner = list(pkgutil.iter_modules(package.__path__, f"{module.name}."))
        for each in inner:
            name = _name_of(each.name)
            if name in scenarios.SEVERAL:
                found.update(
                    {object_name: (each.name, object_name) for object_name in scenarios.SEVERAL[name]}
                )
            elif "._" not in each.name:
                found[name] = each.name, ""
    return found


def turns_of(families: Iterable[Family]) -> tuple[int, ...]:
    """Return how many turns each of the families has in a round of a run of all."""
    turns = _turns()
    return tuple([turns.get(family.name, 1) for family in families])


@cache
def _turns() -> Mapping[str, int]:
    """Return the turns of those that have several: `python -m tests.planted.turns` writes them."""
    turns: Mapping[str, int] = json.loads(TURNS.read_text(encoding="utf-8"))
    return turns


def _name_of(module: str) -> str:
    """Return the name of the built-in family in a module."""
    return module.removeprefix(_BUILT_IN).replace(".", "_")


def is_built_in(family: Family) -> bool:
    """Return whether a family is one of this project's own."""
    module = family.__name__ if isinstance(family, ModuleType) else type(family).__module__
    return module.startswith(_BUILT_IN)


def load_family(address: str) -> Family:
    """Return a built-in family by name, the one in a user's FILE.py or FILE.py:OBJECT, a script or a program.

    FamilyError if there is none.
    """
    path, attribute = split_address(address)
    if is_program(address):
        return program_family(program_path(address), load_family, address.partition(WORDS)[2])
    if path is not None:
        return _from_file(path, attribute)
    if (template := template_of_job(job := Path(address))) is not None:
        name = job.with_suffix(PROGRAM_SUFFIX)
        needed = FamilyError(
            f"{job}: a job of Flink also needs a file that names its input, output and oracle: save this as"
            f" {name} beside it, and run `onceproof run {name}`"
        )
        setattr(needed, FOLLOWING, (template.rstrip(),))
        raise needed
    places = _built_in_places()
    if address not in places:
        near = nearest(address, places) or f"; there are {', '.join(sorted(places))}, or give a file.py"
        if Path(f"{address}.py").is_file():
            near = f"; did you mean {address}.py?"
        raise FamilyError(f"unknown family {address!r}{near}")
    module_name, attribute = places[address]
    module = importlib.import_module(module_name)
    return family_of(getattr(module, attribute) if attribute else module, f"family {address}")


def is_program(address: str) -> bool:
    """Return whether an address is that of a program on trial, FILE.toml or FILE.toml?WORDS."""
    return address.partition(WORDS)[0].endswith(PROGRAM_SUFFIX)


def program_path(address: str) -> Path:
    """Return the file in the address of a program on trial."""
    return Path(address.partition(WORDS)[0])


def split_address(address: str) -> tuple[Path | None, str]:
    """Return the file in an address, and what follows it; no file for a built-in family.

    That is the name of the object in it, or ? and what the address says of a script.
    """
    for suffix in (".py", *SQL_SUFFIXES):
        file, mark, said = address.partition(f"{suffix}{WORDS}")
        if mark:
            return Path(f"{file}{suffix}"), f"{WORDS}{said}"
    file, colon, attribute = address.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file), attribute
    path = Path(address)
    return (path if path.suffix in (".py", *SQL_SUFFIXES) or path.name != address else None), ""


def joined_address(path: Path | str, following: str) -> str:
    """Return the address that ``split_address`` takes apart."""
    separator = "" if not following or following.startswith(WORDS) else ":"
    return f"{path}{separator}{following}"


def is_script(path: Path) -> bool:
    """Return whether a file of Python is a script; False where it cannot be read."""
    try:
        return not defined_in(path) & _OF_FAMILIES
    except (OSError, SyntaxError, ValueError):
        return False


def is_sql(path: Path) -> bool:
    """Return whether a file is a script of Flink SQL, or the plan of one."""
    return path.suffix in SQL_SUFFIXES


def is_query(path: Path) -> bool:
    """Return whether a script is a query of Structured Streaming; False where it cannot be read."""
    try:
        return is_script(path) and "pyspark" in (found := imported_by(path)) and "pyflink" not in found
    except (OSError, SyntaxError, ValueError):
        return False


def own_system(address: str) -> str | None:
    """Return the system of a program or a query, which runs on no other; None for any other family."""
    if is_program(address):
        return PROGRAMS
    path, _ = split_address(address)
    return QUERIES if path is not None and is_query(path) else None


def system_of_program(address: str, asked: str) -> str:
    """Return the system that runs a program where another is asked for: jobs of Flink bring their cluster.

    Raises FamilyError where the program cannot be meant.
    """
    family = load_family(address)
    if asked not in (PROGRAMS, FLINK):
        raise FamilyError(
            f"{address}: a program runs on the system {PROGRAMS}, not on {asked}: `onceproof run {address}`"
        )
    if asked == FLINK and isinstance(family, ProgramFamily) and family.file.flink is None:
        raise FamilyError(
            f"{address}: --system {FLINK} runs a job of Flink, and the file has no table [flink]: leave"
            " --system out, or name a jar or a script there instead of [program]"
        )
    return PROGRAMS


def default_system(family: Family) -> str:
    """Return the system on which a family runs where no other is named."""
    return own_system(address_of(family)) or "simulated"


class Said(NamedTuple):
    """What the address of a script says of it."""

    job: str
    samples: Mapping[str, Path]
    """By source, the file with its records."""
    arguments: Sequence[str]


def said_of(path: Path, said: str) -> Said:
    """Return what follows a script in its address. Raises FamilyError."""
    job = ""
    samples: dict[str, Path] = {}
    arguments: list[str] = []
    for key, value in parse_qsl(said.removeprefix(WORDS), keep_blank_values=True):
        match key:
            case "job":
                job = value
            case "argument":
                arguments.append(value)
            case "sample":
                name, _, file = value.partition("=")
                samples[name] = path.parent / file
            case _:
                near = nearest(key, _SAID) or f"; there are {', '.join(_SAID)}"
                raise FamilyError(f"{path}{said}: unknown {key!r}{near}")
    return Said(job, samples, arguments)


def script_name(path: Path, job: str) -> str:
    """Return the name of the family of a script: the jobs of one file are families of their own."""
    return "-".join([path.stem, *re.findall(r"\w+", job)])


def check_samples(path: Path, samples: Iterable[str], sources: Collection[str]) -> None:
    """Raise FamilyError where a sample is for none of the sources of a script."""
    for name in samples:
        if name not in sources:
            raise FamilyError(
                f"{path}: there is no source {name!r}{nearest(name, sources)}; there are {', '.join(sources)}"
            )


def script_of(family: Family) -> Any | None:
    """Return the family if it is that of a script, whose class no module of this layer may import."""
    return family if type(family).__module__ == _SCRIPTS else None


def statements_of(family: Family) -> Any | None:
    """Return the family if it is that of a script of Flink SQL."""
    return family if type(family).__module__ == _STATEMENTS else None


def judge_of(family: Family) -> str:
    """Return who judges a script of Flink SQL, as the end of a sentence; "" for any other family."""
    script: Any = family
    return str(script.judge) if type(family).__module__ == _STATEMENTS else ""


def judged_by(family: object, records: Records, declared: Declared) -> str:
    """Return who says what a script of Flink SQL leaves in a run; "" for any other family."""
    script: Any = family
    return str(script.judged_by(records, declared)) if type(family).__module__ == _STATEMENTS else ""


def draws_chance(family: Family) -> bool:
    """Return whether a script of Flink SQL calls RAND or UUID: then two runs of one scenario differ."""
    script: Any = family
    return type(family).__module__ == _STATEMENTS and bool(script.draws_chance)


def in_spark(family: Family) -> Family:
    """Return whose schemas and query Spark takes: a script's statements of Flink SQL, else the family."""
    script: Any = family
    return script.in_spark if type(family).__module__ == _STATEMENTS else family


def address_of(family: Family) -> str:
    """Return the address by which another process finds a family; FamilyError if there is none."""
    if isinstance(family, ProgramFamily):
        return f"{family.path}{WORDS if family.said else ''}{family.said}"
    if type(family).__module__ in (_SCRIPTS, _QUERIES, _UPGRADES, _STATEMENTS, _STATEMENT_UPGRADES):
        script: Any = family
        return joined_address(script.path, script.said)
    if isinstance(family, ModuleType):
        if family.__name__.startswith(_BUILT_IN):
            return _name_of(family.__name__)
        file = vars(family).get("__file__")
        if file is None:
            raise FamilyError(f"family {family.name!r}: its module has no file that another process can load")
        return str(file)
    if type(family).__module__.startswith(_BUILT_IN) and family.name in _built_in_places():
        return family.name
    for wanted in (family, type(family)) if _has_no_state(family) else (family,):
        place = _place_in_a_module(wanted, type(family).__module__)
        if place is not None:
            return place
    raise FamilyError(
        f"family {family.name!r} is an object that no module holds under a name, so no other process can find"
        " it: assign it to a name at the top of a module"
    )


def place_of(family: Family) -> tuple[str, str, str]:
    """Return where another Python finds a family: module, file if it is a user's, and its name in there.

    The file is "" for a built-in family, the name "" for a module that is the family. Raises FamilyError.
    """
    address = address_of(family)
    path, attribute = split_address(address)
    if path is not None:
        return f"{FAMILY_MODULE}{path.stem}", str(path.absolute()), attribute
    module, attribute = _built_in_places()[address]
    return module, "", attribute


def _place_in_a_module(wanted: object, likeliest: str) -> str | None:
    """Return FILE.py:NAME of an object that a module holds; the module where its class stands goes first."""
    modules: list[object] = [module for name, module in sys.modules.items() if name != likeliest]
    for module in (sys.modules.get(likeliest), *modules):
        path = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if path is not None and path.endswith(".py"):
            for attribute, value in vars(module).items():
                if value is wanted:
                    return f"{path}:{attribute}"
    return None


def _has_no_state(family: Family) -> bool:
    """Return whether a new object of the family's class equals the family: it has no state."""
    return not getattr(family, "__dict__", None) and not hasattr(type(family), "__slots__")


def _from_file(path: Path, attribute: str) -> Family:
    """Import a user's file and return it, or an object in it, as a family."""
    if not path.is_file():
        raise FamilyError(f"{path}: no such file")
    if path.suffix != ".py" and not is_sql(path):
        raise FamilyError(f"{path}: a family and a program are files of Python, FILE.py")
    if attribute.startswith(WORDS) or (not attribute and (is_sql(path) or is_script(path))):
        try:
            return _script(path.absolute(), attribute)
        except FamilyError as error:
            # As the user has written it.
            raise FamilyError(str(error).replace(str(path.absolute()), str(path))) from error.__cause__
    try:
        module = import_file(path, FAMILY_MODULE)
    except Exception as error:
        raise FamilyError(error_line(path, error, FamilyError)) from error
    if not attribute:
        return family_of(module, str(path))
    if not hasattr(module, attribute):
        raise FamilyError(f"{path}: it has no {attribute!r}{nearest(attribute, vars(module))}")
    return family_of(getattr(module, attribute), f"{path}:{attribute}")


@cache
def _script(path: Path, said: str) -> Family:
    """Return a script, which its process looks at once only: it runs to know what its records determine."""
    is_upgrade = UPGRADES in dict(parse_qsl(said.removeprefix(WORDS)))
    if is_sql(path):
        places = (_STATEMENT_UPGRADES, "SqlUpgradeFamily") if is_upgrade else (_STATEMENTS, "SqlFamily")
        statements: Family = getattr(importlib.import_module(places[0]), places[1])(path, said)
        return statements
    if is_query(path):
        query: Family = importlib.import_module(_QUERIES).QueryFamily(path, said)
        return query
    module, kind = (_UPGRADES, "UpgradeFamily") if is_upgrade else (_SCRIPTS, "ScriptFamily")
    family: Family = getattr(importlib.import_module(module), kind)(path, said)
    return family


def check_table_keys(family: Family, keys: int, sink: str) -> None:
    """Raise FamilyError where a job replaces rows by key and the family does not say so, or by other keys.

    Args:
        keys: the key columns by which the job writes; 0 if it replaces no rows.
        sink: the call that says so in the job.
    """
    said = options_of(family).table_keys
    if keys and keys != said:
        place = source_file(family) or family.name
        was = f"options say table_keys={said}" if said else "expected() is compared with rows that are added"
        raise FamilyError(
            f"{place}: {sink} replaces rows by key, and {was}: set options = FamilyOptions(table_keys={keys},"
            " versions=versions), where versions(records) returns all rows that each key may show"
        )
