"""Each mistake of a family is named with its mend, and no mistake excuses a bug that only a fault shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from onceproof.harness.checkers.consistent_cut import WRONG_CUT, ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.model.family import Family, FamilyError, source_file
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.trials.family_mistakes import (
    DECLARES,
    PARALLELISMS,
    FamilyMistake,
    mistake_behind,
    mistakes_of,
)
from onceproof.harness.trials.sound_families import is_known_sound, note_sound
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario

LEDGER = (Path(__file__).parents[1] / "ledger.py").read_text(encoding="utf-8")
# What the sentence of the harness asks for, put into the family as it is printed.
MENDED = LEDGER.replace("def expected(", "def rows_at_the_end(").replace(
    "-> Rows:", "-> Rows:", 1
) + DECLARES.replace("rows_at_the_end(records)", "rows_at_the_end(records, declared)")
_NUMBERS = count()

Made = Callable[..., Family]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return a function that loads a family from a text in which some parts are replaced."""

    def make(text: str, *changes: tuple[str, str]) -> Family:
        for part, other in changes:
            assert part in text
            text = text.replace(part, other)
        path = tmp_path / f"family_{next(_NUMBERS)}.py"
        path.write_text(text, encoding="utf-8")
        return load_family(str(path))

    return make


def only_mistake(family: Family, scenarios: int = 10) -> FamilyMistake:
    """Return the one mistake that a check finds."""
    [mistake] = mistakes_of(family, scenarios=scenarios, parallelisms=PARALLELISMS)
    return mistake


def test_timers_without_declares_get_the_member_to_declare(made: Made) -> None:
    mistake = only_mistake(made(LEDGER))
    assert mistake.member == "declares"
    assert "when timers and windows fire" in mistake.sentence
    assert "wrong cut" not in mistake.sentence


def test_the_example_in_the_sentence_makes_the_ledger_sound(made: Made) -> None:
    family = made(MENDED)
    assert list(mistakes_of(family, parallelisms=PARALLELISMS)) == []
    for number in range(15):
        assert try_scenario(family, scenario_of(family, scenario_seed(0, "ledger", number))).verdict.passed


CHAINED = """
from onceproof import Chance, Workload
from onceproof.engine import Types

name = "chained"
generator_version = 1
tasks = {"words": "source", "sums -> out": "keyed"}
record_schema = "word STRING, n BIGINT"
row_schema = "word STRING, n BIGINT"
oracle_sql = "SELECT scenario_id, word, sum(n) OVER (PARTITION BY word ORDER BY offset) AS n FROM records"


def generate(random):
    chance = Chance(random)
    return Workload({"w": [(i, ("a", chance.integer(1, 9))) for i in range(chance.integer(0, 9))]})


def job(env, io):
    words = env.from_source(io.source("words"), None, "words").uid("words")
    words.set_parallelism(io.source_parallelism)
    by_word = words.key_by(lambda record: record[0], Types.STRING())
    sums = by_word.reduce(lambda one, two: (one[0], one[1] + two[1])).name("sums").uid("sums")
    sums.set_parallelism(io.parallelism).add_sink(io.sink("out")).name("out").uid("out")


def expected(records, declared):
    rows, total = [], 0
    for _, (word, n) in records["w"]:
        total += n
        rows.append((word, total))
    return rows
"""


def test_faults_strike_a_sink_that_is_chained_to_a_keyed_operator(made: Made) -> None:
    family = made(CHAINED)
    check_family(family)
    scenarios = [scenario_of(family, seed) for seed in range(100)]
    assert any(
        fault.task.startswith("sums -> out-") and fault.point in ("committing", "committed")
        for scenario in scenarios
        for fault in scenario.faults
    )
    assert all(try_scenario(family, scenario).verdict.passed for scenario in scenarios[:25])


def test_a_vertex_that_is_named_last_and_does_not_write_is_refused(made: Made) -> None:
    right = '{"words": "source", "sums -> out": "keyed"}'
    family = made(CHAINED, (right, '{"sums -> out": "keyed", "words": "source"}'))
    with pytest.raises(FamilyError, match="'words' does not write: name 'sums -> out' last"):
        check_family(family)


