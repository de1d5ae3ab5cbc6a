"""The evidence of a failure on a real system: a folder beside its scenario.

Rules:

- Each failure of a run has one folder, of the first scenario that failed so; it is replaced when the smallest
  scenario has failed in the same way, which the page shows.
- It holds what was seen with wall-clock times, the input, each look at the output, logs and files, versions,
  and the program's own files. `onceproof evidence` packs it.
- Evidence that cannot be written is no reason to end a run.
"""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from posixpath import normpath
from typing import Any, Final

import msgspec

from onceproof.harness.checkers import Signature, Violation
from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.explanation.narrative import narrative_lines
from onceproof.harness.explanation.sentences import sentence_of
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import ROWS_FOUND, ROWS_GONE, ROWS_WRITTEN, TRANSACTION_VISIBLE, History
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import placed_texts
from onceproof.harness.model.run_record import RunRecord
from onceproof.harness.model.scenario import Scenario, to_json
from onceproof.harness.model.system import System, Versioned
from onceproof.harness.trials.revisions import commit_of, engine_version

FOLDER: Final = "failures"
ABOUT: Final = "about.json"
TIMELINE: Final = "timeline.txt"
SCENARIO: Final = "scenario.json"
PROGRAM: Final = "program"
_MOST_BYTES_OF_SOURCE: Final = 200_000
_SHOWS_ROWS: Final = (ROWS_FOUND, ROWS_GONE, ROWS_WRITTEN, TRANSACTION_VISIBLE)


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a draft says of a failure, and what it must not say of the machine."""

    family: str
    system: str
    signature: Signature
    promise: str
    sentence: str
    program: str
    """Its file in TOML among the files of the program; "": it is no program."""
    versions: tuple[tuple[str, str], ...]
    private: dict[str, str]
    """By text that names this machine or its user, what stands in its place."""


def failure_paths(folder: Path, family: str, signature: Signature) -> tuple[Path, Path]:
    """Return the files of the shrunk scenario of a failure and of the original one."""
    digest = blake2b("\n".join((family, *signature)).encode(), digest_size=3).hexdigest()
    # A family's name may have characters that file names must not have.
    stem = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', family)}-{digest}"
    return folder / FOLDER / f"{stem}.json", folder / FOLDER / f"{stem}.original.json"


def evidence_folder(folder: Path, family: str, signature: Signature) -> Path:
    """Return the folder of the evidence of a failure."""
    return failure_paths(folder, family, signature)[0].with_suffix("")


def sentence_of_outcome(outcome: Outcome) -> str:
    """Return the sentence for a run of which only the outcome is known."""
    broken, anomaly, where, witness = outcome.violations[0]
    return sentence_of(Violation(broken, anomaly, where, msgspec.json.decode(witness)))


def keep_evidence(
    folder: Path,
    system: System,
    family: Family,
    scenario: Scenario,
    history: History,
    signature: Signature,
    sentence: str,
) -> None:
    """Write the evidence of a failed run in place of what the folder held."""
    record = history.record
    assert record is not None, "only real systems record their runs"
    about = About(
        family.name,
        system.name,
        signature,
        family.file.promise if isinstance(family, ProgramFamily) else "exactly_once",
        sentence,
        family.path.name if isinstance(family, ProgramFamily) else "",
        tuple(_versions(system, family)),
        private_texts(record, family),
    )
    files: dict[str, bytes] = {f"files/{name}": content for name, content in record.files.items()}
    if isinstance(family, ProgramFamily):
        files |= _sources(family)
    files[TIMELINE] = "".join(f"{line}\n" for line in _timeline(history, record)).encode()
    files["input.jsonl"] = b"".join(map(_line, _input(record)))
    files["output.jsonl"] = b"".join(map(_line, _looks(history, record)))
    files["versions.txt"] = "".join(f"{name} {version}\n" for name, version in about.versions).encode()
    files[SCENARIO] = (to_json(scenario, indent=2) + "\n").encode()
    # Last: a folder without it is not complete.
    files[ABOUT] = msgspec.json.format(msgspec.json.encode(about), indent=1)
    with suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def private_texts(record: RunRecord | None = None, family: Family | None = None) -> dict[str, str]:
    """Return what names this machine, its user and their folders, with what stands in its place."""
    places = {str(Path.home()): "<home>", tempfile.gettempdir(): "<tmp>", sys.prefix: "<python>"}
    places[str(Path.cwd())] = "<folder>"
    if isinstance(family, ProgramFamily):
        places[str(family.path.absolute().parent)] = "<program>"
    if record is not None and record.folder:
        places[record.folder] = "<trial>"
    names = {socket.gethostname(): "<host>"}
    with suppress(KeyError, OSError):
        names[getpass.getuser()] = "<user>"
    places |= {str(Path(place).resolve()): name for place, name in places.items()}
    return {text: name for text, name in (names | places).items() if text not in ("", "/", "localhost")}


def _versions(system: System, family: Family) -> Iterator[tuple[str, str]]:
    yield "onceproof", engine_version()
    if isinstance(family, ProgramFamily) and (commit := commit_of(family.path.absolute().parent)):
        yield family.name, commit
    if isinstance(system, Versioned):
        yield from system.versions(family)


def _sources(family: ProgramFamily) -> Mapping[str, bytes]:
    """Return by place in the archive what a replay reads: the program's file, and what it names beside it.

    These are the oracle, which may stand in a neighboring folder, templates, each ``{here}/FILE``, and the
    folder's Python files if a process finds modules there.
    """
    here = family.path.absolute().parent
    texts = [text for _, text, _ in placed_texts(family.file)]
    named = [text.partition("{here}/")[2] for text in texts if text.startswith("{here}/")]
    named += [each.template for each in family.file.render]
    if "{here}" in texts:
        named += [path.name for path in here.glob("*.py")]
    found = {}
    for name in (family.path.name, family.file.oracle, *named):
        path, place = here / name, normpath(f"{PROGRAM}/{name}")
        home = here.parent if name == family.file.oracle else here
        with suppress(OSError):
            is_near = bool(name) and path.resolve().is_relative_to(home.resolve())
            if is_near and path.is_file() and path.stat().st_size <= _MOST_BYTES_OF_SOURCE:
                found[place] = path.read_bytes()
    return found


def _timeline(history: History, record: RunRecord) -> Iterator[str]:
    """Yield what was seen and what was printed, by time."""
    begun = record.times[0] if record.times else 0.0
    lines = [
        (_time_of(step, record, begun), 0, f"step {step}: {task} {what} {details}".rstrip())
        for step, task, what, details in narrative_lines(history)
    ]
    lines += [(at, 1, f"  {of} prints: {line}") for at, of, line in record.printed]
    for at, _, text in sorted(lines, key=lambda line: line[:2]):
        yield f"{_clock(at)} {text}"


def _time_of(step: int, record: RunRecord, default: float) -> float:
    return record.times[step - 1] if 0 < step <= len(record.times) else default


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _input(record: RunRecord) -> Iterator[dict[str, Any]]:
    for at, split, (timestamp, value) in record.given:
        yield {"given": _clock(at), "split": split, "timestamp": timestamp, "value": value}


def _looks(history: History, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield what each look at the output found that was new, or gone."""
    for step, kind, subject, payload in history.events:
        if kind in _SHOWS_ROWS:
            at = _clock(_time_of(step, record, 0.0))
            yield {"seen": at, "step": step, "by": subject, "what": kind, "rows": payload["rows"]}


def _line(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value, enc_hook=repr) + b"\n"
