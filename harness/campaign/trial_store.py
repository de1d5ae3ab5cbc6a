"""The trials of a campaign on their store, and the manifest that says whose they are.

The rules this module lives by:

- A store is a folder, or an address that all executors reach. It holds a manifest, and a folder of Parquet
  files. Nothing else is read, and nothing else is ever deleted.
- The manifest names the campaign: families with their versions, seed, number of scenarios, and the version of
  onceproof. The same campaign resumes from the files that are there, unless it had ended. Another one is
  refused while the one there is unfinished, and replaces it afterwards.
- A family whose Python files have changed is another one. Of another file beside them it cannot be known
  whether the family reads it, or the log of this very command: the campaign resumes, and names the file.
- A file counts only as a whole: a damaged one is ignored, and its scenarios run again. So are scenarios that
  another file has already.
- A place without a manifest that is not empty belongs to its user, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from typing import Final

import msgspec
import pyarrow as pa

from onceproof.engine.locations import scheme_of
from onceproof.harness.campaign.answers import answers_in
from onceproof.harness.campaign.executor import FamilySource, Survey
from onceproof.harness.campaign.file_stores import FileStore, store_of
from onceproof.harness.campaign.trial_files import unwritable
from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.family import Family
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.reports.text import counted

MANIFEST: Final = "campaign.json"
MOST_BYTES: Final = 16 << 20
_PART: Final = re.compile(r"\.?part-\d+(-[0-9a-f]+)?\.parquet(\..*)?")
PARTS: Final = "parts"
_FOLDER: Final = re.compile(rf"{PARTS}|\d+-[A-Za-z0-9_-]+")
_WAVE: Final = re.compile(r"wave-\d+")
"""In earlier versions each family had a folder, with folders of waves."""
_PROBE: Final = re.compile(r"\.?probe-.*")

_OF_ONE_PROCESS: Final = ("memory", "local", "http", "https")


class CampaignFamily(msgspec.Struct, frozen=True):
    """A family of a campaign."""

    asked: str
    name: str
    version: int
    files: Mapping[str, str]
    """What is beside a family in a file, itself among it: by name, another text for another content."""


class Manifest(msgspec.Struct, frozen=True):
    """Which campaign has written the trials of a store."""

    version: str
    """Of onceproof."""
    families: tuple[CampaignFamily, ...]
    seed: int
    scenarios: int | None
    is_finished: bool = False

    def is_same(self, other: Manifest) -> bool:
        """Return whether another one is of the same campaign, whatever data is beside its families."""
        return self._without_files() == other._without_files() and not any(
            name.endswith(".py") for name in self.changed(other)
        )

    def _without_files(self) -> Manifest:
        families = tuple([msgspec.structs.replace(each, files={}) for each in self.families])
        return msgspec.structs.replace(self, families=families)

    def changed(self, other: Manifest) -> list[str]:
        """Return the names of the files beside the families of both that differ."""
        pairs = list(zip(self.families, other.families, strict=False))
        names = {name for pair in pairs for each in pair for name in each.files}
        return sorted(name for name in names if any(a.files.get(name) != b.files.get(name) for a, b in pairs))

    def __str__(self) -> str:
        names = ", ".join(each.asked for each in self.families[:3])
        more = f" and {len(self.families) - 3} more" if len(self.families) > 3 else ""
        size = "" if self.scenarios is None else f", {counted(self.scenarios, 'scenario')}"
        return f"{names}{more}, seed {self.seed}{size}, onceproof {self.version}"


def manifest_of(
    families: Sequence[Family],
    sources: Sequence[FamilySource],
    seed: int,
    scenarios: int | None,
) -> Manifest:
    """Return the manifest of a campaign that begins."""
    return Manifest(
        metadata.version("onceproof"),
        tuple(
            CampaignFamily(source.asked, family.name, generator_version(family), source.files)
            for family, source in zip(families, sources, strict=True)
        ),
        seed,
        scenarios,
    )


class TrialStore:
    """The store of one campaign."""

    def __init__(self, place: str, manifest: Manifest) -> None:
        """Name the place; nothing is read or written yet. Raises OutputUnwritable for an unusable address."""
        scheme = scheme_of(place)
        if scheme in _OF_ONE_PROCESS:
            raise OutputUnwritable(f"{place}: executors cannot write there: give --store s3://BUCKET/PATH")
        if scheme == "hdfs":
            raise OutputUnwritable(
                f"{place}: hdfs:// needs a client of Hadoop in every process: write webhdfs://HOST:PORT/PATH,"
                " with the address of the NameNode's web interface"
            )
        self.files = store_of(place)
        self.place = self.files.place
        self.parts = self.files.below(PARTS)
        self._manifest = manifest
        self.changed: list[str] = []
        """The files beside the families that were others when the campaign began that is resumed."""

    def resumes(self, may_resume: bool = True) -> bool:
        """Return whether this campaign resumes the one that is there.

        Args:
            may_resume: False begins anew, whatever is there.

        Raises:
            OutputUnwritable: what is there belongs to the user, or to an unfinished campaign.
        """
        there = self._read_manifest()
        if there is None:
            self._refuse_what_is_not_ours()
            return False
        if there.is_finished or not may_resume:
            return False
        changed = self._manifest.changed(there)
        if self._manifest.is_same(there):
            self.changed = changed
            return True
        rows = self._finished_scenarios(there)
        if not rows:
            return False
        since = f"; changed since: {', '.join(changed)}" if changed else ""
        raise OutputUnwritable(
            f"{self.place}: holds {counted(rows, 'finished scenario')} of another campaign, which has not"
            f" ended ({there}{since}): repeat its command to resume it, give another --out, or delete this"
            " place"
        )

    def begin(self, resumes: bool) -> None:
        """Write the manifest, and delete an earlier campaign that is not resumed."""
        try:
            if not resumes:
                self._delete_trials()
            self.files.write(MANIFEST, msgspec.json.encode(self._manifest))
        except OSError as error:
            raise unwritable(self.place, error) from None

    def finish(self, acknowledged: Collection[str]) -> None:
        """Delete the files of attempts that lost against others, and note that the campaign has ended.

        ``acknowledged``: the names of the files that are kept.
        """
        try:
            for name in self.parts.names():
                if _PART.fullmatch(name) and name not in acknowledged:
                    self.parts.delete(name)
            self._note_end()
        except OSError as error:
            raise unwritable(self.place, error) from None

    def end(self) -> None:
        """Note, if possible, that this campaign has ended and cannot be resumed."""
        with suppress(OSError):
            self._note_end()

    def _note_end(self) -> None:
        ended = msgspec.structs.replace(self._manifest, is_finished=True)
        self.files.write(MANIFEST, msgspec.json.encode(ended))

    def part_names(self) -> list[str]:
        """Return the names of the files, of damaged ones as well."""
        return [name for name in self.parts.names() if not name.startswith(".") and _PART.fullmatch(name)]

    def _read_manifest(self) -> Manifest | None:
        try:
            return msgspec.json.decode(self.files.read(MANIFEST, MOST_BYTES), type=Manifest)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, ValueError):
            raise OutputUnwritable(
                f"{self.place}/{MANIFEST}: not the manifest of a campaign: give another --out, or delete it"
            ) from None
        except OSError as error:
            raise unwritable(self.place, error) from None

    def _refuse_what_is_not_ours(self) -> None:
        try:
            ours = self._folders_without_manifest()
            strangers = [name for name in self.files.names() if not _PROBE.fullmatch(name)]
            strangers += set(self.files.folders()) - set(ours)
        except OSError as error:
            raise unwritable(self.place, error) from None
        if strangers:
            raise OutputUnwritable(
                f"{self.place}: holds {sorted(strangers)[0]!r}, which no campaign has written: give another"
                " --out or --store"
            )

    def _folders_without_manifest(self) -> list[str]:
        """Return the folders with nothing in them but what a campaign has written."""
        return [
            name
            for name in self.files.folders()
            if _FOLDER.fullmatch(name) and _is_ours(self.files.below(name), with_waves=True)
        ]

    def _delete_trials(self) -> None:
        there = self._read_manifest()
        names = (
            self._folders_without_manifest()
            if there is None
            else [PARTS, *(_folder_name(place, family.name) for place, family in enumerate(there.families))]
        )
        for name in names:
            folder = self.files.below(name)
            for wave in folder.folders():
                if _WAVE.fullmatch(wave):
                    _delete_parts(folder.below(wave))
            _delete_parts(folder)

    def _finished_scenarios(self, there: Manifest) -> int:
        """Return how many scenarios another campaign has finished."""
        found = Survey(len(there.families), self.parts, self.part_names()).run()
        return sum(next(answers_in(pa.Table.from_batches([batch]))).scenarios for batch in found)


def _folder_name(place: int, family: str) -> str:
    return f"{place}-{re.sub(r'[^A-Za-z0-9_-]+', '_', family)}"


def _is_ours(folder: FileStore, with_waves: bool = False) -> bool:
    waves = folder.folders()
    return all(map(_PART.fullmatch, folder.names())) and all(
        with_waves and _WAVE.fullmatch(wave) and _is_ours(folder.below(wave)) for wave in waves
    )


def _delete_parts(folder: FileStore) -> None:
    for name in folder.names():
        if _PART.fullmatch(name):
            folder.delete(name)
    folder.remove_folder()
