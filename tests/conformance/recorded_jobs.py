"""Jobs that ran on Flink: their source, and the rows of each of their streams.

Rules of the comparison:

- A stream that the recording does not name had no rows.
- Rows of equal key come in the recorded order, the keys in any mixture. The key is the first field of a row,
  or the row itself where it has no fields. Where the job's ``out`` has wrapped a row, with its timestamp, the
  key is the first field of the text inside.
- Flink promises no order, so that only the rows themselves are compared, where the text of the job

  - gives an operator more than one subtask,
  - unites or connects two streams,
  - waits for asynchronous results in any order,
  - has session windows, which merge, or
  - has a trigger whose timers may be equal in two windows: one of its own, or a continuous one.

- The timestamp that ``out`` appends does not count where PyFlink's is its own: side outputs have none there,
  and results of windows that a record or a timer of a trigger may fire have that one's.

What is compared, and how, follows from the text of a job alone, so that any file of such jobs can be run.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from onceproof.engine import (
    Configuration,
    StreamExecutionEnvironment,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from onceproof.engine.elements import Record
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.windows.triggers import TriggerResult
from onceproof.harness.scripts.pyflink_imports import pyflink_imports

UNITING: Final = frozenset({"union", "connect", "join", "co_group", "interval_join"})
"""Methods behind which the order of two streams is chance."""
FIRED_AT_ANY_TIME: Final = frozenset(
    {"count_window", "count_window_all", "trigger", "allowed_lateness", "GlobalWindows"}
)
"""Names that a job uses whose windows may fire at another time than their end."""
SIDE_OUTPUT: Final = "get_side_output"
UNORDERED_NAMES: Final = re.compile(r"\.unordered_wait|Session\w*Windows|Continuous\w*Trigger")
OWN_TRIGGER: Final = "Trigger"
"""The base class of a trigger of the job's own."""
WRAPPED_FIELDS: Final = 2
"""Fields of a row that ``out`` has wrapped: its text and its timestamp."""

Texts: TypeAlias = list[str]


@dataclass(frozen=True)
class RecordedJob:
    """A job and what Flink made of it.

    Args:
        id: names the job; what stands before the first ``-`` is its kind.
        source: a program with ``job(env)``, which returns streams by name.
        options: the configuration.
        flink: the texts of the rows of each stream.
        plain: the source of the function that gives a row its form.
    """

    id: str
    source: str
    options: Mapping[str, str]
    flink: Mapping[str, Texts]
    plain: str

    @property
    def kind(self) -> str:
        """What the job is about."""
        return self.id.partition("-")[0]

    @cached_property
    def _tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def has_own_trigger(self) -> bool:
        """Whether the job defines a trigger."""
        return any(
            isinstance(base, ast.Name) and base.id == OWN_TRIGGER
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        )

    @cached_property
    def _body(self) -> ast.FunctionDef:
        """The function that builds the job."""
        return next(
            node for node in self._tree.body if isinstance(node, ast.FunctionDef) and node.name == "job"
        )

    @cached_property
    def is_ordered(self) -> bool:
        """Whether Flink promises the order of the rows of a key."""
        calls = [node for node in ast.walk(self._body) if isinstance(node, ast.Call)]
        return not (
            self.has_own_trigger
            or UNORDERED_NAMES.search(ast.unparse(self._body))
            or _names(self._body) & UNITING
            or any(_parallelism_of(call) > 1 for call in calls)
            or int(self.options.get("parallelism.default", 1)) > 1
        )

    @cached_property
    def _side_outputs(self) -> frozenset[str]:
        """The names of streams that are side outputs: ``d["late"] = out(m.get_side_output(LATE))``."""
        named: list[tuple[ast.expr | None, ast.expr]] = []
        for node in ast.walk(self._body):
            match node:
                case ast.Assign(targets=[ast.Subscript(slice=key)]):
                    named.append((key, node.value))
                case ast.Dict():
                    named += zip(node.keys, node.values, strict=True)
        return frozenset(
            str(key.value)
            for key, stream in named
            if isinstance(key, ast.Constant) and SIDE_OUTPUT in _names(stream)
        )

    def run(self) -> dict[str, Texts]:
        """Run each stream on the engine, in an environment of its own, and return the texts of its rows."""
        with pyflink_imports():
            names: dict[str, Any] = {"__name__": f"job {self.id}", "wm": watermarks, "FLINK": False}
            exec(self.plain, names)
            plain = names["plain"]
            exec(compile(self.source, self.id, "exec"), names)
            build = names["job"]
            return {name: self._rows(build, name, plain) for name in build(self._environment())}

    def _environment(self) -> StreamExecutionEnvironment:
        return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(self.options))

    def _rows(
        self, build: Callable[[Any], Mapping[str, Any]], name: str, plain: Callable[[Any], Any]
    ) -> Texts:
        with build(self._environment())[name].execute_and_collect() as rows:
            return [repr(plain(row)) for row in rows]

    def differences(self, rows: Mapping[str, Texts]) -> dict[str, tuple[Any, Any]]:
        """Return what differs in each stream: the rows of the engine and those of Flink."""
        forms = {
            name: (self.comparable(name, rows.get(name, [])), self.comparable(name, self.flink.get(name, [])))
            for name in sorted(rows.keys() | self.flink.keys())
        }
        return {name: (ours, flinks) for name, (ours, flinks) in forms.items() if ours != flinks}

    def comparable(self, stream: str, rows: Iterable[str]) -> Any:
        """Return the rows of a stream in the form in which those of the engine and of Flink are equal."""
        names = _names(self._body)
        is_own_time = stream in self._side_outputs or names & FIRED_AT_ANY_TIME
        has_times = "out" not in names or not is_own_time
        read = [_read(row, has_times=has_times) for row in rows]
        if not self.is_ordered:
            return sorted(text for _, text in read)
        by_key: defaultdict[str, Texts] = defaultdict(list)
        for key, text in read:
            by_key[key].append(text)
        return dict(by_key)


