"""Upgrades of unedited programs: what becomes of state is said before, and wrong rows are found."""

from __future__ import annotations

import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.harness.commands.cli import main
from onceproof.harness.model.family import (
    Declared,
    FamilyError,
    FamilyOptions,
    JobIO,
    Records,
    Rows,
    Workload,
    family_of,
)
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import JOB_UPGRADED, rows_at_end
from onceproof.harness.model.system import find_system
from onceproof.harness.scripts.upgrade_family import UpgradeFamily
from onceproof.harness.trials.runner import refuse_upgrades
from onceproof.harness.trials.trial import scenario_of, try_scenario

PROGRAMS = Path(__file__).parent / "upgrades"
SCENARIOS = 10
ALLOWED = "allow-non-restored-state="


class Pair(NamedTuple):
    """A program, what its new version says instead, and what is to be found."""

    program: str
    edits: tuple[tuple[str, str], ...]
    says: tuple[str, ...]
    """In the sentences before the run."""
    found: str = ""
    """In the first violation; "": every scenario passes."""
    following: str = ""
    """What the address says besides."""
    scenarios: int = SCENARIOS


ADDED = '(account["total"] if account else 0) + order[2]'
LATEST = '        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))\n'
RENAMED = (('.uid("totals")', '.uid("sums")'),)
OTHER_SINK = (
    ('FileSink.for_row_format("out"', 'FileSink.for_row_format("elsewhere"'),
    ('.uid("files")', '.uid("other files")'),
)
SMALL = ("env.set_parallelism(2)", "env.set_parallelism(2).set_max_parallelism(4)")
EQUAL = "both versions commit the same rows"
DIFFERENT = "the versions differ without an upgrade"
PAIRS = {
    "a state is added": Pair(
        "totals",
        ((LATEST, LATEST + LATEST.replace("latest", "first")),),
        ("new state, which begins empty: 'totals' (state 'first')", EQUAL),
    ),
    "a state is dropped": Pair(
        "totals",
        ((LATEST, ""), ("        self.latest.update(order[3])\n", "")),
        ("state dropped: 'totals' no longer reads state 'latest', without a refusal", EQUAL),
    ),
    "an operator with state is dropped": Pair(
        "visits",
        (
            ('    .uid("times")\n', '    .uid("times")\n    .filter(lambda visit: True)\n'),
            ('.uid("counts")\n', ""),
        ),
        ("state dropped: 'counts'", "its uid was counts and is not given", EQUAL),
        "checkpoint",
    ),
    "a type migrates": Pair(
        "totals",
        (
            ('["total"], [Types.LONG()]', '["total", "note"], [Types.LONG(), Types.STRING()]'),
            ("Row(total=total)", "Row(total=total, note=None)"),
        ),
        ("state 'account' of 'totals': its type was", ": it migrates", EQUAL),
    ),
    "a type does not migrate": Pair(
        "totals",
        (
            ('"latest", Types.LONG()', '"latest", Types.STRING()'),
            ("update(order[3])", "update(str(order[3]))"),
        ),
        ("state 'latest' of 'totals': its type was LONG and is STRING: it does not migrate",),
        "state 'latest' was stored as LONG",
    ),
    "a uid is renamed": Pair(
        "totals",
        RENAMED,
        ("its uid was totals and is sums; it makes a restore fail without --allow-non-restored-state",),
        "has state of operator 'totals', which the job lacks",
    ),
    "a uid is renamed and its state left behind": Pair(
        "totals", RENAMED, ("its uid was totals and is sums; it is left behind",), "exactly_once", ALLOWED
    ),
    "a key is changed": Pair(
        "totals",
        (("key_by(lambda order: order[0]", "key_by(lambda order: order[1]"),),
        ("the keys or windows of 'totals' differ on the same records: 'ada'", DIFFERENT),
    ),
    "a window is longer": Pair(
        "visits",
        (("WIDTH_S = 10", "WIDTH_S = 15"),),
        (
            "the keys or windows of 'counts' differ on the same records",
            DIFFERENT,
            "rows are judged by the new version without faults from the same state",
        ),
    ),
    "a number beside timers is kept in a dict": Pair(
        "totals",
        (
            (LATEST, LATEST + "        self.orders = {}\n"),
            (
                '        yield f"{ctx.get_current_key()} {total}"',
                "        key = ctx.get_current_key()\n"
                "        self.orders[key] = self.orders.get(key, 0) + 1\n"
                '        yield f"{key} {total} after {self.orders[key]}"',
            ),
        ),
        (DIFFERENT, "from the same state"),
        "exactly_once",
        scenarios=25,
    ),
    "a parallelism is higher": Pair(
        "totals",
        (("env.set_parallelism(2)", "env.set_parallelism(8)"),),
        ("parallelism of 'totals': 2, then 8, of at most 128", EQUAL),
    ),
    "a parallelism is too high": Pair(
        "totals_of_4_groups",
        (("set_parallelism(2).set_max_parallelism(4)", "set_parallelism(8)"),),
        ("the new version is refused: operator", "exceeds the max parallelism 4 of its state"),
        "exceeds the max parallelism 4",
    ),
    "a sink is replaced": Pair(
        "totals",
        OTHER_SINK,
        ("state dropped: 'files'", "what its transactions hold is lost, unless the old version is stopped"),
        "has state of operator",
    ),
    "a sink is replaced and its transactions left behind": Pair(
        "totals",
        OTHER_SINK,
        ("it is left behind, as allowed; what its transactions hold is lost",),
        "skipped",
        ALLOWED,
    ),
    "a function is rewritten": Pair(
        "totals",
        ((ADDED, 'sum([order[2], *([account["total"]] if account else [])])'),),
        ("state carried over", EQUAL),
    ),
    "a stored number is off by one": Pair(
        "totals",
        (
            (
                ADDED,
                '(account["total"] - 1 if account else 0) + order[2]',
            ),
            ("Row(total=total)", "Row(total=total + 1)"),
        ),
        ("state carried over", EQUAL),
        "exactly_once",
    ),
    "a result is off by one": Pair(
        "totals",
        (("{ctx.get_current_key()} {total}", "{ctx.get_current_key()} {total + 1}"),),
        ("state carried over", DIFFERENT),
    ),
}


