"""The progress bar of the commands that run scenarios; on stderr, and only where that is a terminal.

It says how many scenarios have ended, what one costs, how long the run has gone on, and how long it has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from onceproof.harness.trials.tally import Tally
from onceproof.reports.text import duration


class TimeLeft(ProgressColumn):
    """How long a run has left at the speed that it has had, such as `about 40 s left`."""

    # Drawn once a second: a number that changes with each scenario cannot be read.
    max_refresh = 1.0

    def render(self, task: Task) -> Text:
        """Return the text; none before the first scenario, at the end, and where the total is unknown."""
        if not task.total or not task.completed or task.finished or not task.elapsed:
            return Text("")
        seconds = task.elapsed * (task.total - task.completed) / task.completed
        return Text(f"about {duration(float(max(1, round(seconds))))} left")


class Bar:
    """A progress bar on stderr, counted in scenarios or in seconds."""

    def __init__(self, progress: Progress, console: Console, by_time: bool) -> None:
        self._progress = progress
        self._console = console
        self._task = progress.add_task("running", total=None)
        self._by_time = by_time

    def begin(self, total: float | None) -> None:
        """Set the total, in scenarios or in seconds; None if it is unknown."""
        self._progress.update(self._task, total=total)

    def show(self, tally: Tally) -> None:
        """Show the progress of a run."""
        self.show_counts(tally.scenarios, tally.failed, tally.seconds_of_scenarios)

    def show_counts(self, scenarios: int, failed: int, seconds_of_scenarios: float = 0.0) -> None:
        """Show the numbers of finished and of failed scenarios, and what one costs on one worker.

        ``seconds_of_scenarios`` is the run time of all scenarios, summed over the workers; 0: not measured.
        """
        done = self._progress.tasks[0].elapsed or 0.0 if self._by_time else scenarios
        text = f"{scenarios:,} scenarios{f', {failed:,} failed' if failed else ''}"
        if scenarios and seconds_of_scenarios:
            text += f", {duration(seconds_of_scenarios / scenarios)} each"
        self._progress.update(self._task, completed=done, description=text)

    def advance(self, completed: float, text: str) -> None:
        """Show a text and ``completed`` of the total, in a unit other than scenarios or seconds."""
        self._progress.update(self._task, completed=completed, description=text)

    def describe(self, text: str) -> None:
        """Show what the program does now."""
        self._progress.update(self._task, description=text)

    def warn(self, text: str) -> None:
        """Print a warning above the bar."""
        self._console.print(f"onceproof: {text}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(scenarios: int | None, max_time: float | None) -> Iterator[Bar]:
    """Draw a progress bar on stderr if that is a terminal; count seconds if ``scenarios`` is None."""
    console = Console(stderr=True)
    by_time = scenarios is None
    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft()]
    if not by_time:
        columns.insert(2, MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = Bar(progress, console, by_time)
        bar.begin(max_time if by_time else scenarios)
        yield bar