def _read(text: str, *, has_times: bool) -> tuple[str, str]:
    """Return the key of a row, and the part of its text that counts."""
    row = _literal(text)
    if not isinstance(row, list | tuple) or not row:
        return text, text
    inner = _literal(row[0])
    if len(row) == WRAPPED_FIELDS and isinstance(row[0], str) and _is_timestamp(row[1]):
        key = inner[0] if isinstance(inner, tuple) and inner else inner
        return repr(_literal(key)), text if has_times else row[0]
    return repr(inner), text


def _names(tree: ast.AST) -> set[str]:
    """Return the names and attributes that a part of a program uses."""
    nodes = list(ast.walk(tree))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


def _parallelism_of(call: ast.Call) -> int:
    """Return what a call sets: 2 for ``set_parallelism(2)``, or for the job's own ``par(env, stream, 2)``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    match name, call.args:
        case (("set_parallelism" | "par"), [*_, ast.Constant(value=int(parallelism))]):
            return parallelism
    return 1


def _literal(text: object) -> object:
    """Read a text as the value that it stands for, or leave it."""
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError):
        return text


def _is_timestamp(text: object) -> bool:
    return isinstance(text, str) and (text == "None" or isinstance(_literal(text), int))


OVERFLOW: Final = re.compile(r": (-?\d+) \(int\) is no \w+: it holds (-?\d+) to (\d+)")
SILENT_OVERFLOW: Final = "A whole number that outgrows its declared type is an error"


def departure(job: RecordedJob, error: str) -> str | None:
    """Return the sentence of engine/docs/flink.md why a job fails that ran on Flink; None: there is none.

    The only reason is an overflow, and only if one of Flink's rows has the number, or what it wraps to.
    """
    found = OVERFLOW.search(error)
    if found is None:
        return None
    number, lowest, highest = map(int, found.groups())
    wrapped = (number - lowest) % (highest - lowest + 1) + lowest
    texts = [text for rows in job.flink.values() for text in rows]
    has_overflowed = re.compile(rf"(?<![\d-])({number}|{wrapped})(?!\d)").search
    return SILENT_OVERFLOW if any(map(has_overflowed, texts)) else None


WINDOW_TIMES: Final = "Results of a window carry its last timestamp"
"""The sentence for jobs whose rows follow from PyFlink's timestamps, by windows over results of windows."""


@contextmanager
def window_times_of_pyflink() -> Iterator[None]:
    """Give results of windows the timestamp of the record or timer that fires them, as PyFlink does."""
    add_to, fire, act = WindowOperator._add_to, WindowOperator.fire, WindowOperator._act
    cause: list[int | None] = [None]

    def adding(self: Any, *arguments: Any) -> None:
        cause[0] = arguments[4]
        add_to(self, *arguments)

    def firing(self: Any, timer: tuple[int, Any], *arguments: Any) -> None:
        cause[0] = timer[0]
        fire(self, timer, *arguments)

    def acting(self: Any, result: TriggerResult, window: Any, results: list[Record]) -> None:
        before = len(results)
        act(self, result, window, results)
        results[before:] = [(value, cause[0]) for value, _ in results[before:]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowOperator, "_add_to", adding)
        patch.setattr(WindowOperator, "fire", firing)
        patch.setattr(WindowOperator, "_act", acting)
        yield


class CountingWatermarks(WatermarkGenerator):
    """Emits a watermark at each ``every``-th record: the highest timestamp - ``delay`` - 1."""

    def __init__(self, delay: int, every: int) -> None:
        self._delay = delay
        self._every = every
        self._records = 0
        self._highest: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Count the record."""
        self._highest = event_timestamp if self._highest is None else max(self._highest, event_timestamp)
        self._records += 1
        if self._records % self._every == 0:
            output.emit_watermark(Watermark(self._highest - self._delay - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing."""


def watermarks(delay: int, every: int) -> WatermarkStrategy:
    """Make the strategy that jobs know as ``wm``."""
    return WatermarkStrategy.for_generator(lambda context: CountingWatermarks(delay, every))


def read_jobs(path: Path) -> list[RecordedJob]:
    """Read a file of jobs.

    Raises:
        OSError: the file cannot be read.
        ValueError, KeyError, TypeError: it is not a file of jobs.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    plain = content["meta"]["plain"]
    return [
        RecordedJob(
            job["id"],
            job["source"],
            {name: str(value) for name, value in job["options"].items()},
            {
                name: [text if isinstance(text, str) else repr(text) for text in rows]
                for name, rows in job["flink"].items()
            },
            plain,
        )
        for job in content["jobs"]
    ]
