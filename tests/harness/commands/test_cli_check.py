"""`onceproof check`, and the lines about a family with which a run begins."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.commands.conftest import Command

LEDGER = Path(__file__).parents[1] / "ledger.py"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return the file of a family with timers that does not say what they decide."""
    return Path(shutil.copy(LEDGER, tmp_path / "ledger.py"))


def test_sound_family_has_one_line(onceproof: Command, sales: Path) -> None:
    ended = onceproof("check", "sales.py", "--scenarios", "5", "--no-sql")
    assert (ended.code, ended.error) == (0, "")
    assert ended.out == "sales.py: sound in 5 scenarios with nothing going wrong\n"


@pytest.mark.parametrize(
    ("member", "part", "other"),
    [
        ("generate", "chance.integer(1, 99)", "list({'a', 'b', 'c', 'd', 'e'}).index('a') + 1"),
        ("job", "lambda row: row[0]", "lambda row: str(hash(row[0]))"),
    ],
)
def test_order_of_a_set_is_found_in_another_process(
    onceproof: Command, sales: Path, member: str, part: str, other: str
) -> None:
    text = sales.read_text(encoding="utf-8")
    assert part in text
    sales.write_text(text.replace(part, other), encoding="utf-8")
    ended = onceproof("check", "sales.py", "--scenarios", "12", "--no-sql")
    assert ended.code == 1
    assert ended.out.startswith(f"sales.py: {member}: seed ")
    assert "in another process: it follows the order of a set, or hash()" in ended.out


def test_undeclared_timers_get_a_sentence_and_an_example(onceproof: Command, ledger: Path) -> None:
    ended = onceproof("check", "ledger.py", "--scenarios", "10", "--no-sql")
    assert ended.code == 1
    line, *example = ended.out.splitlines()
    assert line.startswith("ledger.py: declares: Not determined: which rows are there at a cut")
    assert "    options = FamilyOptions(declares=True)" in example
    [document] = json.loads(onceproof("check", "ledger.py", "--scenarios", "10", "--no-sql", "--json").out)
    assert [mistake["member"] for mistake in document["mistakes"]] == ["declares"]


def test_run_says_what_is_not_determined_instead_of_accusing(onceproof: Command, ledger: Path) -> None:
    words = ("--scenarios", "20", "-n", "1", "--out", "out", "--shrink-runs", "20")
    ended = onceproof("run", "ledger.py", *words)
    assert ended.code == 1
    assert ended.error.startswith("onceproof: ledger.py: declares: Not determined:")
    assert ended.error.endswith(" `onceproof check ledger.py` shows how.\n")
    assert ended.out.startswith("FAILED ledger: not determined by the input, in ")
    assert "wrong cut" not in ended.out
    assert "    options = FamilyOptions(declares=True)" in ended.out.splitlines()
    page = Path("out", "index.html").read_text(encoding="utf-8")
    assert "of them: not determined by the input, so fix ledger" in page
    assert "\noptions = FamilyOptions(declares=True)\n" in page
    [failure] = json.loads(Path("out", "report.json").read_bytes())["failures"]
    assert (failure["property"], failure["anomaly"]) == ("consistent_cut", "wrong cut")
    explained = onceproof(
        "explain", next(Path("out", "failures").glob("*[0-9a-f].json")).as_posix(), "--family", "ledger.py"
    )
    assert "FAILED not determined by the input: Not determined:" in explained.out


def test_a_family_that_passed_is_not_checked_again(
    onceproof: Command, sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of this version there is no note.
    sales.write_text(sales.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    options = ["sales.py", "--scenarios", "2", "-n", "1", "--out", "out"]
    assert onceproof("run", *options).code == 0

    def check_again(*arguments: object) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr("onceproof.harness.commands.check.supervised_mistakes", check_again)
    assert onceproof("run", *options).code == 0


@pytest.mark.spark
def test_spark_of_the_process_is_in_the_way_of_one_line(
    onceproof: Command, sales: Path, spark: SparkSession
) -> None:
    ended = onceproof("check", "sales.py", "--scenarios", "5", "--sql")
    assert (ended.code, ended.error) == (
        3,
        "onceproof: this process already runs a Spark session, and can run only one: stop it first,"
        " or run this in a process of its own\n",
    )


@pytest.mark.spark
def test_sql_that_disagrees_with_python_is_named(
    onceproof: Command, sales: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A start of Spark has tests of its own.
    monkeypatch.setattr(
        "onceproof.engine.runtime.spark_session.spark_session", lambda **options: nullcontext(spark)
    )
    text = sales.read_text(encoding="utf-8")
    assert "sum(cents)" in text
    Path("other.py").write_text(
        text.replace("sum(cents)", "sum(cents + 1)").replace('"sales"\n', '"other"\n', 1)
    )
    Path("none.py").write_text(
        text.replace("FROM records", "FROM record").replace('"sales"\n', '"none"\n', 1)
    )
    ended = onceproof("check", "sales.py", "other.py", "none.py", "--scenarios", "5", "--sql")
    assert ended.code == 1, ended.error
    sound, other, none = ended.out.splitlines()
    assert sound == "sales.py: sound in 5 scenarios with nothing going wrong; Spark SQL agrees"
    assert other.startswith(
        "other.py: oracle_sql: oracle_sql and expected() disagree, so one is wrong: other, "
    )
    assert none.startswith("none.py: oracle_sql: oracle_sql of family none: ")