@pytest.fixture(scope="module")
def olds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old versions, which several pairs have."""
    return tmp_path_factory.mktemp("olds")


def upgraded(pair: Pair, folder: Path, olds: Path) -> UpgradeFamily:
    old = new = (PROGRAMS / f"{pair.program.partition('_')[0]}.py").read_text()
    if pair.program == "totals_of_4_groups":
        old = new = old.replace(*SMALL)
    for before, after in pair.edits:
        assert before in new
        new = new.replace(before, after)
    (olds / f"{pair.program}.py").write_text(old)
    (folder / "new.py").write_text(new)
    family = load_family(f"{folder}/new.py?upgrades={olds}/{pair.program}.py&{pair.following}")
    assert isinstance(family, UpgradeFamily)
    return family


@pytest.mark.parametrize("name", PAIRS)
def test_upgrade_is_reported_and_judged(name: str, tmp_path: Path, olds: Path) -> None:
    pair = PAIRS[name]
    family = upgraded(pair, tmp_path, olds)
    said = "\n".join(family.notes())
    for part in pair.says:
        assert part in said, said
    first = ""
    upgrades = 0
    for seed in range(pair.scenarios):
        trial = try_scenario(family, scenario_of(family, seed), twice=False)
        upgrades += any(event[1] == JOB_UPGRADED for event in trial.history.events)
        if not trial.verdict.passed:
            first = str(trial.verdict.violations)
            break
    else:
        assert upgrades > SCENARIOS // 2
    assert bool(first) == bool(pair.found), (seed, first)
    assert pair.found in first, first


def test_command_prints_the_comparison_and_its_exit_code_gates(
    tmp_path: Path, olds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upgraded(PAIRS["a uid is renamed"], tmp_path, olds)
    old, new, out = str(olds / "totals.py"), str(tmp_path / "new.py"), str(tmp_path / "out")
    few = ["--scenarios", "6", "-n", "1", "--shrink-runs", "0", "--out", out]
    assert main(["upgrade", old, old, *few]) == 0
    assert "so must every upgrade" in capsys.readouterr().err
    assert main(["upgrade", old, new, *few]) == 1
    captured = capsys.readouterr()
    assert "its uid was totals and is sums" in captured.err
    [line] = [line for line in captured.out.splitlines() if "onceproof replay" in line][:1]
    assert main(shlex.split(line)[1:]) == 1
    assert main(["upgrade", old, str(tmp_path / "none.py"), *few]) == 4
    assert main(["upgrade", str(Path(__file__)), new, *few]) == 4


class Tagged:
    """A family whose new version writes rows of another kind; it states the rows of an upgrade itself."""

    name = "tagged"
    generator_version = 1
    tasks: ClassVar = {"numbers": "source", "tag": "keyed", "out": "sink"}
    record_schema = row_schema = oracle_sql = ""

    def __init__(self) -> None:
        self.options = FamilyOptions(
            declares=True, barriers="aligned", upgraded=partial(self.describe, "new")
        )

    def generate(self, random: Random) -> Workload:
        return Workload({"s": [(number, number) for number in range(30)]})

    def describe(self, tag: str, env: StreamExecutionEnvironment, io: JobIO) -> None:
        numbers = env.from_source(io.source("numbers"), None, "numbers").uid("numbers")
        numbers.set_parallelism(io.source_parallelism)
        tagged = numbers.rebalance().map(lambda number: (tag, number)).name("tag")
        tagged.rebalance().add_sink(io.sink("out")).name("out").uid("out").set_parallelism(
            io.sink_parallelism
        )

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        self.describe("old", env, io)

    def expected(self, records: Records, declared: Declared) -> Rows:
        cut = len(records["s"]) if declared.upgraded_at is None else declared.upgraded_at["s"]
        rows = [("old" if number < cut else "new", number) for _, number in records["s"]]
        return declared.so_far(rows)


def test_family_states_the_rows_of_an_upgrade_at_any_cut() -> None:
    family = family_of(Tagged(), "here")
    kinds: Counter[str] = Counter()
    for seed in range(SCENARIOS):
        trial = try_scenario(family, scenario_of(family, seed), twice=False, continued=True)
        assert trial.verdict.passed, (seed, trial.verdict.violations)
        kinds.update({row[0] for row in rows_at_end(trial.history)})
    assert kinds["old"] > SCENARIOS // 2
    assert kinds["new"] > SCENARIOS // 2


def test_other_systems_refuse_an_upgrade() -> None:
    with pytest.raises(FamilyError, match="local does not upgrade jobs: leave out --system"):
        refuse_upgrades([family_of(Tagged(), "here")], find_system("local"))


HELPED = """
from helpers import tagged
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3], Types.LONG()).map(tagged).print()
env.execute()
"""


def test_each_version_has_the_modules_beside_it(tmp_path: Path) -> None:
    for version in ("old", "new"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "job.py").write_text(HELPED)
        (tmp_path / version / "helpers.py").write_text(f"def tagged(number): return {version!r}, number\n")
    family = load_family(f"{tmp_path}/new/job.py?upgrades=../old/job.py")
    assert isinstance(family, UpgradeFamily)
    assert "('old', 1) in the old one, ('new', 1) in the new one" in "".join(family.notes())
