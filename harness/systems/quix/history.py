"""Builds the history of an application from the event logs of its workers and from what is in Kafka.

Rules:

- The n-th commit of any worker is checkpoint n. Its cut is what the group has committed by then of each
  split; its transaction is what was sent in it. A transaction has rows and offsets together, so each such cut
  is one of the whole application. Records whose key was changed and that are not processed yet are in flight.
- Whether a commit took place, of which no answer was logged, shows with the next worker that is assigned the
  partitions, or with the group in the end: they have its offsets, or not.
- A commit has its place where it began: no other commit can have needed it before. So no order of lines in
  the logs of two workers makes one wrong.
- A worker that is assigned partitions has to get the offsets of the last commit of each.
- With at least once, rows can be read when they are sent. They are found when all is over, and belong to no
  checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.history import LOOK, Row
from onceproof.harness.systems.kit.run_history import NO_FILES, RunHistory
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.quix import events as worker_events
from onceproof.harness.systems.quix.events import COMMITTED, COMMITTING, RESUMED, writer_of
from onceproof.harness.systems.quix.topics import Seen
from onceproof.harness.systems.recording import event_log

Offsets = Mapping[str, Mapping[str, int]]
"""By topic and partition, as JSON has it."""
Place = tuple[str, str]

_NEVER_COMMITTED: Final = -1


class QuixHistory:
    """Turns the events of one application into a history.

    Args:
        spec: of the run.
        lengths: the numbers of records by split.
        look: returns what is in the topics of the application, once it is over.
    """

    def __init__(self, spec: Spec, lengths: Mapping[str, int], look: Callable[[], Seen]) -> None:
        self.run = RunHistory(spec.faults, lengths, spec.parallelism)
        assert spec.kafka is not None, "an application lives between topics"
        self._input = spec.kafka.input_topic
        self._is_exactly_once = spec.barriers != "at_least_once"
        self._look = look
        self._seen = Seen({}, [], {}, [])
        self._position: dict[Place, int] = {}
        """By partition, what the group has committed so far."""
        self._read: dict[str, int] = dict.fromkeys(lengths, 0)
        """By split, how many records were read so far, by any worker."""
        self._sent: set[str] = set()
        """The transactions that are committed so far."""
        self._took_place: dict[int, int] = {}
        """By the number of the event with which a commit began, when it was answered, or began."""

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event logs of the application, once all its processes are dead."""
        self._seen = self._look()
        if self._is_exactly_once:
            self._took_place = self._commits_of(events)
        for number, event in enumerate(events):
            self.run.next_step()
            if number in self._took_place:
                self._commit_took_place(event, self._took_place[number])
            else:
                self.add_event(event)
        self._add_unlisted_rows()

    # Which commits took place.

    def _commits_of(self, events: list[dict[str, Any]]) -> dict[int, int]:
        """Return by the number of its first event each commit that took place, and when that was known."""
        answered = {event["transaction"]: event["at"] for event in events if event["kind"] == COMMITTED}
        took_place: dict[int, int] = {}
        known: set[str] = set()
        for number, event in enumerate(events):
            if event["kind"] != COMMITTING or event["transaction"] in known:
                continue
            name = event["transaction"]
            if name in answered or self._has_offsets(event["offsets"], events[number + 1 :]):
                known.add(name)
                took_place[number] = answered.get(name, event["at"])
        return took_place

    def _has_offsets(self, offsets: Offsets, later: list[dict[str, Any]]) -> bool:
        """Return whether the group has offsets, by who is next assigned one of the partitions."""
        (topic, partition), offset = next(iter(_flat(offsets).items()))
        for event in later:
            if event["kind"] == RESUMED and partition in event["offsets"].get(topic, {}):
                return bool(event["offsets"][topic][partition] >= offset)
        return self._seen.offsets.get(topic, {}).get(partition, _NEVER_COMMITTED) >= offset

    def _commit_took_place(self, event: dict[str, Any], at: int) -> None:
        """Add a checkpoint, and its transaction if that has rows."""
        name = event["transaction"]
        self._sent.add(name)
        self._position.update(_flat(event["offsets"]))
        rows = self._seen.rows.get(name, [])
        self.run.checkpoint_completed(
            len(self.run.complete) + 1, self._cut(), [name] if rows else [], self._in_flight()
        )
        self.run.job_commits_again(at)
        if rows:
            self._show(name, rows)
            self.run.job_came_back(at)

    def _cut(self) -> dict[str, int]:
        """Return by split how many of its records are committed; the end of a split is none."""
        return {
            split: min(length, self._position.get((self._input, str(number)), 0))
            for number, (split, length) in enumerate(self.run.lengths.items())
        }

    def _in_flight(self) -> int:
        """Return how many records are committed with a new key and not processed by it."""
        return sum(
            each.transaction in self._sent
            and each.offset >= self._position.get((each.topic, str(each.partition)), 0)
            for each in self._seen.passed_on
        )

    def _show(self, name: str, rows: list[Row]) -> None:
        worker, number = writer_of(name)
        self.run.history.transaction_visible(self.run.step, name, worker, self.run.attempt, number, rows)

    def _add_unlisted_rows(self) -> None:
        """Add the rows that can be read and belong to no checkpoint."""
        if not self._is_exactly_once:
            rows = [row for own in self._seen.rows.values() for row in own]
            if rows:
                self.run.next_step()
                self.run.history.rows_found(self.run.step, f"{LOOK}1", self.run.attempt, rows)
            return
        for name, rows in self._seen.rows.items():
            if name not in self._sent:
                self.run.next_step()
                self._show(name, rows)

    # The events of the workers.

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of a worker or of the supervisor."""
        match event["kind"]:
            case worker_events.WORKERS_STARTED:
                self._begin(event)
            case worker_events.RECORD_READ:
                self._record_read(event["split"], event["offset"])
            case worker_events.RESUMED:
                self._check_offsets(event)
            case worker_events.COMMITTING | worker_events.COMMITTED:
                # What took place is added where it began.
                pass
            case event_log.TASK_FAILED:
                self.run.task_failed(event, self.run.attempt)
            case event_log.FAULT_STRUCK:
                self.run.fault_struck({**event, "read": dict(self._read)})
            case _:
                self.run.add_event(event)

    def _begin(self, event: dict[str, Any]) -> None:
        """Add an attempt. It goes on from the last checkpoint, by the offsets that its workers get."""
        self.run.attempt_started(
            str(event["attempt"]),
            event["parallelism"],
            len(self.run.complete) or None,
            by_supervisor=event["by_supervisor"],
            # It is counted as it is read.
            counts_replayed=False,
        )

    def _record_read(self, split: str, offset: int) -> None:
        if offset < self._read[split]:
            self.run.history.statistics.records_replayed += 1
            for recovery, _, _ in self.run.recovering:
                if recovery.replayed is not None:
                    recovery.replayed += 1
        self._read[split] = max(self._read[split], offset + 1)

    def _check_offsets(self, event: dict[str, Any]) -> None:
        """Compare the offsets that a worker gets with those of the last commits."""
        if not self._is_exactly_once:
            return
        found = {place: max(offset, _NEVER_COMMITTED) for place, offset in _flat(event["offsets"]).items()}
        known = {place: self._position.get(place, _NEVER_COMMITTED) for place in found}
        if found != known:
            text = f"{event['worker']} gets the offsets {found}, and the last commits have {known}"
            self.run.error("consumer group", "OtherOffsets", "committed", text)

    # The end.

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Report the transactions that are open, of the workers that lived last."""
        for name in self._seen.open:
            if int(name.rpartition("-")[2]) < self.run.parallelism:
                self.run.history.leak(self.run.step, "open transaction", name)
        self.run.history.statistics.steps = self.run.step


def _flat(offsets: Offsets) -> dict[Place, int]:
    return {(topic, partition): offset for topic, own in offsets.items() for partition, offset in own.items()}
