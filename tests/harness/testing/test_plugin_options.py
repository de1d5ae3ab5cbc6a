"""The plugin's options, and what it says where it cannot do what it is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from tests.harness.testing.conftest import Ended, User

USAGE = 4

TOLD = """
from onceproof import exactly_once


@exactly_once("word_count", scenarios=7)
def test_told(onceproof):
    print("TALLY", onceproof.tally.scenarios, onceproof.tally.trace_hash())
"""


def told(ended: Ended) -> tuple[int, str]:
    """Return how many scenarios a test ran, and the hash over them."""
    found = re.search(r"TALLY (\d+) (\w+)$", ended.out, re.MULTILINE)
    assert found is not None, ended.out + ended.error
    return int(found[1]), found[2]


def test_the_seed_decides_the_scenarios_and_is_told(user: User) -> None:
    user.write("test_told.py", TOLD)
    plain = user.pytest("-s")
    assert told(user.pytest("-s", "--onceproof-seed", "0")) == told(plain)
    seven = user.pytest("-s", "--onceproof-seed", "7")
    assert told(seven) != told(plain)
    assert "onceproof: profile dev, seed 7; --onceproof-seed 7 does the same again" in seven.out
    assert told(user.pytest("-s", ONCEPROOF_SEED="7")) == told(seven)
    # What is typed wins.
    assert told(user.pytest("-s", "--onceproof-seed=0", ONCEPROOF_SEED="7")) == told(plain)


def test_the_scenarios_are_those_of_the_command(user: User) -> None:
    user.write("test_told.py", TOLD)
    ran = user.shell("onceproof run word_count --scenarios 7 --seed 3 -n 1 --json")
    assert f'"trace_hash":"{told(user.pytest("-s", "--onceproof-seed", "3"))[1]}"' in ran.out


def test_the_seed_of_the_project_holds_where_none_is_given(user: User) -> None:
    user.write("test_told.py", TOLD)
    seven = told(user.pytest("-s", "--onceproof-seed", "7"))
    user.write("pyproject.toml", "[tool.onceproof]\nseed = 7\n")
    assert told(user.pytest("-s")) == seven
    assert told(user.pytest("-s", "--onceproof-seed", "8")) != seven


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--onceproof-seed=random"], {}),
        ([], {"ONCEPROOF_PROFILE": "nightly"}),
        (["--hypothesis-profile=default", "--onceproof-seed", "random"], {"CI": "1"}),
    ],
)
def test_a_new_seed_is_another_one_each_time_and_can_be_repeated(
    user: User, arguments: list[str], environment: dict[str, str]
) -> None:
    user.write("test_told.py", TOLD)
    first, second = (user.pytest("-s", *arguments, **environment) for _ in range(2))
    assert told(first) != told(second)
    again = re.search(r"--onceproof-seed \d+", first.out)
    assert again is not None
    assert told(user.pytest("-s", *again[0].split())) == told(first)


def test_the_number_of_scenarios_can_be_another_one_for_all_tests(user: User) -> None:
    user.write("test_told.py", TOLD)
    assert told(user.pytest("-s", "--onceproof-scenarios", "3"))[0] == 3
    user.write("test_told.py", TOLD.replace("scenarios=7", "scenarios=7, shards=4"))
    listed = user.pytest("--collect-only", "-q", "--onceproof-scenarios", "3").out.splitlines()
    assert listed[:3] == [f"test_told.py::test_told[{shard}of3]" for shard in (1, 2, 3)]
    assert listed[3] == ""


def test_a_scenario_from_a_file_is_run_instead_of_those_asked_for(user: User) -> None:
    user.write("test_told.py", TOLD)
    user.write("folder/one.json", to_json(scenario_of(load_family("word_count"), 5)))
    ended = user.pytest("-s", "--onceproof-replay", "folder/one.json")
    assert told(ended)[0] == 1
    assert ended.counts() == {"passed": 1}
    ended = user.pytest("--onceproof-replay", "one.json", "..", folder="folder")
    assert ended.counts() == {"passed": 1}
    ended = user.pytest("--onceproof-replay", "two.json")
    assert ended.counts() == {"failed": 1}
    assert "two.json: cannot be read: No such file or directory" in ended.out
    user.write("test_told.py", TOLD.replace("word_count", "page_views"))
    ended = user.pytest("--onceproof-replay", "folder/one.json")
    assert "a scenario of family 'word_count', not of 'page_views'" in ended.out


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (
            ["--onceproof-seed", "seven"],
            {},
            "--onceproof-seed: 'seven' is neither a whole number nor 'random'",
        ),
        (["--onceproof-scenarios", "0"], {}, "--onceproof-scenarios: '0' is not a whole number of 1 or more"),
        (["--onceproof-scenarios", "x"], {}, "--onceproof-scenarios: 'x' is not a whole number of 1 or more"),
        (["--onceproof-shrink-time", "-1"], {}, "-time: '-1' is not a number of seconds, 0 or more"),
        ([], {"ONCEPROOF_SEED": "x"}, "ONCEPROOF_SEED=x: a seed is a whole number"),
        (
            [],
            {"ONCEPROOF_PROFILE": "night"},
            "ONCEPROOF_PROFILE=night: there are the profiles dev, ci, nightly",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_usage_errors(
    user: User, arguments: list[str], environment: dict[str, str], said: str
) -> None:
    user.write("test_told.py", TOLD)
    ended = user.pytest(*arguments, **environment)
    assert ended.code == USAGE
    assert said in ended.error
    assert "Traceback" not in ended.error


DECORATED = """
from onceproof import exactly_once


