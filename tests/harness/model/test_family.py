"""Finding a family by name or file, and the one-line errors where it is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from onceproof.harness.model.columns import columns_of
from onceproof.harness.model.family import FamilyError, FamilyOptions, family_of, options_of, source_file
from onceproof.harness.model.family_places import address_of, family_names, load_family, split_address

MINE = """
name = "mine"
generator_version = 1
tasks = {"numbers": "source", "sum": "keyed", "out": "sink"}
record_schema = "number BIGINT"
row_schema = "number BIGINT, sum BIGINT"
oracle_sql = "SELECT scenario_id, number, number AS sum FROM records"


def generate(random):
    raise NotImplementedError


def job(env, io):
    raise NotImplementedError


def expected(records, declared):
    return []
"""


OBJECTS = """
class Mine:
    name = "mine"
    generator_version = 1
    tasks = {"numbers": "source", "sum": "keyed", "out": "sink"}
    record_schema = "number BIGINT"
    row_schema = "number BIGINT, sum BIGINT"
    oracle_sql = "SELECT scenario_id, number, number AS sum FROM records"

    def generate(self, random):
        raise NotImplementedError

    def job(self, env, io):
        raise NotImplementedError

    def expected(self, records, declared):
        return []


class Larger(Mine):
    def __init__(self, size):
        self.name = f"mine of {size}"


