"""Patterns on streams (Flink: CEP, PatternStream)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.api.datastream import DataStream, KeyedStream, upstreams_of
from onceproof.engine.cep.automaton import Match
from onceproof.engine.cep.compiler import Compiler
from onceproof.engine.cep.pattern import Pattern
from onceproof.engine.cep.pattern_functions import (
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from onceproof.engine.cep.pattern_operator import CepOperator, EventComparator, PatternSettings
from onceproof.engine.graph import InvalidJob
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation

_ONLY_KEY: Final = 0


class CEP:
    """The way in (Flink: CEP)."""

    @staticmethod
    def pattern(
        input_stream: DataStream, pattern: Pattern, comparator: EventComparator | None = None
    ) -> PatternStream:
        """Look for a pattern in a stream: by key in a keyed one, else in one subtask over all events.

        Args:
            input_stream: the events; in event time, with timestamps and watermarks.
            pattern: the last pattern of the chain.
            comparator: orders events of the same time; None: they come by arrival.

        Raises:
            MalformedPatternException: the pattern is refused.
            InvalidJob: an argument is none.
        """
        if not isinstance(input_stream, DataStream):
            raise InvalidJob(f"CEP.pattern takes a DataStream, not {input_stream!r}")
        if not isinstance(pattern, Pattern):
            raise InvalidJob(f"CEP.pattern takes a Pattern, not {pattern!r}")
        Compiler(pattern)
        try:
            own = copy.deepcopy(pattern)
        except Exception as error:
            raise InvalidJob(
                f"the conditions of a pattern cannot be copied for a subtask ({error}): they must hold no"
                " files, locks and connections"
            ) from error
        return PatternStream(
            input_stream, PatternSettings(own, comparator, event_type=input_stream.get_type())
        )


class PatternStream:
    """A stream in which a pattern is looked for (Flink: PatternStream)."""

    def __init__(self, stream: DataStream, settings: PatternSettings) -> None:
        self._stream, self._settings = stream, settings

    def in_processing_time(self) -> PatternStream:
        """Take events as they come, at the time of the wall clock."""
        return PatternStream(self._stream, replace(self._settings, is_event_time=False))

    def in_event_time(self) -> PatternStream:
        """Take events by their timestamps, behind the watermark; the default."""
        return PatternStream(self._stream, replace(self._settings, is_event_time=True))

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Emit events that come behind the watermark to a side output instead of dropping them."""
        if not isinstance(late_data_output_tag, OutputTag):
            raise InvalidJob(f"the late events of a pattern go to an OutputTag, not {late_data_output_tag!r}")
        return PatternStream(self._stream, replace(self._settings, late_tag=late_data_output_tag))

    def process(self, func: PatternProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit any number of values for each match."""
        if not isinstance(func, PatternProcessFunction):
            raise InvalidJob(f"process of a pattern takes a PatternProcessFunction, not {func!r}")
        stream = self._stream
        if isinstance(stream, KeyedStream):
            return self._matched(stream, "CepOperator", func, output_type)
        single = stream.key_by(_the_only_key, Types.BYTE())
        return self._matched(single, "GlobalCepOperator", func, output_type).force_non_parallel()

    def _matched(
        self,
        stream: KeyedStream,
        name: str,
        func: PatternProcessFunction,
        output_type: TypeInformation | None,
    ) -> DataStream:
        partitioner = upstreams_of(stream)[0].partitioner
        assert partitioner is not None, "a keyed stream has the partitioner of its key"
        key = partitioner.key_selector, partitioner.key_type
        return stream.transform(name, output_type, OperatorFactory(CepOperator, func, self._settings, *key))

    def select(
        self,
        func: Callable[[Match], Any],
        output_type: TypeInformation | None = None,
        *,
        timed_out_tag: OutputTag | None = None,
        timeout_func: Callable[[Match, int], Any] | None = None,
    ) -> DataStream:
        """Emit one value for each match.

        Args:
            func: makes the value of the match's events by the names of their patterns.
            output_type: the type of the values.
            timed_out_tag: the side output of matches that run out of time.
            timeout_func: makes a value of such a match and of when it timed out.
        """
        make = None if timeout_func is None else _single(timeout_func)
        return self.flat_select(_single(func), output_type, timed_out_tag=timed_out_tag, timeout_func=make)

    def flat_select(
        self,
        func: Callable[[Match], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
        *,
        timed_out_tag: OutputTag | None = None,
        timeout_func: Callable[[Match, int], Iterable[Any] | None] | None = None,
    ) -> DataStream:
        """Emit any number of values for each match; the arguments are those of ``select``."""
        if not callable(func):
            raise InvalidJob(f"flat_select takes a function, not {func!r}")
        if (timed_out_tag is None) is not (timeout_func is None):
            raise InvalidJob("matches that time out need both, timed_out_tag and timeout_func")
        if timed_out_tag is None or timeout_func is None:
            return self.process(_Selecting(func), output_type)
        return self.process(_SelectingBoth(func, timed_out_tag, timeout_func), output_type)


def _the_only_key(value: Any) -> int:
    return _ONLY_KEY


def _single(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    if not callable(function):
        raise InvalidJob(f"select takes a function, not {function!r}")
    return lambda *arguments: [function(*arguments)]


class _Selecting(PatternProcessFunction):
    """A function of matches as a PatternProcessFunction."""

    def __init__(self, func: Callable[[Match], Iterable[Any] | None]) -> None:
        self._func = func

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        return self._func(match)


class _SelectingBoth(_Selecting, TimedOutPartialMatchHandler):
    """The same with a function of matches that time out."""

    def __init__(
        self,
        func: Callable[[Match], Iterable[Any] | None],
        tag: OutputTag,
        timeout_func: Callable[[Match, int], Iterable[Any] | None],
    ) -> None:
        super().__init__(func)
        self._tag, self._timeout_func = tag, timeout_func

    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        return [(self._tag, each) for each in self._timeout_func(match, ctx.timestamp()) or ()]
