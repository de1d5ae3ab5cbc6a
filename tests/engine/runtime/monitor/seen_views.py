"""The views that a monitored job publishes, for tests of any runtime."""

from __future__ import annotations

from onceproof.engine.runtime.monitor.log_reporter import LogReporter


class Seen:
    """The views of a job, instead of lines of the log."""

    def __init__(self, monkeypatch):
        self.views = []
        monkeypatch.setattr(LogReporter, "take", lambda _, view: self.views.append(view))

    @property
    def last(self):
        return self.views[-1]

    def totals(self, field):
        """Return the sum of a count over the subtasks, by the name of the vertex."""
        last = self.last
        sums = {}
        for each in last.subtasks:
            name = last.vertices[each.vertex].name
            sums[name] = sums.get(name, 0) + getattr(each, field)
        return sums

    def of(self, vertex, field):
        """Return a count of each subtask of a vertex, in the last view."""
        return [getattr(each, field) for each in self.last.subtasks if each.vertex == vertex]
