"""The history of nights: reading, pruning, damaged files, and concurrent nights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from onceproof.harness.model.exit_codes import USAGE, exit_code_of
from onceproof.harness.nightly.night_history import (
    MOST_UNPACKED_BYTES,
    SCHEMA,
    VERSION_KEY,
    FamilyFigures,
    NightHistory,
    NightRow,
    PropertyFigures,
    RealFigures,
    SignatureFigures,
)
from onceproof.harness.services.object_store_server import BUCKET
from onceproof.harness.trials.output_files import OutputUnwritable
from tests.patience import PATIENCE_SECONDS

FIRST = datetime(2026, 11, 1, 2, 17, 5, 123456, UTC)


def table_of(folder: Path) -> pa.Table:
    """Return the rows of a folder of Parquet files, as any tool would read them."""
    # It imports pandas, which a collection need not do.
    from pyarrow import dataset

    return dataset.dataset(folder, format="parquet").to_table()


def night(number: int = 0, **changes: Any) -> NightRow:
    fields: dict[str, Any] = {
        "started": FIRST + timedelta(days=number),
        "seed": number,
        "revision": "0.1.0 at 1c82837",
        "status": "failed",
        "scenarios": 4000,
        "failed": 7,
        "known": 3,
        "seconds": 60.5,
        "night_seconds": 171.25,
        "records_replayed_median": 9.0,
        "records_replayed_percentile_95": 31.5,
        "recovery_steps_median": None,
        "recovery_steps_percentile_95": None,
        "mutants_tried": 43,
        "mutants_killed": 42,
        "families": (
            FamilyFigures("word_count", 4000, 7, 3, (PropertyFigures("exactly_once", 3993, 7, 3),)),
            FamilyFigures("empty", 0, 0, 0, ()),
        ),
        "signatures": (SignatureFigures("word_count", "exactly_once", "lost", 7, False, True),),
        "real_inputs": (RealFigures("flights", 336776, 12, 0, False, None),),
    }
    return NightRow(**{**fields, **changes})


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def history(tmp_path: Path, warnings: list[str]) -> NightHistory:
    # Arrow takes a name with an equals sign for a partition.
    kept = NightHistory(tmp_path / "year=2026" / "nights", 5, warnings.append)
    kept.prepare()
    return kept


def test_new_history_has_no_nights(tmp_path: Path, history: NightHistory) -> None:
    assert history.read() == []
    assert NightHistory(tmp_path / "absent", 5, print).read() == []


def test_written_night_is_read_back_equal(history: NightHistory, warnings: list[str]) -> None:
    nights = [night(), night(1, seed=None), night(2, seed=2**200, families=(), signatures=(), real_inputs=())]
    for each in reversed(nights):
        history.add(each)
    assert history.read() == nights
    assert warnings == []


def test_all_figures_of_a_night_are_columns(history: NightHistory) -> None:
    assert SCHEMA.names == list(NightRow.__struct_fields__)
    history.add(night())
    history.add(night(1))
    # Arrow and Spark read the folder as one table.
    table = table_of(history.folder)
    assert table.schema.names == SCHEMA.names
    assert table.num_rows == 2
    [first, _] = sorted(table.to_pylist(), key=lambda row: row["started"])
    assert first["families"][0]["properties"] == [
        {"property": "exactly_once", "passed": 3993, "failed": 7, "known": 3}
    ]


def test_oldest_nights_are_deleted_first(history: NightHistory) -> None:
    for number in (3, 1, 7, 2, 6, 4, 5):
        history.add(night(number))
    assert [row.seed for row in history.read()] == [3, 4, 5, 6, 7]
    assert len(list(history.folder.iterdir())) == 5


def test_failed_write_leaves_no_file(history: NightHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    history.add(night())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(OSError, match="No space"):
        history.add(night(1))
    assert history.read() == [night()]
    assert len(list(history.folder.iterdir())) == 1


def table_in(path: Path) -> pa.Table:
    return parquet.read_table(pa.BufferReader(path.read_bytes()))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(4, 400):
        content[place] ^= 0xFF
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def of_others(path: Path) -> None:
    parquet.write_table(pa.table({"started": [1, 2]}), path)


def without_rows(path: Path) -> None:
    parquet.write_table(SCHEMA.empty_table(), path)


def of_another_shape(path: Path) -> None:
    schema = pa.schema([("started", pa.string())], {VERSION_KEY: b"1"})
    parquet.write_table(pa.table({"started": ["yesterday"]}, schema=schema), path)


@pytest.mark.parametrize(
    "damage",
    [truncated, flipped, emptied, of_others, without_rows, of_another_shape],
    ids=lambda f: f.__name__,
)
def test_damaged_file_is_renamed_and_the_other_nights_are_read(
    history: NightHistory, warnings: list[str], damage: Any
) -> None:
    history.add(night())
    path = history.add(night(1))
    history.add(night(2))
    damage(path)
    content = path.read_bytes()
    assert [row.seed for row in history.read()] == [0, 2]
    [warning] = warnings
    assert warning.startswith(f"{path}: damaged, renamed to _damaged-{path.name}: ")
    assert "\n" not in warning
    assert path.with_name(f"_damaged-{path.name}").read_bytes() == content
    # The file is reported once, not pruned, and ignored by readers of the folder.
    assert [row.seed for row in history.read()] == [0, 2]
    assert len(warnings) == 1
    assert table_of(history.folder).num_rows == 2
    for number in range(3, 9):
        history.add(night(number))
    assert path.with_name(f"_damaged-{path.name}").exists()


def test_night_of_a_newer_version_is_reported_and_kept(history: NightHistory, warnings: list[str]) -> None:
    path = history.add(night())
    table = table_in(path).replace_schema_metadata({VERSION_KEY: b"99"})
    parquet.write_table(table, str(path.parent / "20270101T000000Z-0.parquet"))
    assert history.read() == [night()]
    assert len(warnings) == 1
    assert "format version 99, but this onceproof reads up to 1" in warnings[0]
    assert (path.parent / "20270101T000000Z-0.parquet").exists()


def test_unknown_column_is_ignored(history: NightHistory) -> None:
    path = history.add(night())
    table = table_in(path)
    path.unlink()
    with path.with_name("20261101T021705123456Z-1a2b3c4d.parquet").open("wb") as file:
        parquet.write_table(table.append_column("weather", [["rain"]]), file)
    assert history.read() == [night()]


def test_night_whose_content_is_not_that_of_its_name_is_set_aside(
    history: NightHistory, warnings: list[str]
) -> None:
    path = history.add(night())
    path.write_bytes(history.add(night()).read_bytes() + b" ")
    assert history.read() == [night()]
    assert len(warnings) == 1
    assert warnings[0].endswith(": its content has changed since it was written")
    assert path.with_name(f"_damaged-{path.name}").exists()


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_long_value(path: Path) -> None:
    schema = pa.schema([("status", pa.string())], {VERSION_KEY: b"1"})
    values = pa.table({"status": ["a" * (MOST_UNPACKED_BYTES + 1)]}, schema=schema)
    parquet.write_table(values, path, compression="zstd", use_dictionary=False)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (too_large, "cannot be read, the night is skipped: it is larger than 16,777,216 bytes"),
        (a_pipe, "no regular file"),
        (a_device, "no regular file"),
        (a_long_value, "its values take 67,1.* bytes, and those of a night are few"),
    ],
    ids=["too large", "a pipe", "a device", "a long value"],
)
def test_forged_night_is_one_line_and_takes_no_time_and_no_memory(
    history: NightHistory, warnings: list[str], forge: Any, reason: str
) -> None:
    path = history.add(night())
    forge(path.with_name("20261101T021705123456Z-1a2b3c4d.parquet"))
    assert history.read() == [night()]
    [warning] = warnings
    assert re.search(reason, warning)
    assert "\n" not in warning


def test_unwritable_history_folder_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputUnwritable) as caught:
        NightHistory(tmp_path / "file" / "nights", 5, print).prepare()
    assert str(caught.value) == (
        f"{tmp_path}/file/nights: the history of nights cannot be written to: Not a directory"
    )
    assert exit_code_of(caught.value) == USAGE


WRITER = """
import sys
from pathlib import Path
import fsspec
import msgspec
from onceproof.harness.nightly.night_history import NightHistory, NightRow

