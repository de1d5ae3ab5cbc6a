"""Finding a family by name or file, and saying in one line what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.family import FamilyError, family_names, load_family

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


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def error_of(name_or_path: str) -> str:
    with pytest.raises(FamilyError) as refused:
        load_family(name_or_path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_built_in_families_load_by_name_and_bear_it() -> None:
    assert {"word_count", "page_views"} <= set(family_names())
    assert [load_family(name).name for name in family_names()] == family_names()


def test_a_family_in_a_file_of_the_users_own_loads_by_its_path(tmp_path: Path) -> None:
    family = load_family(write(tmp_path, MINE))
    assert family.name == "mine"
    assert family.expected({}, None) == []  # type: ignore[arg-type]


def test_a_path_without_py_is_taken_for_a_file_where_it_names_a_folder(tmp_path: Path) -> None:
    assert error_of(str(tmp_path / "mine")) == f"{tmp_path}/mine: no such file"


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    assert error_of("wordcount") == "unknown family 'wordcount': did you mean word_count?"


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


def test_an_import_of_what_is_not_there_is_shown_with_its_line(tmp_path: Path) -> None:
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
        ('oracle_sql = "SELECT', 'oracle_sql = None; "', "'oracle_sql' must be a Spark SQL query"),
    ],
)
def test_a_member_of_the_wrong_kind_is_named_with_what_is_asked(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    assert right in MINE
    assert said in error_of(write(tmp_path, MINE.replace(right, wrong, 1)))