@exactly_once{arguments}
def test_sales():
    pass
"""

MISUSED = {
    '("sales.py", scenarios=0)': "exactly_once: scenarios is a whole number of 1 or more, not 0",
    '("sales.py", "many")': "exactly_once: scenarios is a whole number of 1 or more, not 'many'",
    '("sales.py", True)': "exactly_once: scenarios is a whole number of 1 or more, not True",
    '("sales.py", shards=1.5)': "exactly_once: shards is a whole number of 1 or more, not 1.5",
    '("sales.py", system="locl")': "exactly_once: unknown system 'locl': did you mean local?",
    "": "exactly_once needs parentheses: write @exactly_once(...)",
    '("sales.py", regressions="kept")': "regressions: no such folder: ",
}


def test_arguments_that_cannot_be_meant_are_usage_errors_where_they_stand(owner: User) -> None:
    for number, arguments in enumerate(MISUSED):
        owner.write(f"test_{number}.py", DECORATED.format(arguments=arguments))
    ended = owner.pytest("-rN")
    assert ended.code == 2, ended.out
    assert ended.counts()["errors"] == len(MISUSED)
    for number, said in enumerate(MISUSED.values()):
        shown = ended.out.split(f"ERROR collecting test_{number}.py")[1].split("ERROR collecting")[0]
        assert re.search(rf"^E +\S*UsageError: .*{re.escape(said)}", shown, re.MULTILINE), shown
        assert f"test_{number}.py" in shown


NOT_FAMILIES = {
    '("wordcount")': "unknown family 'wordcount'; did you mean word_count?",
    '("absent.py")': "absent.py: no such file in ",
    '("sales.py:Sale")': "sales.py: it has no 'Sale'",
    "(5)": "builtins.int: a family needs 'name', a string; it is missing",
    "()": "test_4.py: no family is named, so the test's own module is meant: a family needs 'name'",
    '("test_4.py")': "test_4.py: a family needs 'name', a string; it is missing",
    '("broken.py")': "broken.py:3: SyntaxError: ",
}


def test_a_family_that_is_none_fails_its_test_in_one_line(owner: User) -> None:
    owner.write("broken.py", "import sys\n\ndef job(\n")
    for number, arguments in enumerate(NOT_FAMILIES):
        owner.write(f"test_{number}.py", DECORATED.format(arguments=arguments))
    ended = owner.pytest("-rN", "--tb=short")
    assert ended.counts() == {"failed": len(NOT_FAMILIES)}, ended.out
    failures = re.split(r"^_+ test_sales _+$", ended.out, flags=re.MULTILINE)[1:]
    for failure, said in zip(failures, NOT_FAMILIES.values(), strict=True):
        shown = [line for line in failure.splitlines() if line and not line.startswith("=")]
        assert len(shown) == 1, failure
        assert said in shown[0]


def test_a_mistake_in_a_family_is_shown_where_the_user_made_it(owner: User) -> None:
    text = (owner.folder / "sales.py").read_text()
    broken = text.replace("    rows = []", "    rows = []\n    check(records)")
    broken += "\n\ndef check(records):\n    assert len(records) < 4, 'too many shops'\n"
    owner.write("sales.py", broken)
    owner.write("test_sales.py", DECORATED.format(arguments='("sales.py")'))
    ended = owner.pytest("-rN")
    assert ended.counts() == {"failed": 1}
    shown = re.split(r"^_+ test_sales _+$", ended.out, flags=re.MULTILINE)[1].splitlines()[1:-1]
    line = broken[: broken.index("    assert len")].count("\n") + 1
    assert re.fullmatch(rf".*/sales.py:{line}: seed \d+: AssertionError: too many shops", shown[0])
    assert [number for text in shown if (number := text.partition(" in ")[2])] == ["expected", "check"]
    assert "harness/" not in "\n".join(shown)


def test_what_only_we_can_mend_is_raised_as_it_is(owner: User) -> None:
    owner.write(
        "conftest.py",
        "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef broken(monkeypatch):\n"
        "    monkeypatch.setattr('onceproof.harness.testing.proof.outcome_of', None)\n",
    )
    owner.write("test_sales.py", DECORATED.format(arguments='("sales.py")'))
    ended = owner.pytest()
    assert ended.counts() == {"failed": 1}
    assert "TypeError: 'NoneType' object is not callable" in ended.out
    assert "proof.py:" in ended.out


def test_settings_that_cannot_be_used_are_told(owner: User) -> None:
    owner.write("pyproject.toml", "[tool.onceproof]\nsede = 7\n")
    owner.write("test_sales.py", DECORATED.format(arguments='("sales.py")'))
    ended = owner.pytest()
    assert ended.counts() == {"failed": 1}
    assert "pyproject.toml: tool.onceproof.sede: unknown setting; did you mean seed?" in ended.out


def test_help_lists_the_options(user: User) -> None:
    ended = user.pytest("--help")
    for option in ("seed", "scenarios", "shrink-time", "replay", "out"):
        assert f"--onceproof-{option}" in ended.out
    assert "@pytest.mark.exactly_once" in user.pytest("--markers").out
    assert "Run the scenarios of a family" in user.pytest("--fixtures").out
