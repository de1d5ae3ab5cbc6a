"""The options of the plugin, and its messages for invalid options, arguments and families."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from tests.harness.testing.conftest import PytestResult, User

USAGE = 4

COUNTED = """
from onceproof import exactly_once


@exactly_once("word_count", scenarios=7)
def test_counts(onceproof):
    print("TALLY", onceproof.tally.scenarios, onceproof.tally.trace_hash())
"""


def run_counts(ended: PytestResult) -> tuple[int, str]:
    """Return the number of scenarios that a test ran, and their trace hash."""
    found = re.search(r"TALLY (\d+) (\w+)$", ended.out, re.MULTILINE)
    assert found is not None, ended.out + ended.error
    return int(found[1]), found[2]


def test_seed_decides_the_scenarios_and_is_printed(user: User) -> None:
    user.write("test_counts.py", COUNTED)
    plain = user.pytest("-s")
    assert run_counts(user.pytest("-s", "--onceproof-seed", "0")) == run_counts(plain)
    seven = user.pytest("-s", "--onceproof-seed", "7")
    assert run_counts(seven) != run_counts(plain)
    assert "onceproof: profile dev, seed 7; repeat with --onceproof-seed 7" in seven.out
    assert run_counts(user.pytest("-s", ONCEPROOF_SEED="7")) == run_counts(seven)
    # The option overrides the environment.
    assert run_counts(user.pytest("-s", "--onceproof-seed=0", ONCEPROOF_SEED="7")) == run_counts(plain)


def test_test_runs_the_scenarios_of_the_run_command(user: User) -> None:
    user.write("test_counts.py", COUNTED)
    ran = user.shell("onceproof run word_count --scenarios 7 --seed 3 -n 1 --json")
    assert f'"trace_hash":"{run_counts(user.pytest("-s", "--onceproof-seed", "3"))[1]}"' in ran.out


def test_seed_of_the_settings_is_the_default(user: User) -> None:
    user.write("test_counts.py", COUNTED)
    seven = run_counts(user.pytest("-s", "--onceproof-seed", "7"))
    user.write("pyproject.toml", "[tool.onceproof]\nseed = 7\n")
    assert run_counts(user.pytest("-s")) == seven
    assert run_counts(user.pytest("-s", "--onceproof-seed", "8")) != seven


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--onceproof-seed=random"], {}),
        ([], {"ONCEPROOF_PROFILE": "nightly"}),
        (["--hypothesis-profile=default", "--onceproof-seed", "random"], {"CI": "1"}),
    ],
)
def test_random_seed_differs_each_time_and_can_be_repeated(
    user: User, arguments: list[str], environment: dict[str, str]
) -> None:
    user.write("test_counts.py", COUNTED)
    first, second = (user.pytest("-s", *arguments, **environment) for _ in range(2))
    assert run_counts(first) != run_counts(second)
    again = re.search(r"--onceproof-seed \d+", first.out)
    assert again is not None
    assert run_counts(user.pytest("-s", *again[0].split())) == run_counts(first)


def test_scenarios_option_overrides_all_tests(user: User) -> None:
    user.write("test_counts.py", COUNTED)
    assert run_counts(user.pytest("-s", "--onceproof-scenarios", "3"))[0] == 3
    user.write("test_counts.py", COUNTED.replace("scenarios=7", "scenarios=7, shards=4"))
    listed = user.pytest("--collect-only", "-q", "--onceproof-scenarios", "3").out.splitlines()
    assert listed[:3] == [f"test_counts.py::test_counts[{shard}of3]" for shard in (1, 2, 3)]
    assert listed[3] == ""


def test_replay_option_runs_the_scenario_of_a_file(user: User) -> None:
    user.write("test_counts.py", COUNTED)
    user.write("folder/one.json", to_json(scenario_of(load_family("word_count"), 5)))
    ended = user.pytest("-s", "--onceproof-replay", "folder/one.json")
    assert run_counts(ended)[0] == 1
    assert ended.counts() == {"passed": 1}
    ended = user.pytest("--onceproof-replay", "one.json", "..", folder="folder")
    assert ended.counts() == {"passed": 1}
    ended = user.pytest("--onceproof-replay", "two.json")
    assert ended.counts() == {"failed": 1}
    assert "two.json: cannot be read: No such file or directory" in ended.out
    user.write("test_counts.py", COUNTED.replace("word_count", "page_views"))
    ended = user.pytest("--onceproof-replay", "folder/one.json")
    assert "a scenario of family 'word_count', not of 'page_views'" in ended.out


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ["--onceproof-seed", "seven"],
            {},
            "--onceproof-seed: 'seven' is neither a whole number nor 'random'",
        ),
        (["--onceproof-scenarios", "0"], {}, "--onceproof-scenarios: '0' is not a whole number of 1 or more"),
        (["--onceproof-scenarios", "x"], {}, "--onceproof-scenarios: 'x' is not a whole number of 1 or more"),
        (["--onceproof-shrink-runs", "-1"], {}, "-runs: '-1' is not a whole number of 0 or more"),
        ([], {"ONCEPROOF_SEED": "x"}, "ONCEPROOF_SEED=x: a seed is a whole number"),
        (
            [],
            {"ONCEPROOF_PROFILE": "night"},
            "ONCEPROOF_PROFILE=night: there are the profiles dev, ci, nightly",
        ),
    ],
)
def test_invalid_options_are_usage_errors(
    user: User, arguments: list[str], environment: dict[str, str], message: str
) -> None:
    user.write("test_counts.py", COUNTED)
    ended = user.pytest(*arguments, **environment)
    assert ended.code == USAGE
    assert message in ended.error
    assert "Traceback" not in ended.error


DECORATED = """
from onceproof import exactly_once


