"""A wall clock that jumps: waiting goes on as before, and only processing time follows."""

import pytest

from onceproof.engine import KeyedProcessFunction, Types
from onceproof.engine.checkpoint.failure_counter import EXPIRED
from onceproof.engine.job.events import RestartDue
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.recovery import recover

HOUR_MS = 3_600_000
STEP_MS = 20
EPOCH_MS = 1_000_000_000_000


class SteppingClocks(Clocks):
    """The steady clock advances at every look; the wall clock jumps when the test says so."""

    def __init__(self):
        self.now = 0
        self.ahead = EPOCH_MS

    def steady_ms(self):
        self.now += STEP_MS
        return self.now

    def wall_ms(self):
        return self.now + self.ahead


class InlineWriter:
    """Does all work at once, so that the run takes the same steps on every machine."""

    def __init__(self, writer):
        self.writer = writer

    def submit(self, work):
        self.writer.report(work.run())

    def withdraw(self, is_void):
        return []

    def close(self):
        pass


class Run(LocalExecution):
    """A run that notes when checkpoints complete and attempts begin.

    It calls ``action`` once, when the checkpoint ``at`` has completed and the tasks run on.
    """

    def __init__(self, graph, action, at=3):
        storage = open_job_storage(graph)
        self.clocks = SteppingClocks()
        self.completions = []
        self.aborts = []
        self.begun = []
        self.failed = []
        self.action = action
        self.at = at
        super().__init__(
            graph, storage, recover(storage, graph.settings.num_retained), self.act, clocks=self.clocks
        )

    def make_writer(self, report):
        return InlineWriter(super().make_writer(report))

    def act(self, point, task, checkpoint_id):
        if point == ELEMENT and len(self.completions) >= self.at and self.action is not None:
            action, self.action = self.action, None
            action(self)

    def checkpoint_completed(self, effect):
        super().checkpoint_completed(effect)
        self.completions.append(self.now())

    def checkpoint_aborted(self, effect):
        super().checkpoint_aborted(effect)
        self.aborts.append(effect.reason)

    def attempt_started(self, effect):
        super().attempt_started(effect)
        self.begun.append(self.now())

    def task_died(self, task, error):
        super().task_died(task, error)
        self.failed.append(self.now())


def run_words(job, action=None, **options):
    """Run the word count with an action after its third checkpoint."""
    options = {
        "execution__checkpointing__dir": None,
        "execution__checkpointing__interval": "20 ms",
        "execution__checkpointing__timeout": "30 min",
        "restart_strategy__fixed_delay__delay": "200 ms",
        "execution__checkpointing__interval_records": None,
        "pipeline__buffer_records": 1,
        **options,
    }
    run = Run(job.graph(1, **options), action)
    run.run()
    assert job.rows() == job.counts
    return run


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_checkpoints_keep_their_interval_when_the_clock_jumps(job, new_job, tmp_path, jump_ms):
    def jump(run):
        run.clocks.ahead += jump_ms

    jumped = run_words(job, jump)
    steady = run_words(new_job(tmp_path / "steady"))
    assert EXPIRED not in jumped.aborts
    assert len(jumped.completions) > 6
    assert len(steady.completions) > 6


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_restart_comes_in_time_when_the_clock_jumps(job, jump_ms):
    def fail(run):
        raise RuntimeError("boom")

    class Jumping(Run):
        def start_timer(self, effect):
            super().start_timer(effect)
            if isinstance(effect.event, RestartDue):
                self.clocks.ahead += jump_ms

    run = Jumping(job.graph(1, restart_strategy__fixed_delay__delay="200 ms"), fail, at=1)
    run.run()
    assert job.rows() == job.counts
    assert 200 <= run.begun[1] - run.failed[0] <= 200 + 10 * STEP_MS


def test_checkpoint_timestamps_are_those_of_the_wall_clock(job):
    def jump(run):
        run.clocks.ahead += HOUR_MS

    class Stamped(Run):
        stamps = ()

        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            stamp = self.master.coordinator.store.latest.timestamp
            self.stamps = (*self.stamps, stamp - self.now())

    run = Stamped(job.graph(1), jump)
    run.run()
    behind = [round((stamp - EPOCH_MS) / HOUR_MS, 2) for stamp in run.stamps]
    assert set(behind) == {0.0, 1.0}


class Alarm(KeyedProcessFunction):
    """Sets an alarm for an hour later at each record, and says by how much it rings late."""

    def process_element(self, value, ctx):
        time = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(time + HOUR_MS)
        return ()

    def on_timer(self, timestamp, ctx):
        yield ctx.timer_service().current_processing_time() - timestamp


@pytest.mark.parametrize("jump_ms", [0, HOUR_MS, -HOUR_MS])
def test_timers_of_users_follow_the_wall_clock(job, jump_ms):
    def jump(run):
        run.clocks.ahead += jump_ms

    env = job.environment()
    stream = env.from_source(job.source, None, "words")
    keyed = stream.key_by(lambda value: value[0], Types.STRING())
    job.into_files(keyed.process(Alarm()).name("alarm"))
    Run(env.get_job_graph("alarms"), jump).run()
    late = [int(row) for row in job.rows()]
    assert bool(late) == (jump_ms > 0)
    assert all(0 <= each < HOUR_MS for each in late)
