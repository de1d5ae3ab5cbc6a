"""What `run` and `check` say of a script: its ends, what its sinks promise, and what its records determine.

Rules:

- A sink promises what its class says: rows once, by two-phase commit or a log; one row for each key; or at
  least once. The computed results are judged in any case, through an exactly-once sink in its place.
- Where the order of arrival decides rows, the first operator is named whose output depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.connectors.print import PrintSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink
from onceproof.engine.graph import StreamNode
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.scripts.calm_runs import Determined, rows_of
from onceproof.harness.scripts.ends import ScriptSink
from onceproof.harness.scripts.records import Pool
from onceproof.reports.text import counted

_ONCE: Final = "writes each row once"
_BY_KEY: Final = "keeps the last row of each key"


def keeps_transactions(sink: Any) -> bool:
    """Return whether a sink has state: rows that are written, or to be written, and not committed."""
    function = sink.create_function() if isinstance(sink, Sink) else sink
    is_two_phase = isinstance(function, TwoPhaseCommitSinkFunction | GenericWriteAheadSink)
    return is_two_phase or (isinstance(sink, Sink) and sink.has_committer)


def promise_of(sink: Any) -> str:
    """Return what a sink promises, as the end of a sentence."""
    function = sink.create_function() if isinstance(sink, Sink) else sink
    if isinstance(function, PrintSinkFunction):
        return "prints, and may print a row again after a failure"
    if keeps_transactions(sink):
        return _ONCE
    if isinstance(function, UpsertSinkFunction):
        return _BY_KEY
    return "writes at least once, so that rows may come again after a failure"


def promises_once(sink: Any) -> bool:
    """Return whether a sink promises each row once, or one for each key."""
    return promise_of(sink) in (_ONCE, _BY_KEY)


def end_notes(pools: Mapping[str, Pool], sinks: Sequence[ScriptSink]) -> Iterator[str]:
    """Yield one sentence for each source, and for each of some sinks."""
    for name, pool in pools.items():
        real = ", read by the program's own source" if pool.own_splits else ""
        yield f"source {name}: {counted(len(pool.records), 'record')} {pool.origin}{real}"
    for sink in sinks:
        if sink.what is None:
            yield f"{sink.name}: nothing reads its output, which is judged as if a sink did"
        else:
            yield f"sink {sink.name}: {promise_of(sink.what)}; the rows that reach it are judged in any case"


def order_note(
    operators: Sequence[StreamNode],
    scenarios: Sequence[Scenario],
    tapped: Callable[[int], Any],
    depends_on: str,
    judged: str,
) -> str:
    """Return the sentence about the first operator whose output the records do not determine.

    Args:
        operators: those of the job.
        scenarios: those without faults; the calm one comes first.
        tapped: returns the family that writes the output of the operator with a number.
        depends_on: what the output depends on.
        judged: what follows for the verdict.
    """
    for node in operators:
        family = tapped(node.number)
        calm, *others = [run for each in scenarios if (run := rows_of(family, each)) is not None]
        for other in others:
            if other != calm:
                sides = (calm - other, other - calm)
                here, there = [next(iter(sorted(map(repr, each))), "none") for each in sides]
                return (
                    f"the output of {node.name!r} depends on {depends_on}, without any fault: {here} in one"
                    f" run, {there} in another; {judged}"
                )
    return f"its rows differ between runs without faults; {judged}"


def judged_by(determined: Determined) -> str:
    """Return how rows are judged, as the end of a sentence."""
    if not determined.is_judged:
        return "rows are not judged"
    columns = determined.columns
    if columns:
        return f"rows are judged by {counted(len(columns), 'column')}: {', '.join(map(str, columns))}"
    return "only the number of rows is judged"