@exactly_once{arguments}
def test_sales():
    pass
"""

MISUSED = {
    '("sales.py", scenarios=0)': "exactly_once: scenarios must be a whole number of 1 or more, not 0",
    '("sales.py", "many")': "exactly_once: scenarios must be a whole number of 1 or more, not 'many'",
    '("sales.py", True)': "exactly_once: scenarios must be a whole number of 1 or more, not True",
    '("sales.py", shards=1.5)': "exactly_once: shards must be a whole number of 1 or more, not 1.5",
    '("sales.py", system="locl")': "exactly_once: unknown system 'locl': did you mean local?",
    "": "exactly_once needs parentheses: write @exactly_once(...)",
    '("sales.py", regressions="kept")': "regressions: no such folder: ",
}


def test_invalid_arguments_are_usage_errors_at_collection(owner: User) -> None:
    for number, arguments in enumerate(MISUSED):
        owner.write(f"test_{number}.py", DECORATED.format(arguments=arguments))
    ended = owner.pytest("-rN")
    assert ended.code == 2, ended.out
    assert ended.counts()["errors"] == len(MISUSED)
    for number, message in enumerate(MISUSED.values()):
        shown = ended.out.split(f"ERROR collecting test_{number}.py")[1].split("ERROR collecting")[0]
        assert re.search(rf"^E +\S*UsageError: .*{re.escape(message)}", shown, re.MULTILINE), shown
        assert f"test_{number}.py" in shown


NOT_FAMILIES = {
    '("wordcount")': "unknown family 'wordcount'; did you mean word_count?",
    '("absent.py")': "absent.py: no such file in ",
    '("sales.py:Sale")': "sales.py: it has no 'Sale'",
    "(5)": "builtins.int: a family needs 'name', a string of up to 100 printable characters",
    "()": "test_4.py: no family is named, so it must be the test's own module: a family needs 'name'",
    '("test_4.py")': "test_4.py: it executes no job: a family has generate() and job() at its top level",
    '("broken.py")': "broken.py:3: SyntaxError: ",
}


def test_object_that_is_no_family_fails_its_test_with_one_line(owner: User) -> None:
    owner.write("broken.py", "import sys\n\ndef job(\n")
    for number, arguments in enumerate(NOT_FAMILIES):
        owner.write(f"test_{number}.py", DECORATED.format(arguments=arguments))
    ended = owner.pytest("-rN", "--tb=short")
    assert ended.counts() == {"failed": len(NOT_FAMILIES)}, ended.out
    failures = re.split(r"^_+ test_sales _+$", ended.out, flags=re.MULTILINE)[1:]
    for failure, message in zip(failures, NOT_FAMILIES.values(), strict=True):
        shown = [line for line in failure.splitlines() if line and not line.startswith("=")]
        assert len(shown) == 1, failure
        assert message in shown[0]


def test_error_in_a_family_is_shown_with_the_frames_of_its_file(owner: User) -> None:
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


def test_internal_error_is_raised_with_its_traceback(owner: User) -> None:
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


def test_invalid_settings_are_reported(owner: User) -> None:
    owner.write("pyproject.toml", "[tool.onceproof]\nsede = 7\n")
    owner.write("test_sales.py", DECORATED.format(arguments='("sales.py")'))
    ended = owner.pytest()
    assert ended.counts() == {"failed": 1}
    assert "pyproject.toml: tool.onceproof.sede: unknown setting; did you mean seed?" in ended.out


def test_help_lists_the_options(user: User) -> None:
    ended = user.pytest("--help")
    for option in ("seed", "scenarios", "shrink-runs", "replay", "out"):
        assert f"--onceproof-{option}" in ended.out
    assert "@pytest.mark.exactly_once" in user.pytest("--markers").out
    assert "Run the scenarios of a family" in user.pytest("--fixtures").out
