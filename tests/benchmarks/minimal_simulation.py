"""The floor under the benchmark of the simulation: the reference case written by hand, with nothing to spare.

Two sources, two counts, two sinks over hash edges; aligned barriers, snapshots stored and acknowledged as
steps of their own, metadata, notifications that commit; one kill as a notification of the second checkpoint
arrives, a restart with three counts, the rest of the input, a final checkpoint; the rows are checked. One
random choice a step, all of them hashed; snapshots are bytes in a store, with a checksum, and are decoded on
restore. It knows one job, one fault and no error: what is left of a simulation without an engine.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from hashlib import blake2b, sha256
from random import Random
from typing import Any

import msgspec

GROUPS = 16
INTERVAL_STEPS = 60
KILLED_AT_CHECKPOINT = 2
ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder().decode


class Run:
    """One run of the reference case over two splits of words."""

    def __init__(self, splits: list[list[str]], seed: int) -> None:
        self.splits = splits
        self.random = Random(seed).random
        self.stored: dict[int, dict[Any, Any]] = {}
        self.complete = 0
        self.next_id = 1
        self.rows: list[tuple[str, int]] = []
        self.committed: set[Any] = set()
        self.steps = 0
        self.trace: list[Any] = []
        self.killed = False
        self.deploy(2)

    def deploy(self, counts: int) -> None:
        """Start an attempt from the latest complete checkpoint."""
        state = {}
        for task, (data, checksum) in self.stored.get(self.complete, {}).items():
            assert sha256(data).digest() == checksum, "a stored snapshot is damaged"
            state[task] = DECODE(data)
        self.counts = counts
        self.offsets = [state.get(("source", index), 0) for index in range(2)]
        self.tables: list[dict[str, int]] = [{} for _ in range(counts)]
        for task, table in state.items():
            if task[0] == "count":
                for word, count in table.items():
                    self.tables[self.owner(word)][word] = count
            elif task[0] == "sink":
                for name, rows in table:
                    self.commit(tuple(name), [tuple(row) for row in rows])
        self.open: list[list[tuple[str, int]]] = [[], []]
        self.prepared: list[list[Any]] = [[], []]
        self.channels: dict[Any, deque[Any]] = {}
        self.feeders = {("count", i): [("source", 0), ("source", 1)] for i in range(counts)}
        self.feeders |= {("sink", i): [("count", j) for j in range(counts)] for i in range(2)}
        for task, feeders in self.feeders.items():
            for feeder in feeders:
                self.channels[feeder, task] = deque()
        self.blocked: set[Any] = set()
        self.messages: list[tuple[Any, ...]] = []
        self.acknowledged: dict[Any, Any] = {}
        self.pending = 0
        self.last_trigger = self.steps
        self.final = False

    def owner(self, word: str) -> int:
        """The count that owns a word."""
        return zlib.crc32(word.encode()) % GROUPS * self.counts // GROUPS

    def run(self) -> str:
        """Step until a checkpoint after the end of the input is complete; the hash of all that happened."""
        while not self.final or self.pending or self.messages:
            self.steps += 1
            if not self.pending and self.steps - self.last_trigger >= INTERVAL_STEPS:
                self.trigger()
            ready = [key for key, queue in self.channels.items() if queue and key not in self.blocked]
            sources = [i for i in range(2) if self.offsets[i] < len(self.splits[i])]
            total = len(ready) + len(sources) + len(self.messages)
            if not total:
                self.trigger()
                continue
            choice = int(self.random() * total)
            if choice < len(ready):
                self.trace.append(ready[choice])
                self.deliver(ready[choice])
            elif choice < len(ready) + len(sources):
                self.trace.append(sources[choice - len(ready)])
                self.poll(sources[choice - len(ready)])
            else:
                message = self.messages.pop(choice - len(ready) - len(sources))
                self.trace.append(message[:3])
                self.message(*message)
        counts: Counter[str] = Counter()
        expected = []
        for word in self.splits[0] + self.splits[1]:
            counts[word] += 1
            expected.append((word, counts[word]))
        assert sorted(self.rows) == sorted(expected), "the floor itself is wrong"
        return blake2b(ENCODE([self.trace, self.rows]), digest_size=16).hexdigest()

    def poll(self, index: int) -> None:
        """Read one word and send it to its count."""
        word = self.splits[index][self.offsets[index]]
        self.offsets[index] += 1
        self.channels[("source", index), ("count", self.owner(word))].append(word)

    def trigger(self) -> None:
        """Begin a checkpoint; it is the final one if all input has been read."""
        self.pending = self.next_id
        self.next_id += 1
        self.last_trigger = self.steps
        self.final = all(self.offsets[i] == len(self.splits[i]) for i in range(2))
        self.acknowledged = {}
        self.messages += [("trigger", ("source", index), self.pending) for index in range(2)]

    def deliver(self, key: Any) -> None:
        """Process the next element of a channel."""
        task = key[1]
        kind, index = task
        element = self.channels[key].popleft()
        if type(element) is int:
            self.blocked.add(key)
            if all((feeder, task) in self.blocked for feeder in self.feeders[task]):
                self.blocked -= {(feeder, task) for feeder in self.feeders[task]}
                self.snapshot(task, element)
        elif kind == "count":
            count = self.tables[index][element] = self.tables[index].get(element, 0) + 1
            sink = ("sink", zlib.crc32(element.encode()) & 1)
            self.channels[task, sink].append((element, count))
        else:
            self.open[index].append(element)

    def snapshot(self, task: Any, checkpoint: int) -> None:
        """Forward the barrier, copy the state, store it later."""
        kind, index = task
        for (feeder, _), queue in self.channels.items():
            if feeder == task:
                queue.append(checkpoint)
        if kind == "source":
            state: Any = self.offsets[index]
        elif kind == "count":
            state = dict(self.tables[index])
        else:
            self.prepared[index].append(((index, checkpoint), self.open[index]))
            self.open[index] = []
            state = list(self.prepared[index])
        self.messages.append(("store", task, checkpoint, state))

    def message(self, verb: str, task: Any, checkpoint: int, state: Any = None) -> None:
        """A trigger, a stored snapshot, an acknowledgement, metadata or a notification arrives."""
        if verb == "trigger":
            self.snapshot(task, checkpoint)
        elif verb == "store":
            data = ENCODE(state)
            self.messages.append(("acknowledge", task, checkpoint, (data, sha256(data).digest())))
        elif verb == "acknowledge":
            self.acknowledged[task] = state
            if len(self.acknowledged) == self.counts + 4:
                self.messages.append(("metadata", None, checkpoint))
        elif verb == "metadata":
            self.stored[checkpoint] = self.acknowledged
            self.complete = checkpoint
            self.pending = 0
            self.messages += [("notify", ("sink", index), checkpoint) for index in range(2)]
            self.messages += [("notify", ("count", index), checkpoint) for index in range(self.counts)]
        elif task[0] == "count":
            if checkpoint == KILLED_AT_CHECKPOINT and not self.killed:
                self.killed = True
                self.deploy(3)
        else:
            for name, rows in self.prepared[task[1]]:
                if name[1] <= checkpoint:
                    self.commit(name, rows)
            self.prepared[task[1]] = [entry for entry in self.prepared[task[1]] if entry[0][1] > checkpoint]

    def commit(self, name: Any, rows: list[tuple[str, int]]) -> None:
        """Make rows visible, once."""
        if name not in self.committed:
            self.committed.add(name)
            self.rows += rows
