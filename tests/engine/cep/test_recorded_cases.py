"""The automaton makes of patterns what Flink's does: recorded cases, many of them of Flink's own tests."""

import json
from pathlib import Path

import pytest

from tests.engine.cep.pattern_cases import found

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_pattern_finds_what_flink_finds(case):
    if "error" in case:
        with pytest.raises((ValueError, RuntimeError)) as caught:
            found(case)
        assert str(caught.value).startswith(case["error"])
    else:
        assert found(case) == case["steps"]