row = msgspec.json.decode(sys.argv[2], type=NightRow)
history = NightHistory(Path(sys.argv[1]), 5, lambda text: sys.exit(text))
for _ in range(15):
    history.add(row)
    assert history.read()
"""


def test_concurrent_nights_do_not_damage_each_other(history: NightHistory, warnings: list[str]) -> None:
    # All nights start at the same time; the random part keeps their names apart.
    command = [sys.executable, "-c", WRITER, str(history.folder), msgspec.json.encode(night()).decode()]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for writer in writers:
        _, errors = writer.communicate(timeout=PATIENCE_SECONDS)
        assert writer.returncode == 0, errors
    assert history.read() == [night()] * 5
    assert warnings == []
    assert len(list(history.folder.iterdir())) == 5


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return an address without nights, in memory and in a real object store."""
    name = f"nights-{os.urandom(4).hex()}"
    if request.param == "memory":
        yield f"memory://{name}"
        return
    request.getfixturevalue("object_store")
    yield f"s3://{BUCKET}/{name}"
    # The client of an object store keeps the server's address; another test may have another server.
    fsspec.filesystem("s3").clear_instance_cache()


def test_history_at_an_address_is_shared_pruned_and_survives_damage(place: str, warnings: list[str]) -> None:
    files, _ = fsspec.url_to_fs(place, use_listings_cache=False)
    one, other = NightHistory(place, 3, warnings.append), NightHistory(place, 3, warnings.append)
    assert other.read() == []
    one.prepare()
    written = [(one if number % 2 else other).add(night(number)) for number in range(5)]
    assert [row.seed for row in one.read()] == [2, 3, 4]
    assert other.read() == one.read()
    damaged = files._strip_protocol(written[-1])
    files.pipe_file(damaged, files.cat_file(damaged)[:-9])
    assert [row.seed for row in other.read()] == [2, 3]
    assert warnings == [
        f"{written[-1]}: damaged, renamed to _damaged-{written[-1].rpartition('/')[2]}:"
        " its content has changed since it was written"
    ]
    assert [row.seed for row in one.read()] == [2, 3]


def test_address_that_cannot_be_reached_is_one_line() -> None:
    with pytest.raises(OutputUnwritable, match=r"^nowhere://nights: the history of nights cannot be written"):
        NightHistory("nowhere://nights", 3, print).prepare()
