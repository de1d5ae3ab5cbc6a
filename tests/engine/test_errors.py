"""What a failure says of the user's code."""

from __future__ import annotations

import json

import pytest

from onceproof.engine import Configuration, MapFunction, StreamExecutionEnvironment
from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.errors import user_line
from onceproof.engine.runtime.job_result import JobExecutionFailed


class Parse(MapFunction):
    def map(self, value):
        return json.loads(value)


PARSE_LINE = Parse.map.__code__.co_firstlineno + 1


def test_error_in_a_library_is_named_with_the_line_that_called_it():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["{}", "{"]).map(Parse()).print()
    with pytest.raises(
        JobExecutionFailed, match=rf"JSONDecodeError: .* \(test_errors\.py, line {PARSE_LINE}\)$"
    ):
        env.execute("parsed")


def test_error_of_the_engine_alone_has_no_line():
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_mapping({"parallelism.default": "x"})
    own = caught.value.with_traceback(caught.tb.tb_next)
    assert user_line(own) == ""
    assert user_line(ValueError("never raised")) == ""