SMALL, LARGE = Larger(1), Larger(9)
"""


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def error_of(name_or_path: str) -> str:
    with pytest.raises(FamilyError) as refused:
        load_family(name_or_path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_built_in_families_load_by_their_names() -> None:
    assert {"word_count", "page_views"} <= set(family_names())
    assert [load_family(name).name for name in family_names()] == family_names()


def test_a_family_in_a_file_of_the_users_own_loads_by_its_path(tmp_path: Path) -> None:
    family = load_family(write(tmp_path, MINE))
    assert family.name == "mine"
    assert family.expected({}, None) == []  # type: ignore[arg-type]


def test_a_path_without_py_is_a_file_where_it_names_a_folder(tmp_path: Path) -> None:
    assert error_of(str(tmp_path / "mine")) == f"{tmp_path}/mine: no such file"


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    assert error_of("wordcount") == "unknown family 'wordcount'; did you mean word_count?"


def test_a_name_like_no_other_is_answered_with_all_of_them() -> None:
    assert "page_views" in error_of("zzz")
    assert "word_count" in error_of("zzz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert error_of(str(tmp_path / "none.py")) == f"{tmp_path}/none.py: no such file"


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "name = 'mine'\n\ndef generate(random:\n    pass\n")
    assert error_of(path).startswith(f"{path}:3: SyntaxError: ")


def test_an_exception_in_the_file_is_shown_with_the_line_of_the_file_it_came_from(tmp_path: Path) -> None:
    path = write(tmp_path, "import json\n\n\ndef read():\n    return json.loads('{')\n\n\nread()\n")
    assert error_of(path).startswith(f"{path}:5: JSONDecodeError: ")


def test_an_import_of_a_missing_module_is_shown_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "import onceproof_has_no_such_module\n")
    assert error_of(path) == f"{path}:1: ModuleNotFoundError: No module named 'onceproof_has_no_such_module'"


@pytest.mark.parametrize("member", ["name", "generator_version", "tasks", "oracle_sql"])
def test_a_missing_value_is_named(tmp_path: Path, member: str) -> None:
    text = "\n".join(line for line in MINE.splitlines() if not line.startswith(f"{member} ="))
    path = write(tmp_path, text)
    assert error_of(path).startswith(f"{path}: a family needs '{member}', ")


@pytest.mark.parametrize("member", ["generate", "job", "expected"])
def test_a_missing_function_is_named_with_its_parameters(tmp_path: Path, member: str) -> None:
    path = write(tmp_path, MINE.replace(f"def {member}(", f"def other_{member}("))
    assert error_of(path).startswith(f"{path}: a family needs '{member}', a function {member}(")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("generator_version = 1", "generator_version = '1'", "'generator_version' must be a whole number"),
        ("generator_version = 1", "generator_version = 0", "'generator_version' must be a whole number"),
        ('"keyed"', '"middle"', "'tasks' must be a mapping from each vertex's name"),
        ('name = "mine"', "name = ''", "'name' must be a string"),
        ('name = "mine"', "name = 'a\\n\\0'", "'name' must be a string of up to 100 printable characters"),
        ('name = "mine"', "name = chr(0xd800)", "'name' must be a string of up to 100 printable characters"),
        ('name = "mine"', "name = 'a' * 101", "'name' must be a string of up to 100 printable characters"),
        *[
            ('name = "mine"', f"name = {name!r}", "printable characters that is no path")
            for name in ("../outside", "/etc/mine", "mine/../..", "a\\b", ".", ".mine")
        ],
        ('oracle_sql = "SELECT', 'oracle_sql = None; "', "'oracle_sql' must be a Spark SQL query"),
    ],
)
def test_a_member_of_the_wrong_kind_is_named_with_what_is_asked(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    assert right in MINE
    assert said in error_of(write(tmp_path, MINE.replace(right, wrong, 1)))


def test_an_object_in_a_file_loads_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, OBJECTS)
    assert load_family(f"{path}:LARGE").name == "mine of 9"
    assert load_family(f"{path}:Mine").name == "mine"


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("LARG", "mine.py: it has no 'LARG'; did you mean LARGE?"),
        ("zzz", "mine.py: it has no 'zzz'"),
        ("Larger", "mine.py:Larger: Larger.__init__() missing 1 required positional argument: 'size'; give"),
        ("__name__", "mine.py:__name__: a family needs 'name', a string of up to"),
    ],
)
def test_an_object_that_is_missing_or_no_family_is_refused(tmp_path: Path, attribute: str, said: str) -> None:
    assert said in error_of(f"{write(tmp_path, OBJECTS)}:{attribute}")


def test_a_colon_in_the_path_of_a_file_is_a_part_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, MINE, "a:b.py")
    assert split_address(path) == (Path(path), "")
    assert load_family(path).name == "mine"


@pytest.mark.parametrize("attribute", ["", "SMALL", "LARGE", "Mine"])
def test_the_address_of_a_family_leads_back_to_it(tmp_path: Path, attribute: str) -> None:
    path = write(tmp_path, MINE + OBJECTS)
    address = f"{path}:{attribute}" if attribute else path
    family = load_family(address)
    assert address_of(family) == address
    assert source_file(family) == path
    assert load_family(address_of(family)).name == family.name


def test_a_built_in_family_has_its_name_for_an_address() -> None:
    assert [address_of(load_family(name)) for name in family_names()] == family_names()


def test_an_object_that_was_imported_is_found_where_a_module_holds_it(tmp_path: Path) -> None:
    write(tmp_path, OBJECTS, "kinds.py")
    path = write(tmp_path, "from kinds import Larger\n\nMIDDLE = Larger(5)\n")
    assert address_of(load_family(f"{path}:MIDDLE")) == f"{path}:MIDDLE"


def test_an_object_without_a_name_has_no_address(tmp_path: Path) -> None:
    write(tmp_path, OBJECTS, "kinds.py")
    load_family(f"{tmp_path}/kinds.py:SMALL")
    kinds = sys.modules["onceproof_family_kinds"]
    with pytest.raises(FamilyError, match=r"'mine of 3'.*assign it to a name at the top of a module"):
        address_of(family_of(kinds.Larger(3), "here"))
    # A class that needs no arguments stands for its objects.
    assert address_of(kinds.Mine()) == f"{tmp_path}/kinds.py:Mine"


def test_a_module_without_a_file_has_no_address() -> None:
    module = ModuleType("typed_in")
    exec(MINE, vars(module))
    with pytest.raises(FamilyError, match="has no file"):
        address_of(family_of(module, "here"))


def test_a_family_imports_the_modules_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "NAME = 'mine'\n", "names_of_mine.py")
    path = write(
        tmp_path, MINE.replace('"mine"', "names_of_mine.NAME").replace("\n", "import names_of_mine\n", 1)
    )
    assert load_family(path).name == "mine"


def test_a_file_beside_a_family_does_not_stand_in_for_a_module_of_python(tmp_path: Path) -> None:
    write(tmp_path, "raise RuntimeError\n", "quopri.py")
    sys.modules.pop("quopri", None)
    assert load_family(write(tmp_path, "import quopri\n" + MINE)).name == "mine"


def test_a_family_in_a_package_imports_as_a_part_of_it(tmp_path: Path) -> None:
    write(tmp_path, "", "market/__init__.py")
    write(tmp_path, "", "market/families/__init__.py")
    write(tmp_path, "NAME = 'mine'\n", "market/names.py")
    text = MINE.replace('"mine"', "NAME").replace("\n", "from ..names import NAME\n", 1)
    path = write(tmp_path, text, "market/families/mine.py")
    family = load_family(path)
    assert family.name == "mine"
    assert family is sys.modules["market.families.mine"]
    assert address_of(family) == path


def test_a_package_of_the_same_name_elsewhere_is_not_taken_for_the_files_own(tmp_path: Path) -> None:
    write(tmp_path, "", "json/__init__.py")
    family = load_family(write(tmp_path, MINE, "json/mine.py"))
    assert source_file(family) == f"{tmp_path}/json/mine.py"


def test_a_mistake_in_the_package_of_a_family_is_named(tmp_path: Path) -> None:
    write(tmp_path, "1 // 0\n", "broken/__init__.py")
    path = write(tmp_path, MINE, "broken/mine.py")
    assert error_of(path) == f"{path}:1: ZeroDivisionError: integer division or modulo by zero"


def test_arrival_states_may_depend_on_the_parameters_of_a_workload() -> None:
    assert options_of(SimpleNamespace()).arrival_states_with({}) == frozenset()
    assert FamilyOptions(arrival_states=("timer", "next")).arrival_states_with({}) == {"timer", "next"}
    of_parameters = FamilyOptions(arrival_states=lambda parameters: ("timer",) if parameters["late"] else ())
    assert of_parameters.arrival_states_with({"late": 0.1}) == {"timer"}
    assert of_parameters.arrival_states_with({"late": 0.0}) == frozenset()
    with pytest.raises(FamilyError, match="arrival_states must return the names of states"):
        FamilyOptions(arrival_states=lambda parameters: "timer").arrival_states_with({})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table_key": 1}, "FamilyOptions has no option 'table_key'; did you mean table_keys?"),
        ({"zzz": 1}, "FamilyOptions has no option 'zzz'; there are declares, late, due, "),
        ({"table_keys": True}, "'table_keys' in FamilyOptions must be the number of key columns, not True"),
        ({"table_keys": 1}, "table_keys and versions belong together in FamilyOptions: one is missing"),
        (
            {"written_at_end": True},
            "written_at_end in FamilyOptions belongs to a table: table_keys is missing",
        ),
        (
            {"at_least_once": 1},
            "'at_least_once' in FamilyOptions must be 'rows', 'effects' or None, not 1",
        ),
        (
            {"barriers": "counted"},
            "'barriers' in FamilyOptions must be 'aligned', 'unaligned', 'at_least_once' or None, not",
        ),
        (
            {"barriers": "at_least_once"},
            "barriers='at_least_once' in FamilyOptions needs the option at_least_once, too",
        ),
        ({"arrival_states": "timer"}, "'arrival_states' in FamilyOptions must be the names of states"),
        ({"arrival_states": (1,)}, "'arrival_states' in FamilyOptions must be the names of states"),
        ({"declares": 1}, "'declares' in FamilyOptions must be True or False, not 1"),
        ({"jobs": {"bytewax": "x"}}, "'jobs' in FamilyOptions must be functions by the names of systems, as"),
        (
            {"jobs": {"bytwax": print}},
            "'jobs' in FamilyOptions must be functions by the names of systems, as",
        ),
        ({"jobs": print}, "'jobs' in FamilyOptions must be functions by the names of systems, as"),
        ({"quix_app": "x"}, "'jobs' in FamilyOptions must be functions by the names of systems, as in"),
    ],
)
def test_an_unknown_or_wrong_option_is_named_with_the_mend(given: dict[str, Any], said: str) -> None:
    with pytest.raises(FamilyError) as refused:
        FamilyOptions(**given)
    assert str(refused.value).startswith(said)


def test_an_option_of_an_earlier_version_is_an_entry_of_jobs() -> None:
    earlier = FamilyOptions(bytewax_flow=print, jobs={"quix": repr})  # type: ignore[call-arg]
    assert earlier == FamilyOptions(jobs={"bytewax": print, "quix": repr})


def test_a_wrong_option_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    options = "from onceproof import FamilyOptions\noptions = FamilyOptions(any_backends=True)\n"
    path = write(tmp_path, options + MINE)
    assert error_of(path) == (
        f"{path}:2: FamilyOptions has no option 'any_backends'; did you mean any_backend?"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("option = FamilyOptions(declares=True)", "a family's options are named 'options', not 'option'"),
        (
            "choices = FamilyOptions(declares=True)",
            "a family's options are named 'options', not 'choices'",
        ),
        ("optoins = {'declares': True}", "a family's options are named 'options', not 'optoins'"),
        ("options = {'declares': True}", "'options' must be FamilyOptions(...), not {'declares': True}"),
        ("declares = True", "'declares' is an option: write options = FamilyOptions(declares=...)"),
        ("table_keys = 1", "'table_keys' is an option: write options = FamilyOptions(table_keys=...)"),
        ("def due(row, records): return 1", "'due' is an option: write options = FamilyOptions(due=...)"),
    ],
)
def test_misspelt_options_and_loose_ones_are_refused_with_the_mend(
    tmp_path: Path, line: str, said: str
) -> None:
    path = write(tmp_path, f"from onceproof import FamilyOptions\n{line}\n{MINE}")
    assert error_of(path) == f"{path}: {said}"


def test_a_family_may_use_its_options_under_names_of_its_own(tmp_path: Path) -> None:
    text = """
from onceproof import FamilyOptions

table_keys = 1

def versions(records):
    return []

options = FamilyOptions(table_keys=table_keys, versions=versions)
"""
    assert options_of(load_family(write(tmp_path, text + MINE))).table_keys == 1


def test_a_misspelt_member_is_answered_with_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, MINE.replace("def expected(", "def expcted("))
    assert error_of(path).endswith("it is missing; did you mean expcted?")


def test_the_columns_of_a_schema() -> None:
    assert columns_of("word STRING, count BIGINT") == ("word", "count")
    assert columns_of("`a b` INT") == ("a b",)
    assert columns_of("pair STRUCT<x: INT, y: DECIMAL(3, 1)>, z INT") == ("pair", "z")
