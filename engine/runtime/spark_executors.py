"""Ends the jobs of a session to which its cluster gives no executor that lasts, with the reason.

Spark itself waits for executors forever: where the cluster has too little to give, where executors cannot
reach the driver, and where they die as soon as they start.

Rules:

- A session has *progress* while it has no job, while an executor has lasted for a quarter of the timeout, and
  when a task or a job ends. Without progress for the timeout, its jobs are cancelled with one line that names
  the reason.
- A job that is submitted later has the timeout again: the cluster may have recovered.
- The reason comes from what Spark knows: executors that were lost, the log of the driver, the state of the
  master.
- Only executors on a cluster are watched. In local mode the driver's own Java runs the tasks.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.configuration.parsing import parse_duration_ms

TIMEOUT: Final = "spark.onceproof.executorTimeout"
"""The option that sets how long a job waits for an executor that lasts."""
DEFAULT_TIMEOUT: Final = "60 s"

_MESSAGES: Final = "org.apache.spark.deploy.DeployMessages"
_SECONDS_BETWEEN_LOOKS: Final = 1.0
_LASTING_PART: Final = 0.25
_ERRORS: Final = (PySparkException, Py4JError, OSError)

# How the driver logs the end of an executor that a standalone cluster has started for it.
_STARTED: Final = "Executor added: "
_LOGS: Final = "the logs of the executors on the workers say more"
_ENDED: Final = re.compile(r"Executor updated: \S+ is now (?:EXITED|FAILED|KILLED|LOST)(?: \((.*)\))?")


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look at a session shows."""

    jobs: frozenset[int]
    """The jobs that have begun and not ended."""
    finished_tasks: int
    """Of these jobs."""
    oldest_executor_seconds: float | None
    """For how long the oldest executor has been registered; None: there is no executor."""


