"""How a job has run since its process began, as the curves of its page show it.

Rules:

- Memory is bounded, whatever the age of the job: when there are MOST_POINTS, every second one is dropped, and
  from then on points are twice as far apart. So a curve always covers the whole life of the process.
- Samples are taken from the views that arrive anyway and cost the job nothing.
- Threads that answer requests read tuples that are replaced as a whole.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from onceproof.engine.runtime.monitor.job_view import JobView, VertexView
from onceproof.engine.runtime.monitor.task_readings import Rates

MOST_POINTS: Final = 240


class Sample(Struct, frozen=True):
    """What a job showed at one moment."""

    seen_ms: int
    records_per_second: float
    """Read by all sources together."""
    watermarks: tuple[int | None, ...]
    """Of each vertex; None: it has none yet, or its input has ended."""


class TakenCheckpoint(Struct, frozen=True):
    """A checkpoint that was completed."""

    checkpoint_id: int
    triggered_ms: int
    duration_ms: int
    state_bytes: int


class JobHistory:
    """The samples and the completed checkpoints of a job, the oldest first."""

    def __init__(self) -> None:
        self.samples: tuple[Sample, ...] = ()
        self.checkpoints: tuple[TakenCheckpoint, ...] = ()
        self._pause_ms = 0
        self._checkpoint_step = 1

    def take(self, view: JobView, rates: Rates) -> None:
        """Take the next view, with its rates."""
        if not self.samples or view.now_ms >= self.samples[-1].seen_ms + max(1, self._pause_ms):
            self.samples = (*self.samples, _sample(view, rates))
            if len(self.samples) > MOST_POINTS:
                self.samples = self.samples[::2]
                self._pause_ms = (self.samples[-1].seen_ms - self.samples[0].seen_ms) // len(self.samples)
        last = self.checkpoints[-1].checkpoint_id if self.checkpoints else 0
        for each in sorted(view.checkpoints.history, key=lambda checkpoint: checkpoint.checkpoint_id):
            if each.status == "COMPLETED" and each.checkpoint_id >= last + self._checkpoint_step:
                last = each.checkpoint_id
                taken = TakenCheckpoint(last, each.triggered_ms, each.duration_ms, each.state_bytes)
                self.checkpoints = (*self.checkpoints, taken)
        if len(self.checkpoints) > MOST_POINTS:
            self.checkpoints = self.checkpoints[::2]
            self._checkpoint_step *= 2


def _sample(view: JobView, rates: Rates) -> Sample:
    sources = {vertex.index for vertex in view.vertices if not vertex.inputs}
    return Sample(
        view.now_ms,
        round(sum([rates.of(each).records_in for each in view.subtasks if each.vertex in sources]), 1),
        tuple([watermark_of(view, vertex) for vertex in view.vertices]),
    )


def watermark_of(view: JobView, vertex: VertexView) -> int | None:
    """Return the event time of a vertex: of its subtask that is furthest behind."""
    found = [
        each.input_watermark if each.output_watermark is None else each.output_watermark
        for each in view.subtasks
        if each.vertex == vertex.index
    ]
    return min([each for each in found if each is not None], default=None)
