"""Power cuts while sinks write to SQLite: its file calls and the engine's are recorded in one order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.systems.local.power_cuts import Cut, Recording
from tests.harness.systems.local.recorded_child import RecordedProcess
from tests.harness.systems.local.recorded_words import record_words

pytestmark = pytest.mark.slow

KILLED = (RecordedProcess(dies_after=150), RecordedProcess())
RESCALED = (RecordedProcess(dies_at=("rename", "chk-5/_metadata")), RecordedProcess(parallelism=3))
FORMS = {
    "word_table": KILLED,
    "word_batches": KILLED,
    "word_commits": RESCALED,
}
"""An upsert sink, a write-ahead sink, and one of writer and committer, each with the lives of its process."""
LOST = "committed rows of table (counts|notes|onceproof_transactions) are lost"
DAMAGED = "the database cannot be read|a transaction is there in part"
SYNCS = {
    "file of SQLite's database": f"{DAMAGED}|{LOST}",
    "file of SQLite's rollback journal": f"{DAMAGED}|{LOST}",
    "file of SQLite's write-ahead log": LOST,
    "folder with SQLite's rollback journal": f"{DAMAGED}|{LOST}",
    "folder with SQLite's write-ahead log": f"{DAMAGED}|{LOST}",
    "folder after SQLite's deletion of the rollback journal": LOST,
}
"""All syncs that SQLite makes for an upsert sink into a user's database, and what is found without each."""
OTHER_PRAGMAS = str(Path(__file__).with_name("other_pragmas_child.py"))


@pytest.fixture(scope="module")
def into_users_database(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A job that writes to a database that its user had before, with a rollback journal."""
    folder = tmp_path_factory.mktemp("power") / "job"
    return record_words(folder, family="word_table", writes_tables=True, has_users_table=True)


@pytest.mark.parametrize("family", FORMS)
def test_job_goes_on_exactly_from_any_disk_with_a_database(
    family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, seed = request.config.getoption("--power-cuts"), request.config.getoption("--power-seed")
    recording = record_words(tmp_path / "job", *FORMS[family], family=family, writes_tables=True)
    problems = _problems(recording, count, seed)
    assert not problems, f"pytest {request.node.nodeid} --power-seed {seed}:\n" + "\n".join(problems)


def test_database_that_the_user_had_before_is_whole_after_a_power_cut(
    into_users_database: Recording, request: pytest.FixtureRequest
) -> None:
    count, seed = request.config.getoption("--power-cuts"), request.config.getoption("--power-seed")
    problems = _problems(into_users_database, count, seed)
    assert not problems, f"pytest {request.node.nodeid} --power-seed {seed}:\n" + "\n".join(problems)


def test_calls_of_sqlite_and_the_engine_are_recorded_in_one_order(into_users_database: Recording) -> None:
    sites = into_users_database.sites()
    assert {site for site in sites if "SQLite" in site} == set(SYNCS)
    calls = into_users_database.calls
    first = next(number for number, call in enumerate(calls) if call.other == "1")
    committed = [
        number for number, call in enumerate(calls) if call.other == "file of SQLite's write-ahead log"
    ]
    assert committed[0] < first < committed[-1], "rows are synced before the first checkpoint and after it"


@pytest.mark.parametrize("site", SYNCS)
def test_sync_of_sqlite_that_is_left_out_loses_something(into_users_database: Recording, site: str) -> None:
    problem = into_users_database.catch(site)
    assert problem is not None
    assert re.search(SYNCS[site], problem)


@pytest.mark.parametrize(
    ("family", "mode", "lost"),
    [
        ("word_table", "NORMAL", LOST),
        ("word_table", "OFF", f"{DAMAGED}|{LOST}"),
        ("word_commits", "OFF", f"{DAMAGED}|{LOST}"),
    ],
)
def test_sink_that_syncs_less_than_in_full_is_caught(
    family: str, mode: str, lost: str, tmp_path: Path
) -> None:
    program = (OTHER_PRAGMAS, f"set={mode}")
    recording = record_words(tmp_path / "job", family=family, writes_tables=True, program=program)
    broken = recording.first_broken(_after(range(1, len(recording.calls))))
    assert broken is not None
    assert re.search(lost, broken)


def test_default_of_the_library_changes_nothing(tmp_path: Path) -> None:
    recording = record_words(
        tmp_path / "job",
        family="word_table",
        writes_tables=True,
        has_users_table=True,
        program=(OTHER_PRAGMAS, "default=OFF"),
    )
    started = next(number for number, call in enumerate(recording.calls) if call.path.endswith("-wal"))
    assert recording.first_broken(_after(range(started - 20, started + 30))) is None


def _after(numbers: range) -> Iterator[Cut]:
    return (Cut(number, seed) for number in numbers for seed in (None, number))


def _problems(recording: Recording, count: int, seed: int) -> list[str]:
    cuts = recording.cuts(count, seed, rescales_to=(0, 1, 3))
    return [problem for cut in cuts if (problem := recording.problem_after(cut)) is not None]
