"""`onceproof evidence`: pack the evidence of failures into an archive that can be sent to others.

The rules this module lives by:

- The archive says nothing of the machine or its user: home and temporary folders, those of the run and of the
  program, user and host have placeholders in their places, also in names of files. Its entries have neither
  owners nor times.
- Only text is packed: what a program keeps in other files may name anything.
- For each failure there is a draft of an issue: what was promised, what was observed, how to reproduce it.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.exit_codes import PASSED, UsageError
from onceproof.harness.trials.evidence import ABOUT, FOLDER, PROGRAM, SCENARIO, TIMELINE, About, private_texts
from onceproof.harness.trials.output_files import write_file
from onceproof.reports.text import counted

ARCHIVE: Final = "evidence.tar.gz"
DRAFT: Final = "issue.md"
MOST_LINES: Final = 40
"""Of the timeline in a draft: the last ones before the end."""
MOST_VERSIONS: Final = 12
"""Of a draft: those that the program's file names come first."""
_COMMON: Final = frozenset({"root", "user", "admin", "ubuntu", "runner", "postgres"})
"""Names of users that say nothing, and are words."""
_STEP: Final = re.compile(r"\S+ step \d+: ")
_HOMES: Final = re.compile(r"/(?:home|Users)/[^/\s\"':]+")
_PASSWORD: Final = re.compile(r"(://[^/\s:@]+:|password=)[^@\s/'\"]+")
_PROMISES: Final[Mapping[str, str]] = {
    "exactly_once": "Each expected row appears exactly once, whatever is killed meanwhile.",
    "at_least_once": "Each expected row appears at least once, whatever is killed meanwhile.",
}


def evidence_command(folder: Path, out: Path | None, as_json: bool = False) -> int:
    """Pack the evidence in a folder, print where the archive is, and return the exit code."""
    kept = _kept(folder)
    if not kept:
        raise UsageError(
            f"{folder}: no evidence of a failure: give the results of a run on a real system that failed"
        )
    archive = out or folder / ARCHIVE
    entries = [entry for each in kept for entry in _entries(each)]
    write_file(archive, _packed(entries))
    if as_json:
        document = {"archive": str(archive), "failures": len(kept), "files": len(entries)}
        print(msgspec.json.encode(document).decode())
    else:
        print(f"{counted(len(kept), 'failure')}, {counted(len(entries), 'file')}: {archive}")
    return PASSED


def without_private(text: str, private: Mapping[str, str]) -> str:
    """Return a text with what names a machine or its user replaced, the longest first."""
    for name in sorted(private, key=len, reverse=True):
        placeholder = private[name].replace("\\", "")
        if name.startswith("/"):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", placeholder, text)
        elif name not in _COMMON and len(name) > 1:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", placeholder, text)
    return _PASSWORD.sub(r"\1<password>", _HOMES.sub("<home>", text))


def _kept(folder: Path) -> list[Path]:
    """Return the folders of evidence in a folder of results, or the folder itself if it is one."""
    if (folder / ABOUT).is_file():
        return [folder]
    return sorted(path.parent for path in (folder / FOLDER).glob(f"*/{ABOUT}"))


def _entries(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of one failure in the archive."""
    try:
        about = msgspec.json.decode((folder / ABOUT).read_bytes(), type=About)
        private = {**private_texts(), **about.private}
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{folder}: not the evidence of a failure: {error}") from None
    del contents[ABOUT]
    contents[DRAFT] = _draft(folder.name, about, contents).encode()
    for name, content in sorted(contents.items()):
        if b"\0" not in content:
            text = content.decode(errors="surrogateescape")
            clean = without_private(text, private).encode(errors="surrogateescape")
            yield without_private(f"{folder.name}/{name}", private), clean


def _draft(name: str, about: About, contents: Mapping[str, bytes]) -> str:
    """Return the draft of an issue for the project of the program."""
    versions = [f"| {program} | {version} |" for program, version in about.versions[:MOST_VERSIONS]]
    return "\n".join(
        [
            f"# {about.family}: {about.signature[1]}",
            "",
            "## What was promised",
            "",
            _PROMISES[about.promise],
            "",
            "## What was observed",
            "",
            f"{about.sentence} ({', '.join(about.signature)})",
            "",
            "```text",
            *_last_steps(contents.get(TIMELINE, b"").decode(errors="replace").splitlines()),
            "```",
            "",
            f"`{TIMELINE}` has the whole run with wall-clock times, `input.jsonl` what was given and",
            "`output.jsonl` what each look at the output found.",
            "",
            "## How to reproduce it",
            "",
            "```",
            f"cd {name}",
            f"onceproof replay {SCENARIO} --family {_family(about)} --system {about.system}",
            "```",
            "",
            "Real processes do not repeat step by step: another run may pass.",
            "",
            "## Versions",
            "",
            "| what | version |",
            "| --- | --- |",
            *versions,
            "",
            "`versions.txt` has all of them.",
            "",
        ]
    )


def _family(about: About) -> str:
    return f"{PROGRAM}/{about.program}" if about.program else about.family


def _last_steps(timeline: Sequence[str]) -> Sequence[str]:
    """Return the last steps of a timeline, without what programs have printed meanwhile."""
    lines = [line for line in timeline if _STEP.match(line)]
    left = len(lines) - MOST_LINES
    return lines if left <= 0 else [f"... {counted(left, 'step')} before", *lines[-MOST_LINES:]]


def _packed(entries: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an archive of files, without owners and times."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in entries:
            entry = tarfile.TarInfo(f"evidence/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
