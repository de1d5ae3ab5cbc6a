"""The model of databases against RocksDB: calls drawn at random, damaged files, and whole scenarios."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any, Final

import pytest
from msgspec.structs import replace

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.rocksdb.database import Database
from onceproof.engine.state.rocksdb.databases import (
    FILES_TOLERATED,
    DatabaseCheckpoint,
    Databases,
    DatabaseUnreadable,
    OpenDatabase,
)
from onceproof.engine.state.rocksdb.working_folders import remove_working_folders
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation import simulated_job
from onceproof.harness.systems.simulation.comparison_runs import recorded_checkpoints
from onceproof.harness.systems.simulation.modelled_databases import (
    REAL_DATABASES,
    ModelledDatabases,
    has_real_databases,
)
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.patience import PATIENCE_SECONDS

SEQUENCES: Final = 8
PARTS: Final = 4
CALLS: Final = 120
MERGING: Final = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions")
"""The figures of RocksDB that say whether its threads have files to merge."""
ALIKE: Final = 1.6
"""How many times as long as the other a file may be."""

Files = list[tuple[str, bytes]]


@pytest.fixture
def settings() -> Iterator[StateBackendSettings]:
    """Those of a scenario; what this process has in its folder is gone in the end."""
    yield simulated_job.DATABASES
    remove_working_folders()


def files_of(taken: DatabaseCheckpoint) -> Files:
    tables = [(name, Path(taken.path, name).read_bytes()) for name in taken.tables]
    return [*taken.small.items(), *tables]


def answer_of(call: Callable[[], Any]) -> Any:
    """What a call returns, or the text of its error."""
    try:
        found = call()
        return list(found) if isinstance(found, Iterator) else found
    except Exception as error:
        return str(error)


class Pair:
    """A real database and a modelled one, on which the same calls are made."""

    def __init__(self, settings: StateBackendSettings, chance: Random) -> None:
        self.settings = settings
        self.chance = chance
        self.makers: tuple[Databases, Databases] = (Database, ModelledDatabases())
        self.both: list[OpenDatabase] = [each.fresh(settings) for each in self.makers]
        self.settled: list[str] = []
        """The files once no more are merged."""
        self.taken: list[tuple[DatabaseCheckpoint, DatabaseCheckpoint]] = []
        self.merges = 0
        self.differing = 0
        """How many merges took other files on the model."""

    def key(self) -> bytes:
        return b"%c%c-key-%03d" % (0, self.chance.randrange(4), self.chance.randrange(60))

    def value(self) -> bytes:
        return b"value %d" % self.chance.randrange(10**6)

    def range(self) -> tuple[bytes, bytes]:
        begin, end = sorted(self.key()[: self.chance.randrange(12)] for _ in range(2))
        return begin, end

    def equal(self, call: Callable[[OpenDatabase], Any]) -> Any:
        """Make a call on both; return the answer."""
        real, modelled = (answer_of(partial(call, each)) for each in self.both)
        assert modelled == real
        return real

    def change(self) -> None:
        key, value = self.key(), self.value()
        match self.chance.randrange(10):
            case 0 | 1 | 2 | 3:
                self.equal(lambda each: each.put(key, value))
            case 4 | 5:
                self.equal(lambda each: each.delete(key))
            case 6 | 7 | 8:
                count = self.chance.choice((0, 1, 2, 5, 10, 30))
                puts = [(b"%s %d" % (self.key(), number), self.value()) for number in range(count)]
                deletes = [self.key() for _ in range(self.chance.randrange(4))]
                self.write(puts, deletes)
            case _:
                begin, end = self.range()
                self.equal(lambda each: each.delete_range(begin, end))

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        self.equal(lambda each: each.write(iter(puts), iter(deletes)))

    def read(self) -> None:
        key, (begin, end) = self.key(), self.range()
        self.equal(lambda each: each.get(key))
        self.equal(lambda each: each.scan(key[:2]))
        self.equal(lambda each: each.scan(begin))
        self.equal(lambda each: each.scan_range(begin, end))
        self.equal(lambda each: each.first_from(begin))
        self.equal(lambda each: each.is_empty)

    def checkpoint(self) -> None:
        """Take a checkpoint of both, wait until no more files are merged, and take another one."""
        before = set(self.settled)
        taken = [each.checkpoint() for each in self.both]
        merged = self.merged()
        if merged is None:
            self.begin_anew()
            return
        tables, small = merged
        for first in taken:
            added = set(first.tables) - before
            assert first.tables == tables or (before <= set(first.tables) and len(added) == 1)
            assert first.small.keys() == small
        if len(before) >= FILES_TOLERATED - 1 and len(tables) < len(before):
            self.merges += 1
        self.settled = tables

    def merged(self) -> tuple[list[str], Any] | None:
        """Wait until no more files are merged; return the names of all files, None where they differ."""
        real, modelled = (each.checkpoint() for each in self.both)
        if real.tables != modelled.tables:
            wait_for_merges(self.both[0])
            real, modelled = (each.checkpoint() for each in self.both)
        if modelled.tables != real.tables:
            assert max(modelled.tables) == max(real.tables), "a merge gives one file"
            self.differing += 1
            return None
        self.compare(real, modelled)
        return real.tables, real.small.keys()

    def begin_anew(self) -> None:
        """Go on with new databases that hold the same."""
        content = self.equal(lambda each: each.scan(b""))
        self.equal(lambda each: each.close())
        self.both = [each.fresh(self.settings) for each in self.makers]
        self.write(content)
        self.settled = []

    def compare(self, real: DatabaseCheckpoint, modelled: DatabaseCheckpoint) -> None:
        self.taken.append((real, modelled))
        lengths = [
            [Path(each.path, name).stat().st_size for name in each.tables] for each in (real, modelled)
        ]
        for one, other in zip(*lengths, strict=True):
            assert max(one, other) <= ALIKE * min(one, other)

    def read_checkpoint(self) -> None:
        """Compare what a checkpoint holds, whichever way it is opened."""
        if self.taken:
            pair = self.chance.choice(self.taken)
            opened = [
                maker.of_checkpoint(taken, self.settings)
                if self.chance.randrange(2)
                else maker.of_files(files_of(taken), self.settings, True)
                for maker, taken in zip(self.makers, pair, strict=True)
            ]
            self.both, mine = opened, self.both
            self.equal(lambda each: each.scan(b""))
            self.change()
            self.equal(lambda each: each.close())
            self.both = mine

    def reopen(self) -> None:
        if self.taken:
            pair = self.chance.choice(self.taken[-6:])
            self.equal(lambda each: each.close())
            self.both = [
                maker.of_files(files_of(taken), self.settings)
                for maker, taken in zip(self.makers, pair, strict=True)
            ]
            merged = self.merged()
            if merged is None:
                self.begin_anew()
            else:
                self.settled = merged[0]


def wait_for_merges(database: Any) -> None:
    """Wait until the threads of RocksDB have no files to merge."""
    until = monotonic() + PATIENCE_SECONDS
    while any(database._rdict.property_int_value(name) for name in MERGING):
        assert monotonic() < until, "RocksDB goes on merging files"
        sleep(0.002)


@pytest.mark.parametrize("part", range(PARTS))
def test_model_answers_as_rocksdb_does(part: int, settings: StateBackendSettings) -> None:
    merges = differing = 0
    for seed in range(part, PARTS * SEQUENCES, PARTS):
        chance = Random(seed)
        pair = Pair(settings, chance)
        calls = [*[pair.change] * 5, pair.read, *[pair.checkpoint] * 3, pair.read_checkpoint]
        calls += [pair.reopen] * chance.choice((0, 0, 1, 2))
        for _ in range(CALLS):
            chance.choice(calls)()
        check_that_files_stay(pair)
        pair.equal(lambda each: each.close())
        merges, differing = merges + pair.merges, differing + pair.differing
    assert merges > SEQUENCES
    # Where few bytes decide, RocksDB merges a file more or less.
    assert differing <= 1 + merges / 3


def check_that_files_stay(pair: Pair) -> None:
    """A file never changes, and no two files of a database are equal."""
    contents: dict[tuple[str, str], bytes] = {}
    names: dict[bytes, str] = {}
    for _, modelled in pair.taken:
        for name in modelled.tables:
            content = Path(modelled.path, name).read_bytes()
            assert contents.setdefault((modelled.path, name), content) == content
            assert names.setdefault(content, name) == name


def test_model_merges_as_rocksdb_does(settings: StateBackendSettings) -> None:
    """The oldest file is so large that it takes part in no merge, or in some."""
    for entries in (1, 100, 800, 3000):
        pair = Pair(settings, Random(entries))
        content = [(b"key %06d" % number, b"value %d" % number) for number in range(entries)]
        pair.write(content)
        for number in range(60):
            pair.write([(b"key %06d" % (number * 7 % 50), b"%d" % number)])
            pair.checkpoint()
        assert (pair.merges >= 5, pair.differing) == (True, 0)
        pair.equal(lambda each: each.close())


def test_files_that_were_not_merged_are_merged_by_the_next_opening(settings: StateBackendSettings) -> None:
    for attempt in range(500):
        pair = Pair(settings, Random(0))
        for number in range(FILES_TOLERATED):
            pair.write([(b"%d" % attempt, b"%d" % number)])
            real, modelled = (each.checkpoint() for each in pair.both)
        if len(real.tables) == len(modelled.tables) == FILES_TOLERATED:
            break
        pair.equal(lambda each: each.close())
    pair.taken.append((real, modelled))
    pair.reopen()
    assert pair.differing == 0
    assert len(pair.settled) == 1


def flipped(content: bytes) -> bytes:
    place = len(content) // 2
    return content[:place] + bytes((content[place] ^ 1,)) + content[place + 1 :]


def damaged(files: Files, kind: str, damaged_name: str) -> Files:
    changes: dict[str, Callable[[bytes], bytes]] = {
        "empty": lambda content: b"",
        "half": lambda content: content[: len(content) // 2],
        "flipped": flipped,
        "without": lambda content: content,
    }
    return [
        (name, changes[kind](content) if name == damaged_name else content)
        for name, content in files
        if kind != "without" or name != damaged_name
    ]


@pytest.mark.parametrize("is_read_only", [False, True])
@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (what, kind)
        for what, kind in product(
            ("CURRENT", "MANIFEST-", "000008.sst", "000009.sst"), ("empty", "half", "flipped", "without")
        )
        # RocksDB reads half a manifest, and CURRENT is shorter than what is flipped.
        if (what, kind) not in (("MANIFEST-", "half"), ("CURRENT", "flipped"))
    ],
)
def test_damaged_files_are_the_same_errors(
    what: str, kind: str, is_read_only: bool, settings: StateBackendSettings
) -> None:
    errors: list[Any] = []
    for maker in (Database, ModelledDatabases()):
        database = maker.fresh(settings)
        for number in (1, 2):
            database.write([(b"key %d" % each, b"%d" % number) for each in range(40)])
            taken = database.checkpoint()
        files = files_of(taken)
        (name,) = (name for name, _ in files if name.startswith(what))
        try:
            opened = maker.of_files(damaged(files, kind, name), settings, is_read_only)
        except DatabaseUnreadable as error:
            text = str(error)
            assert "\n" not in text
            errors.append((text.split()[0], set(re.findall(r"[0-9]{6}\.sst", text)), "o such file" in text))
        else:
            errors.append(list(opened.scan(b"")))
    real, modelled = errors
    assert modelled == real


def test_wrong_calls_are_the_same_errors(settings: StateBackendSettings) -> None:
    pair = Pair(settings, Random(0))
    pair.equal(lambda each: each.put(b"a", b"1"))
    pair.checkpoint()
    assert "end key" in pair.equal(lambda each: each.delete_range(b"b", b"a"))
    assert "end key" in pair.equal(lambda each: each.put(b"a", b"1"))
    assert "end key" in pair.equal(lambda each: each.checkpoint())
    assert pair.equal(lambda each: each.get(b"a")) == b"1"
    closed = pair.both
    pair.both = [
        maker.of_checkpoint(taken, settings) for maker, taken in zip(pair.makers, pair.taken[-1], strict=True)
    ]
    changes: list[Callable[[OpenDatabase], Any]] = [
        lambda each: each.put(b"a", b"1"),
        lambda each: each.delete(b"a"),
        lambda each: each.write([(b"a", b"1")]),
        lambda each: each.write([], [b"a"]),
        lambda each: each.delete_range(b"a", b"b"),
    ]
    for change in changes:
        assert "read only" in pair.equal(change)
    pair.both = closed
    pair.equal(lambda each: each.close())
    for call in (
        *changes,
        lambda each: each.get(b"a"),
        lambda each: each.scan(b""),
        lambda each: each.scan_range(b"a", b"b"),
        lambda each: each.first_from(b""),
        lambda each: each.is_empty,
        lambda each: each.checkpoint(),
    ):
        assert "closed" in pair.equal(call)
    pair.equal(lambda each: each.close())


def test_model_refuses_names_that_lead_out(settings: StateBackendSettings) -> None:
    for maker in (Database, ModelledDatabases()):
        with pytest.raises(DatabaseUnreadable, match="not a name"):
            maker.of_files([("../CURRENT", b"")], settings)


def test_model_leaves_nothing_behind(settings: StateBackendSettings) -> None:
    database = ModelledDatabases().fresh(settings)
    database.put(b"a", b"1")
    taken = database.checkpoint()
    assert Path(taken.path).is_dir()
    database.close()
    assert [name for name, _ in files_of(taken)][-1] == taken.tables[-1], "the checkpoint holds its files"
    place = Path(taken.path)
    del taken
    assert not place.exists()


# Scenarios.

FAMILIES: Final = ("page_windows", "average_by_map", "average_by_list", "running_sum", "sessions")


def on_databases(scenario: Scenario, is_incremental: bool = True) -> Scenario:
    return replace(scenario, state_backend="rocksdb", incremental=is_incremental)


def seeds(is_real: bool) -> Iterator[int]:
    return (seed for seed in count(1) if has_real_databases(seed) == is_real)


def test_one_in_so_many_scenarios_runs_the_real_one() -> None:
    drawn = range(100 * REAL_DATABASES)
    assert 70 < sum(map(has_real_databases, drawn)) < 130
    assert {seed % 4 for seed in drawn if has_real_databases(seed)} == {0, 1, 2, 3}
    assert has_real_databases(None), "what is shrunk"


@pytest.mark.parametrize("is_real", [False, True])
def test_drawn_databases_are_those_that_run(is_real: bool) -> None:
    family = load_family("running_sum")
    chosen = seeds(is_real)
    taken = 0
    while not taken:
        for checkpoint in recorded_checkpoints(family, on_databases(scenario_of(family, next(chosen)))):
            for files in (content for path, content in checkpoint.files.items() if path.endswith(".sst")):
                taken += 1
                # RocksDB's tables end with a number of their own, the modelled ones with zeros.
                assert files.endswith(b"\0" * 16) != is_real


@pytest.mark.parametrize("name", FAMILIES)
def test_scenarios_on_the_model_are_those_on_rocksdb(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family(name)
    models = seeds(is_real=False)
    for turn in range(4):
        scenario = on_databases(scenario_of(family, next(models)), bool(turn % 2))
        modelled = try_scenario(family, scenario, twice=False, continued=False)
        with monkeypatch.context() as patched:
            patched.setattr(simulated_job, "databases_for", lambda scenario: None)
            real = try_scenario(family, scenario, twice=False, continued=False)
        assert modelled.verdict == real.verdict
        assert rows_at_end(modelled.history) == rows_at_end(real.history)
        assert modelled.history.trace_hash == real.history.trace_hash


def test_runs_on_the_model_repeat_themselves() -> None:
    family = load_family("average_by_map")
    for seed in islice(seeds(is_real=False), 5):
        scenario = on_databases(scenario_of(family, seed))
        once, again = (recorded_checkpoints(family, scenario) for _ in range(2))
        assert [each.files for each in once] == [each.files for each in again]
