"""The store of a campaign's trials: what it resumes, what it refuses, and what it never deletes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from onceproof.harness.campaign.answers import Answer, answers_in
from onceproof.harness.campaign.executor import FamilySource, Recall, Simulation, Simulations, Survey
from onceproof.harness.campaign.ledger import Ledger
from onceproof.harness.campaign.scenario_worker import stop_scenario_process
from onceproof.harness.campaign.trial_files import TrialsLost, WrittenFile, digest_of, verified_table
from onceproof.harness.campaign.trial_store import Manifest, TrialStore, manifest_of
from onceproof.harness.campaign.trial_tables import TrialTables
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.trials.output_files import OutputUnwritable, made_folder

WORD_COUNT = Path(__file__).parents[3] / "scenarios" / "word_count.py"
SOURCE = FamilySource("word_count")
FAMILY = load_family("word_count")
RECORD = pa.schema(
    [("split", pa.string()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("word", pa.string())]
)
TABLES = TrialTables("word_count", RECORD, pa.schema([("word", pa.string()), ("count", pa.int64())]))
OTHER_SOURCE = FamilySource("buffered_sink")
OTHER = load_family("buffered_sink")
OTHER_TABLES = TrialTables(
    "buffered_sink",
    pa.schema([*list(RECORD)[:3], ("number", pa.int64())]),
    pa.schema([("number", pa.int64())]),
)


@pytest.fixture(autouse=True)
def scenario_process() -> Iterator[None]:
    """End the process that simulations of this process have started."""
    yield
    stop_scenario_process()


def manifest(seed: int = 7, scenarios: int | None = 20) -> Manifest:
    return manifest_of([FAMILY], [SOURCE], seed, scenarios)


def store_at(folder: Path, **options: int) -> TrialStore:
    return TrialStore(str(folder), manifest(**options))


def answers_of(task: Simulations | Recall | Survey) -> list[Answer]:
    return [answer for batch in task.run() for answer in answers_in(pa.Table.from_batches([batch]))]


def simulate(store: TrialStore, turns: range) -> Answer:
    """Run scenarios as a task does; return its answer."""
    [answer] = answers_of(Simulations([simulation(turns)], store.parts))
    return answer


def simulation(turns: range, **options: Any) -> Simulation:
    usual = {"source": SOURCE, "tables": TABLES, "families": 1, "place": 0}
    return Simulation(run_seed=7, turns=[turns], budget=Budget(), **{**usual, **options})


def ledger_of(store: TrialStore) -> Ledger:
    """Return the ledger of a campaign that resumes from a store."""
    ledger = Ledger(0, 1, FAMILY, TABLES, SOURCE, store.parts)
    ledger.find(answers_of(Survey(1, store.parts, store.part_names())))
    return ledger


def found(store: TrialStore) -> list[WrittenFile]:
    return [file.written for file in ledger_of(store).found if file.written is not None]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two files of an unfinished campaign; tests use copies of it."""
    folder = tmp_path_factory.mktemp("simulated") / "trials"
    store = store_at(folder)
    store.begin(resumes=False)
    simulate(store, range(2))
    simulate(store, range(5, 8))
    return folder


@pytest.fixture
def unfinished(simulated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(simulated, tmp_path / "trials"))


def numbers(store: TrialStore) -> list[int]:
    return sorted(turn for file in ledger_of(store).found for turns in file.turns for turn in turns)


def test_the_same_campaign_resumes_from_what_is_written(unfinished: Path) -> None:
    store = store_at(unfinished)
    assert store.resumes()
    store.begin(resumes=True)
    assert numbers(store) == [0, 1, 5, 6, 7]
    for file in found(store):
        assert file.digest == digest_of((unfinished / "parts" / file.name).read_bytes())


