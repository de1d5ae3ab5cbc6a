"""All channels of one worker: those that lead out of it, and those that lead into it."""

from __future__ import annotations

from collections.abc import Mapping

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.runtime.task_turns import Schedule
from onceproof.engine.runtime.workers.channels import IncomingChannel, OutgoingChannel
from onceproof.engine.runtime.workers.link import ELEMENT, Link
from onceproof.engine.runtime.workers.subtasks import Subtasks


class WorkerChannels:
    """Moves elements between the queues of the tasks and the connections to other workers."""

    def __init__(self, settings: CheckpointSettings, peers: Mapping[int, Link], schedule: Schedule) -> None:
        self._window = settings.buffer_records * settings.channel_buffers
        self._begins_slow = settings.buffer_timeout_ms == 0
        self._peers = peers
        self._schedule = schedule
        self._outgoing: dict[int, OutgoingChannel] = {}
        self._incoming: dict[int, IncomingChannel] = {}

    def connect(self, built: Subtasks) -> None:
        """Connect the channels of the tasks of an attempt, and arrange their turns."""
        schedule, tasks, window = self._schedule, built.tasks, self._window
        schedule.change()
        for leaving in built.leaving:
            channel = self._outgoing[leaving.number] = OutgoingChannel(
                leaving.number,
                leaving.queue,
                self._peers[leaving.worker],
                window,
                is_slow=self._begins_slow,
                counters=tasks[leaving.sender].counters,
            )
            schedule.read_elsewhere(leaving.queue, channel)
        schedule.round(tasks)
        for arriving in built.arriving:
            self._incoming[arriving.number] = IncomingChannel(
                arriving.number,
                arriving.queue,
                self._peers[arriving.worker],
                window,
                schedule.pace_of(arriving.reader),
                tasks[arriving.reader].counters,
            )

    def receive(self) -> bool:
        """Take what has arrived from other workers; return whether there was something."""
        progress = False
        for peer in self._peers.values():
            for kind, number, content in peer.receive():
                if kind == ELEMENT:
                    self._incoming[number].take(content)
                else:
                    self._outgoing[number].credit(content)
                progress = True
        return progress

    def transfer(self) -> None:
        """Write what the tasks have sent and what they have processed."""
        for outgoing in self._outgoing.values():
            if outgoing.queue:
                outgoing.transfer()
        for incoming in self._incoming.values():
            incoming.report()