def test_a_job_without_a_sink_of_the_harness_is_refused(made: Made) -> None:
    family = made(CHAINED, ('.add_sink(io.sink("out")).name("out").uid("out")', ""), ("sums -> out", "sums"))
    with pytest.raises(FamilyError, match="job\\(\\) writes to no sink of the harness"):
        check_family(family)


def test_an_expected_that_returns_nothing_is_refused(made: Made) -> None:
    with pytest.raises(FamilyError, match="expected\\(\\) returns None"):
        check_family(made(CHAINED, ("    return rows", "    pass")))


@pytest.mark.parametrize(
    ("member", "line"),
    [
        ("generate", "    chance = Chance(random)"),
        ("job", '    words = env.from_source(io.source("words"), None, "words").uid("words")'),
        ("expected", "    rows, total = [], 0"),
    ],
)
@pytest.mark.parametrize(
    ("deed", "found"),
    [
        ("while True: pass", "does not return: time exceeded: it computes without an end"),
        ("__import__('time').sleep(10**6)", "does not return: time exceeded: it waits and does nothing"),
        ("__import__('os')._exit(0)", "calls os._exit\\(0\\)"),
    ],
)
def test_a_function_that_does_not_return_is_named_with_its_line(
    made: Made, member: str, line: str, deed: str, found: str
) -> None:
    family = made(CHAINED, (line, f"    {deed}\n{line}"))
    file = source_file(family)
    number = 1 + Path(str(file)).read_text(encoding="utf-8").splitlines().index(f"    {deed}")
    with (
        seconds_for_each(1.0),
        pytest.raises(FamilyError, match=f"{member}\\(\\) {found}, in {member} \\({file}:{number}\\)"),
    ):
        check_family(family)


def test_rows_asked_for_before_the_end_name_is_whole(made: Made) -> None:
    mistake = only_mistake(made(MENDED, ("declared.so_far(", "(")))
    assert mistake.member == "is_whole"


def test_rows_asked_for_as_if_watermarks_came_at_once_name_is_whole(made: Made) -> None:
    # The oracle knows from the records which days are over; the job learns it with the next watermark.
    over = """
    rows = rows_at_the_end(records, declared)
    if declared.is_whole:
        return rows
    latest = max((time for split in records.values() for time, _ in split), default=0)
    return [row for row in rows if row[1] + DAY_MS - 1 <= latest - 1]
"""
    held_back = MENDED[MENDED.index("    # At a cut, timers") :]
    family = made(MENDED, ('("ann", "bob", "cid")[: chance.integer(1, 3)]', '("ann",)'), (held_back, over))
    mistake = only_mistake(family)
    assert (mistake.member, mistake.title) == ("is_whole", "not determined by the input")


