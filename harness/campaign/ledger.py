"""The ledger of a family in a campaign: which of its scenarios are written, found and not judged yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onceproof.harness.campaign.answers import Answer
from onceproof.harness.campaign.executor import FamilySource, Recall
from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.campaign.trial_files import WrittenFile
from onceproof.harness.campaign.trial_tables import TrialTables
from onceproof.harness.model.family import Family


@dataclass(slots=True)
class Ledger:
    """The trials of one family."""

    place: int
    families: int
    family: Family
    tables: TrialTables
    source: FamilySource
    folder: FileStore
    written: set[str] = field(default_factory=set)
    """The names of all files that were acknowledged."""
    found: list[Answer] = field(default_factory=list)
    """The files of an earlier attempt, and their turns, until all their scenarios are taken."""
    files: list[WrittenFile] = field(default_factory=list)
    """Those that are not judged."""
    outcomes: int = 0
    """How many scenarios with an outcome are not judged."""

    def add(self, file: WrittenFile, outcomes: int) -> None:
        """Add a file that was acknowledged, and the number of its scenarios that have an outcome."""
        self.written.add(file.name)
        self.files.append(file)
        self.outcomes += outcomes

    @property
    def names(self) -> set[str]:
        """Return the names of all files that are known to have trials of the family."""
        return self.written | {file.written.name for file in self.found if file.written is not None}

    def turns_between(self, first: int, stop: int) -> range:
        """Return the turns whose numbers in the campaign are in a range."""
        return range(-((self.place - first) // self.families), -((self.place - stop) // self.families))

    def find(self, answers: Sequence[Answer]) -> None:
        """Take note of files of an earlier attempt, unless another one has the same scenarios."""
        known: set[int] = set()
        for answer in sorted(answers, key=lambda each: each.turns[0].start):
            turns = {turn for turns in answer.turns for turn in turns}
            if known.isdisjoint(turns):
                known = {turn for turn in known if turn > answer.turns[0].start} | turns
                self.found.append(answer)

    def recalls(self, wanted: range) -> list[Recall]:
        """Return the tasks that recall those of the wanted turns that an earlier attempt has finished."""
        return [
            Recall(self.place, self.families, self.folder, file.written, wanted)
            for file in self.found
            if file.written is not None and any(map(range.__len__, _common(file.turns, wanted)))
        ]

    def unfinished(self, wanted: range) -> list[int]:
        """Return those of the wanted turns that no earlier attempt has finished."""
        finished = {turn for file in self.found for turns in _common(file.turns, wanted) for turn in turns}
        return [turn for turn in wanted if turn not in finished]

    def end_found(self, stop: int) -> int:
        """Add the found files whose last turn is before ``stop``, and return how many scenarios they have."""
        ended = [file for file in self.found if file.turns[-1].stop <= stop]
        self.found = [file for file in self.found if file.turns[-1].stop > stop]
        for file in ended:
            assert file.written is not None
            self.add(file.written, file.scenarios)
        return sum(file.scenarios for file in ended)


def _common(turns: Sequence[range], wanted: range) -> Iterator[range]:
    """Yield what ranges of turns have in common with another one."""
    for each in turns:
        yield range(max(each.start, wanted.start), min(each.stop, wanted.stop))