def test_an_answer_recalled_from_a_file_is_that_of_its_task(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    answer = simulate(store, range(9))
    [recall] = ledger_of(store).recalls(range(20))
    [recalled] = answers_of(recall)
    assert (recalled.turns, recalled.lines) == (answer.turns, answer.lines)
    assert recalled.tally == answer.tally


def test_the_families_of_a_task_have_one_file_in_which_each_finds_its_own(tmp_path: Path) -> None:
    store = TrialStore(str(tmp_path), manifest_of([FAMILY, OTHER], [SOURCE, OTHER_SOURCE], 7, 20))
    task = Simulations(
        [
            simulation(range(2), families=2),
            simulation(range(3), families=2, place=1, source=OTHER_SOURCE, tables=OTHER_TABLES),
        ],
        store.parts,
    )
    written = answers_of(task)
    assert [(answer.place, answer.turns) for answer in written] == [(0, (range(2),)), (1, (range(3),))]
    found = answers_of(Survey(2, store.parts, store.part_names()))
    assert len(store.part_names()) == 1
    assert [answer.written for answer in found] == [answer.written for answer in written]
    for answer, tables in zip(found, (TABLES, OTHER_TABLES), strict=True):
        assert answer.written is not None
        table = verified_table(store.parts, answer.written, tables.schema.names)
        # Spark gets the columns with the types that the family has by itself.
        assert table.schema == tables.schema
        assert table.column("family").unique().to_pylist() == [tables.family]
        assert all(table.column("input").to_pylist())
        assert all(table.column("committed").to_pylist())
    ledger = Ledger(1, 2, OTHER, OTHER_TABLES, OTHER_SOURCE, store.parts)
    ledger.find([answer for answer in found if answer.place == 1])
    [recalled] = answers_of(ledger.recalls(range(1, 3))[0])
    assert (recalled.turns, recalled.scenarios) == ((range(1, 3),), 2)


def test_a_wave_recalls_what_it_wants_of_a_file_and_runs_the_rest(unfinished: Path) -> None:
    ledger = ledger_of(store_at(unfinished))
    assert ledger.unfinished(range(1, 7)) == [2, 3, 4]
    answers = [answer for recall in ledger.recalls(range(1, 7)) for answer in answers_of(recall)]
    assert [answer.turns for answer in answers] == [(range(1, 2),), (range(5, 7),)]
    # A file whose last scenario is wanted by a later wave is judged after that one.
    assert (ledger.end_found(7), ledger.outcomes, len(ledger.found)) == (2, 2, 1)
    assert (ledger.end_found(8), ledger.outcomes, len(ledger.found)) == (3, 5, 0)


def test_a_damaged_file_is_ignored_and_so_is_a_scenario_that_is_there_twice(unfinished: Path) -> None:
    _, second = sorted((unfinished / "parts").iterdir())
    simulate(store_at(unfinished), range(2))
    data = bytearray(second.read_bytes())
    data[len(data) // 3] ^= 1
    second.write_bytes(data)
    assert numbers(store_at(unfinished)) == [0, 1]


def test_the_refusal_of_another_campaign_says_what_is_there_and_how_to_go_on(unfinished: Path) -> None:
    for other in ({"seed": 8}, {"scenarios": 21}):
        with pytest.raises(OutputUnwritable) as refused:
            store_at(unfinished, **other).resumes()
        said = str(refused.value)
        assert said.startswith(f"{unfinished}: holds 5 finished scenarios of another campaign")
        assert "word_count, seed 7, 20 scenarios" in said
        assert "give another --out" in said
        assert "\n" not in said
    assert numbers(store_at(unfinished)) == [0, 1, 5, 6, 7]


@pytest.fixture
def family_in_a_file(tmp_path: Path) -> Path:
    """A family in a folder of its own, with a log of the command beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    path = shutil.copy(WORD_COUNT, folder)
    (folder / "log").write_text("waiting for Spark\n")
    return Path(path)


def store_of_file(path: Path, folder: Path) -> TrialStore:
    source = FamilySource.of(str(path))
    return TrialStore(str(folder), manifest_of([FAMILY], [source], 7, 20))


def test_a_log_that_grows_beside_the_family_is_named_and_does_not_forbid_to_resume(
    family_in_a_file: Path, simulated: Path, tmp_path: Path
) -> None:
    place = tmp_path / "trials"
    store_of_file(family_in_a_file, place).begin(resumes=False)
    shutil.copytree(simulated / "parts", place / "parts")
    with (family_in_a_file.parent / "log").open("a") as log:
        log.write("5 scenarios\n")
    store = store_of_file(family_in_a_file, place)
    assert store.resumes()
    assert store.changed == ["log"]


def test_the_refusal_of_a_family_that_has_changed_names_its_file(
    family_in_a_file: Path, simulated: Path, tmp_path: Path
) -> None:
    place = tmp_path / "trials"
    store_of_file(family_in_a_file, place).begin(resumes=False)
    shutil.copytree(simulated / "parts", place / "parts")
    with family_in_a_file.open("a") as file:
        file.write("# another one\n")
    with pytest.raises(OutputUnwritable, match=r"changed since: word_count\.py\): repeat its command"):
        store_of_file(family_in_a_file, place).resumes()


def test_a_campaign_that_has_ended_is_replaced(unfinished: Path) -> None:
    store_at(unfinished).finish([file.name for file in found(store_at(unfinished))])
    for again in (store_at(unfinished), store_at(unfinished, seed=8)):
        assert not again.resumes()
    again.begin(resumes=False)
    assert [path.name for path in unfinished.iterdir()] == ["campaign.json"]


def test_a_campaign_that_must_begin_anew_replaces_an_unfinished_one(unfinished: Path) -> None:
    store = store_at(unfinished, seed=8)
    assert not store.resumes(may_resume=False)
    store.begin(resumes=False)
    assert numbers(store) == []


def test_files_of_attempts_that_lost_are_deleted_at_the_end(unfinished: Path) -> None:
    store = store_at(unfinished)
    kept = found(store)[0].name
    stranger = unfinished / "parts" / "notes.txt"
    stranger.write_text("mine")
    store.finish([kept])
    assert sorted(path.name for path in stranger.parent.iterdir()) == ["notes.txt", kept]


def test_a_place_with_files_of_a_user_is_refused_and_stays(tmp_path: Path) -> None:
    trials = tmp_path / "trials"
    for path in (trials / "mine.csv", trials / "parts" / "thesis.tex"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        with pytest.raises(OutputUnwritable, match="which no campaign has written: give another --out"):
            store_at(trials).resumes()
        assert path.read_text() == "mine"
        path.unlink()
    # An empty folder has no owner.
    assert not store_at(trials).resumes()


def test_files_of_a_user_beside_those_of_a_campaign_are_never_deleted(unfinished: Path) -> None:
    (unfinished / "mine.csv").write_text("mine")
    (unfinished / "parts" / "thesis.tex").write_text("mine")
    store = store_at(unfinished, seed=8)
    store.begin(store.resumes(may_resume=False))
    left = sorted(path.name for path in unfinished.rglob("*") if path.is_file())
    assert left == ["campaign.json", "mine.csv", "thesis.tex"]


def test_trials_of_an_earlier_version_are_replaced(tmp_path: Path) -> None:
    old = tmp_path / "trials" / "0-word_count" / "wave-0000" / "part-00000000.parquet"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    store = store_at(tmp_path / "trials")
    store.begin(store.resumes())
    assert not old.parent.exists()


@pytest.mark.parametrize("place", ["memory://trials", "hdfs://name:9000/trials", "http://name/trials"])
def test_an_address_that_executors_cannot_write_to_is_refused(place: str) -> None:
    with pytest.raises(OutputUnwritable, match=r"s3://BUCKET/PATH|webhdfs://HOST:PORT/PATH"):
        TrialStore(place, manifest())


def test_an_address_is_no_folder_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputUnwritable, match=r"an address cannot be a folder of results: .* --store"):
        made_folder(Path("s3://bucket/campaign"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_judged_must_be_the_file_that_was_acknowledged(unfinished: Path) -> None:
    store = store_at(unfinished)
    first, second = found(store)
    folder = store.parts
    assert verified_table(folder, first, ["scenario_id"]).num_rows == 2
    path = unfinished / "parts" / first.name
    shutil.copy(path.with_name(second.name), path)
    with pytest.raises(TrialsLost, match=f"{first.name}: is not the file that was written"):
        verified_table(folder, first, ["scenario_id"])
    path.unlink()
    with pytest.raises(TrialsLost, match=f"{first.name}: was written and is gone; its 2 scenarios"):
        verified_table(folder, first, ["scenario_id"])