def test_records_that_differ_at_a_second_call_are_named(made: Made, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    family = made(text, ("chance.integer(1, 99)", "__import__('random').randrange(9**9)"))
    with pytest.raises(FamilyError, match="generate\\(\\) gives other records when it is called again"):
        check_family(family)


def test_a_job_with_random_numbers_is_named(made: Made) -> None:
    random_cents = "value[1] + __import__('random').randrange(9**9)"
    mistake = only_mistake(made(LEDGER, ("(self._days.get(day) or 0) + value[1]", random_cents)), 5)
    assert mistake.member == "job"
    assert "two runs" in mistake.sentence


def test_an_oracle_that_disagrees_with_an_undisturbed_run_is_named(made: Made, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    mistake = only_mistake(made(text, ("total += cents", "total += cents + 1")))
    assert mistake.member == "expected"
    assert "fails with nothing going wrong" in mistake.sentence
    assert mistake.sentence.endswith("Check job() and expected().")


def test_a_job_that_raises_undisturbed_is_named(made: Made) -> None:
    mistake = only_mistake(made(LEDGER, ("self._days.remove(day)", "raise ValueError('no such day')")))
    assert mistake.member == "job"
    assert "no such day" in mistake.sentence


def test_rows_that_depend_on_arrival_name_declares(made: Made, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    family = made(
        text,
        ("{shop: [(at, (shop, cents))", '{shop: [(at, ("all", cents))'),
        ("    rows = []\n", "    rows, total = [], 0\n"),
        ("        total = 0\n", ""),
        ("(shop, total))", '("all", total))'),
    )
    mistake = only_mistake(family)
    assert mistake.member == "declares"
    assert "order in which records arrive" in mistake.sentence


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("shop STRING, total BIGINT", "shop STRING", "row_schema has 1 columns (shop) and not the 2 of"),
        ("total BIGINT", "total STRING", "row_schema says total STRING, which does not hold"),
        ("cents BIGINT", "cents STRING", "record_schema says cents STRING, which does not hold"),
    ],
)
def test_schema_that_does_not_fit_is_named(
    made: Made, sales: Path, right: str, wrong: str, words: str
) -> None:
    with pytest.raises(FamilyError, match=re.escape(words)):
        check_family(made(sales.read_text(encoding="utf-8"), (right, wrong)))


def test_state_that_depends_on_arrival_names_arrival_states(made: Made) -> None:
    seen = "self._balance.update(ctx.timer_service().current_processing_time())"
    family = made(
        MENDED,
        ("self._days.put(day, (", f"{seen}\n        self._days.put(day, ("),
        ("self._balance.update((self._balance.value() or 0) + self._days.get(day))", "pass"),
        ("day, self._balance.value()", "day, 1"),
        ("total += sum(cents for _, cents in amounts)", "total += 1"),
    )
    mistake = only_mistake(family, scenarios=20)
    assert mistake.member == "arrival_states"
    assert "'balance'" in mistake.sentence


def test_bug_that_only_a_kill_shows_is_not_excused(made: Made) -> None:
    # The balances are in no checkpoint, and the family does not declare what its timers decide either.
    family = made(
        LEDGER,
        (
            "self._balance.update((self._balance.value() or 0) + self._days.get(day))",
            "key = ctx.get_current_key(); self._sums[key] = self._sums.get(key, 0) + self._days.get(day)",
        ),
        (
            "yield ctx.get_current_key(), day, self._balance.value()",
            "yield ctx.get_current_key(), day, self._sums[ctx.get_current_key()]",
        ),
        (
            "        self._days = runtime",
            "        self._sums: dict[str, int] = {}\n        self._days = runtime",
        ),
    )
    explained = set()
    for number in range(200):
        scenario = scenario_of(family, scenario_seed(0, "ledger", number))
        signature = try_scenario(family, scenario, twice=False, continued=False).verdict.signature
        if signature is not None and signature not in explained:
            explained.add(signature)
            mistake = mistake_behind(family, scenario, signature)
            assert (mistake is None) == (signature[0] == ExactlyOnce.property), signature
        if len({broken for broken, _ in explained}) == 2:
            break
    assert (ConsistentCut.property, WRONG_CUT) in explained
    assert any(broken == ExactlyOnce.property for broken, _ in explained)


def test_sink_by_key_without_table_keys_is_said_so(made: Made, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8").replace('io.sink("ledger")', 'io.upsert_sink("ledger", 1)')
    with pytest.raises(
        FamilyError, match=r"io.upsert_sink\(..., 1\) replaces rows by key, .*: set options ="
    ):
        list(mistakes_of(made(text)))


@pytest.mark.parametrize("name", family_names())
def test_built_in_family_has_no_mistake(name: str) -> None:
    assert list(mistakes_of(load_family(name), seed=1, scenarios=1)) == []


def test_family_is_checked_again_once_its_file_changes(made: Made, sales: Path, tmp_path: Path) -> None:
    family, folder = load_family(str(sales)), tmp_path / "checked"
    assert not is_known_sound(family, folder)
    note_sound(family, folder)
    assert is_known_sound(family, folder)
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"
    sales.write_text(sales.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert not is_known_sound(family, folder)


def test_damaged_note_is_no_proof(sales: Path, tmp_path: Path) -> None:
    family, folder = load_family(str(sales)), tmp_path / "checked"
    note_sound(family, folder)
    [note] = [path for path in folder.iterdir() if path.name != ".gitignore"]
    note.write_bytes(note.read_bytes() * 1_000)
    assert not is_known_sound(family, folder)
