"""Traces for the tests: a failure written by hand, and a toy protocol that makes long traces from a seed."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec

from onceproof.reports.trace import Trace


class Toy:
    """Sources, counts and sinks with hash edges, aligned barriers, a kill of all tasks, and a rescale."""

    def __init__(
        self, records, keys, seed, sources=2, counts=2, sinks=2, interval=12, kill_at=19, rescale_to=0
    ):
        self.random = Random(seed)
        self.keys = keys
        self.per_source = [records // sources + (index < records % sources) for index in range(sources)]
        self.sources, self.counts, self.sinks = sources, counts, sinks
        self.most_counts = max(counts, rescale_to)
        self.interval, self.kill_at, self.rescale_to = interval, kill_at, rescale_to
        self.lanes = ["coordinator"]
        self.lanes += [f"source-{index}" for index in range(sources)]
        self.lanes += [f"count-{index}" for index in range(self.most_counts)]
        self.lanes += [f"sink-{index}" for index in range(sinks)]
        self.arrows, self.marks, self.kills, self.attempts = [], [], [], []
        self.step, self.checkpoint, self.completed = 0, 0, {}
        self.begin({"offsets": [0] * sources, "state": {}}, None)

    def begin(self, cut, restored):
        self.offsets = list(cut["offsets"])
        self.state = dict(cut["state"])
        self.channels = {}
        self.blocked = {}
        self.open = {}
        self.finishing = False
        self.next_trigger = self.step + self.interval // 2
        name = f"1.{len(self.attempts) + 1}"
        self.attempts.append(
            {"name": name, "from": self.step, "to": 0, "parallelism": self.counts, "restored": restored}
        )

    def send(self, source, target, kind, label, payload=None):
        channel = self.channels.setdefault((source, target), deque())
        channel.append((kind, label, payload, self.step))

    def mark(self, kind, lane, label=""):
        self.marks.append({"kind": kind, "lane": lane, "step": self.step, "label": label})

    def key_of(self, source, offset):
        return self.keys[(offset * 7 + source * 3) % len(self.keys)]

    def poll(self, index):
        offset = self.offsets[index]
        self.offsets[index] += 1
        key = self.key_of(index, offset)
        self.send(f"source-{index}", f"count-{self.keys.index(key) % self.counts}", "record", key)

    def trigger(self):
        self.checkpoint += 1
        self.open[self.checkpoint] = {"acks": set(), "state": {}, "offsets": [0] * self.sources}
        self.mark("trigger", "coordinator", str(self.checkpoint))
        self.next_trigger = self.step + self.interval
        for index in range(self.sources):
            self.send("coordinator", f"source-{index}", "trigger", str(self.checkpoint))

    def barrier(self, lane, checkpoint):
        pending = self.open[checkpoint]
        if lane.startswith("source"):
            index = int(lane[7:])
            pending["offsets"][index] = self.offsets[index]
            targets = [f"count-{target}" for target in range(self.counts)]
        elif lane.startswith("count"):
            pending["state"].update(
                {k: v for k, v in self.state.items() if self.keys.index(k) % self.counts == int(lane[6:])}
            )
            targets = [f"sink-{target}" for target in range(self.sinks)]
        else:
            self.mark("prepare", lane, f"{lane}-{checkpoint}")
            targets = []
        for target in targets:
            self.send(lane, target, "barrier", str(checkpoint))
        self.send(lane, "coordinator", "acknowledge", str(checkpoint))

    def inputs(self, lane):
        if lane.startswith("count"):
            return [f"source-{index}" for index in range(self.sources)]
        return [f"count-{index}" for index in range(self.counts)]

    def receive(self, source, lane, kind, label, payload):
        if kind == "record" and lane.startswith("count"):
            self.state[label] = self.state.get(label, 0) + 1
            sink = f"sink-{self.keys.index(label) % self.sinks}"
            self.send(lane, sink, "record", f"{label}={self.state[label]}")
        elif kind == "record":
            self.mark("write", lane, label)
        elif kind == "trigger":
            self.barrier(lane, int(label))
        elif kind == "barrier":
            arrived = self.blocked.setdefault((lane, label), set())
            arrived.add(source)
            if len(arrived) == len(self.inputs(lane)):
                self.barrier(lane, int(label))
                del self.blocked[(lane, label)]
        elif kind == "acknowledge":
            acks = self.open[int(label)]["acks"]
            acks.add(source)
            if len(acks) == self.sources + self.counts + self.sinks:
                self.completed[int(label)] = self.open[int(label)]
                self.mark("complete", "coordinator", label)
                for index in range(self.sinks):
                    self.send("coordinator", f"sink-{index}", "notify", label)
        elif kind == "notify":
            self.mark("visible", lane, f"{lane}-{label}")

    def is_blocked(self, channel):
        return any(
            channel[1] == lane and channel[0] in arrived for (lane, _), arrived in self.blocked.items()
        )

    def kill(self):
        lanes = [
            lane for lane in self.lanes[1:] if not lane.startswith("count") or int(lane[6:]) < self.counts
        ]
        self.kills.append({"step": self.step, "lanes": lanes, "label": "kill"})
        for (source, target), channel in self.channels.items():
            for kind, label, _, sent in channel:
                if kind in ("notify", "acknowledge"):
                    arrow = {
                        "kind": kind,
                        "from": [source, sent],
                        "to": None,
                        "label": label,
                        "toward": target,
                    }
                    self.arrows.append(arrow | {"lost": True})
        self.attempts[-1]["to"] = self.step
        self.step += 2
        restored = max(self.completed, default=None)
        self.counts = self.rescale_to or self.counts
        self.begin(self.completed.get(restored, {"offsets": [0] * self.sources, "state": {}}), restored)
        self.mark("restored", "coordinator", "" if restored is None else str(restored))
        self.kill_at = -1

    def run(self):
        while True:
            if self.kill_at == self.step:
                self.kill()
            choices = [c for c, queue in self.channels.items() if queue and not self.is_blocked(c)]
            polls = [i for i in range(self.sources) if self.offsets[i] < self.per_source[i]]
            if self.step >= self.next_trigger and polls:
                self.trigger()
            elif choices or polls:
                pick = int(self.random.random() * (len(choices) + 0.45 * len(polls)))
                if pick < len(choices):
                    source, target = choices[pick]
                    kind, label, payload, sent = self.channels[choices[pick]].popleft()
                    arrow = {"kind": kind, "from": [source, sent], "to": [target, self.step], "label": label}
                    self.arrows.append(arrow)
                    self.receive(source, target, kind, label, payload)
                else:
                    self.poll(polls[int(self.random.random() * len(polls))])
            elif self.finishing:
                break
            else:
                self.finishing = True
                self.trigger()
            self.step += 1
        self.attempts[-1]["to"] = self.step
        return {
            "lanes": self.lanes,
            "arrows": self.arrows,
            "marks": self.marks,
            "kills": self.kills,
            "attempts": self.attempts,
            "steps": self.step,
        }


def toy_trace(**settings) -> Trace:
    return msgspec.convert(Toy(**settings).run(), Trace)


def mock_trace():
    """Return a trace in which a checkpoint's notifications are lost and the restore drops its transaction."""

    def arrow(kind, a, b, c, d, label="", lost=False):
        return {"kind": kind, "from": [a, b], "to": [c, d], "label": label, "lost": lost}

    def mark(kind, lane, step, label=""):
        return {"kind": kind, "lane": lane, "step": step, "label": label}

    lanes = ["coordinator", "source-0", "source-1", "count-0", "count-1", "sink-0", "sink-1"]
    arrows = [
        arrow("record", "source-0", 0, "count-1", 1, "k1"),
        arrow("record", "count-1", 1, "sink-1", 2, "k1=1"),
        arrow("record", "source-0", 6, "count-1", 13, "k1"),
        arrow("record", "count-1", 13, "sink-1", 14, "k1=2"),
        arrow("record", "source-0", 20, "count-1", 21, "k1"),
        arrow("record", "count-1", 21, "sink-1", 22, "k1=2"),
        arrow("notify", "coordinator", 18, "sink-0", 19, "1", True),
        arrow("notify", "coordinator", 18, "sink-1", 19, "1", True),
        arrow("notify", "coordinator", 35, "sink-0", 36, "2"),
        arrow("notify", "coordinator", 35, "sink-1", 37, "2"),
    ]
    for base, counts, sinks in ((3, ((8, 15), (7, 9)), (17, 11)), (23, ((26, 28), (27, 32)), (30, 34))):
        label = "1" if base == 3 else "2"
        for source in (0, 1):
            arrows.append(
                arrow("acknowledge", f"source-{source}", base, "coordinator", base + 1 + source, label)
            )
            for count in (0, 1):
                arrows.append(
                    arrow("barrier", f"source-{source}", base, f"count-{count}", counts[count][source])
                )
        for index in (0, 1):
            sent = max(counts[index])
            arrows.append(arrow("barrier", f"count-{index}", sent, f"sink-{index}", sinks[index], label))
            arrows.append(arrow("acknowledge", f"count-{index}", sent, "coordinator", sent + 1, label))
            arrows.append(
                arrow("acknowledge", f"sink-{index}", sinks[index], "coordinator", sinks[index] + 1)
            )
    marks = [
        mark("trigger", "coordinator", 3, "1"),
        mark("write", "sink-1", 2, "k1=1"),
        mark("write", "sink-1", 14, "k1=2"),
        mark("prepare", "sink-1", 11, "sink-1-1"),
        mark("prepare", "sink-0", 17, "sink-0-1"),
        mark("complete", "coordinator", 18, "1"),
        mark("restored", "coordinator", 20, "1"),
        mark("write", "sink-1", 22, "k1=2"),
        mark("trigger", "coordinator", 23, "2"),
        mark("prepare", "sink-0", 30),
        mark("prepare", "sink-1", 34),
        mark("complete", "coordinator", 35, "2"),
        mark("visible", "sink-1", 37, "sink-1-2"),
    ]
    return msgspec.convert(
        {
            "lanes": lanes,
            "arrows": arrows,
            "marks": marks,
            "kills": [{"step": 19, "lanes": lanes[1:], "label": "kill all at notified"}],
            "attempts": [
                {"name": "1.1", "from": 0, "to": 19, "parallelism": 2, "restored": None},
                {"name": "1.2", "from": 20, "to": 38, "parallelism": 2, "restored": 1},
            ],
            "steps": 38,
        },
        Trace,
    )