class Patience:
    """Decides when the jobs of a session have waited long enough for executors."""

    def __init__(self, timeout_seconds: float, now: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._progressed_at = now
        self._progress: Hashable = None

    def handle(self, sight: Sight, now: float) -> frozenset[int]:
        """Return the jobs to cancel."""
        age = sight.oldest_executor_seconds
        progress = sight.jobs, sight.finished_tasks
        is_served = age is not None and age >= self.timeout_seconds * _LASTING_PART
        if not sight.jobs or is_served or progress != self._progress:
            self._progress = progress
            self._progressed_at = now
        # One that has just come must have its chance to last.
        chance = 0.0 if age is None else self.timeout_seconds * _LASTING_PART
        if now - self._progressed_at < self.timeout_seconds + chance:
            return frozenset()
        self._progressed_at = now
        return sight.jobs


class ExecutorWatch:
    """A thread that looks at a session every second and cancels jobs that no executor serves.

    Args:
        context: the session's context.
        log: returns the log of the driver so far; "" where it is not known.

    Raises:
        ConfigurationError: the timeout is not a duration.
    """

    def __init__(self, context: SparkContext, log: Callable[[], str]) -> None:
        self._context = context
        self._log = log
        self._stopped = threading.Event()
        self.has_cancelled = False
        """Whether a job was cancelled."""
        self._patience = Patience(timeout_of(dict(context.getConf().getAll())), time.monotonic())
        self._thread = threading.Thread(target=self._run, name="onceproof executors", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join(10 * _SECONDS_BETWEEN_LOOKS)

    def _run(self) -> None:
        while not self._stopped.wait(_SECONDS_BETWEEN_LOOKS):
            # A Spark that stops at this moment ends its jobs itself.
            with suppress(*_ERRORS, AttributeError):
                doomed = self._patience.handle(_sight_of(self._context), time.monotonic())
                if doomed:
                    self._cancel(doomed)

    def _cancel(self, jobs: frozenset[int]) -> None:
        self.has_cancelled = True
        timeout = self._patience.timeout_seconds
        reason = (
            f"no executor has served the job for {timeout:g} s at {self._context.master}:"
            f" {reason_of(self._context, self._log())}; {TIMEOUT} sets the time"
        )
        for job in jobs:
            with suppress(*_ERRORS):
                self._context._jsc.sc().cancelJob(job, reason)


def timeout_of(configuration: Mapping[str, str]) -> float:
    """Return the timeout in seconds that Spark's options set. Raises ConfigurationError."""
    written = configuration.get(TIMEOUT, DEFAULT_TIMEOUT)
    try:
        return parse_duration_ms(written) / 1000
    except ValueError as error:
        raise ConfigurationError(f"option {TIMEOUT!r} cannot be {written!r}: {error}") from None


def first_task(number: int) -> int:
    """Run on an executor, in the first task of a session: its Python must have this module."""
    return number


def _sight_of(context: SparkContext) -> Sight:
    tracker = context.statusTracker()
    jobs = frozenset(tracker.getActiveJobsIds())
    if not jobs:
        return Sight(jobs, 0, None)
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    finished = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    ages = (time.time() - each.addTime().getTime() / 1000 for each in _executors(context, only_active=True))
    return Sight(jobs, finished, max(ages, default=None))


def _executors(context: SparkContext, only_active: bool) -> list[Any]:
    """Return Spark's summaries of the registered executors, without that of the driver."""
    found = context._jsc.sc().statusStore().executorList(only_active)
    summaries = [found.apply(place) for place in range(found.size())]
    return [each for each in summaries if each.id() != "driver"]


def reason_of(context: SparkContext, log: str) -> str:
    """Return why no executor serves a session, and what to do about it."""
    conf = context.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    lost = [each for each in _executors(context, only_active=False) if not each.isActive()]
    if lost:
        last = max(lost, key=lambda each: each.addTime().getTime())
        said = last.removeReason()
        return (
            f"{_counted(len(lost), 'executor')} registered and died, the last one at {last.hostPort()}:"
            f" {_one(said.get()) if said.isDefined() else 'the reason is unknown'}; {_LOGS}"
        )
    started = log.count(_STARTED)
    if started:
        ended = _ENDED.findall(log)
        last_end = (
            f"; {len(ended)} have ended ({_one(ended[-1]) or 'the reason is unknown'})" if ended else ""
        )
        return (
            f"{_counted(started, 'executor')} started, and none registered with the driver at {driver}"
            f"{last_end}: if the workers cannot reach this address, set another with --conf"
            f" spark.driver.host; {_LOGS}"
        )
    asked = f"{conf.get('spark.executor.memory', '1g')} of memory"
    cores = conf.get("spark.executor.cores")
    asked = f"{cores} cores and {asked}" if cores else asked
    master = context.master or ""
    known = None
    if master.startswith("spark://"):
        with suppress(*_ERRORS, TypeError):
            known = _master_state(context, master)
    offered = f"{known}, and an executor asks for {asked}" if known else f"an executor asks for {asked}"
    return (
        f"{offered}: add workers, end other applications, or ask for less with --conf spark.executor.memory"
        " and spark.executor.cores"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one(text: str) -> str:
    return " ".join(text.split())


def _master_state(context: SparkContext, master: str) -> str:
    """Ask a standalone master for its workers, as its own page does."""
    spark = context._jsc.sc()
    jvm: Any = context._jvm
    packages = jvm.org.apache.spark
    secret = _singleton(jvm, "org.apache.spark.internal.config.package").AUTH_SECRET_FILE()
    security = packages.SecurityManager(spark.conf(), _singleton(jvm, "scala.None"), secret)
    host = context.getConf().get("spark.driver.host")
    rpc = packages.rpc.RpcEnv.create("onceproof", host, host, 0, spark.conf(), security, 0, True)
    try:
        answer = jvm.java.lang.Class.forName(f"{_MESSAGES}$MasterStateResponse")
        tag = _singleton(jvm, "scala.reflect.ClassTag").apply(answer)
        request = _singleton(jvm, f"{_MESSAGES}$RequestMasterState")
        for address in master.removeprefix("spark://").split(","):
            name, _, port = address.rpartition(":")
            reference = rpc.setupEndpointRef(packages.rpc.RpcAddress(name, int(port)), "Master")
            state = reference.askSync(request, tag)
            if state.status().toString() == "ALIVE":
                return _workers_text(state)
        return "none of the masters is active"
    finally:
        rpc.shutdown()


def _singleton(jvm: Any, name: str) -> Any:
    """Return a singleton object of Scala."""
    holder = jvm
    for part in f"{name}$".split("."):
        holder = getattr(holder, part)
    return holder.__getattr__("MODULE$")


def _workers_text(state: Any) -> str:
    alive = [worker for worker in state.workers() if worker.state().toString() == "ALIVE"]
    if not alive:
        return "the master has no worker"
    cores = sum(worker.cores() for worker in alive)
    largest = max(worker.memory() for worker in alive)
    others = len(state.activeApps()) - 1
    also = f" and runs {_counted(others, 'other application')}" if others > 0 else ""
    return (
        f"the master has {_counted(len(alive), 'worker')} with {_counted(cores, 'core')} in all and up to"
        f" {largest} MB of memory each{also}"
    )
