"""How the file of a family gets PyFlink's names, in a process whose PyFlink is made here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from onceproof import scenarios
from onceproof.harness.systems.flink.home import CLIENT

PYFLINK = {
    "datastream/__init__.py": (
        "class KeyedProcessFunction:\n    Context = None\n"
        "class ProcessFunction:\n    Context = None\n"
        "class MapFunction: ...\n"
    ),
    "datastream/functions.py": "class RuntimeContext: ...\n",
    "datastream/state.py": "class ValueStateDescriptor: ...\n",
    "datastream/window.py": "",
    "datastream/output_tag.py": "",
    "datastream/time_domain.py": "",
    "datastream/timerservice.py": "",
    "datastream/data_stream.py": "",
    "datastream/async_retry_predicates.py": "",
    "datastream/async_retry_strategies.py": "",
    "common/__init__.py": "class Types:\n    TUPLE = STRING = staticmethod(lambda *kinds: kinds)\n",
    "common/time.py": "class Duration:\n    of_millis = staticmethod(lambda number: ('real', number))\n",
    "common/typeinfo.py": "",
    "common/watermark_strategy.py": (
        "class WatermarkStrategy:\n"
        "    for_bounded_out_of_orderness = staticmethod(lambda bound: ('bounded', bound))\n"
    ),
}
"""The modules that names are looked for in, with some of PyFlink's classes."""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs lines with a family's names, and returns what they print as JSON."""
    for name, text in PYFLINK.items():
        path = tmp_path / "pyflink" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pyflink" / "__init__.py").touch()

    def run_lines(lines):
        head = (
            "import json, sys\n"
            f"sys.path[:0] = [{str(CLIENT)!r}, {str(tmp_path)!r}]\n"
            "import engine_names\n"
            f"sys.meta_path.insert(0, engine_names.EngineNames({next(iter(scenarios.__path__))!r}))\n"
        )
        # Isolated, so that nothing of an installed onceproof is found before the names.
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", head + lines], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_lines


def test_built_in_family_gets_classes_of_pyflink_as_it_is(run):
    lines = """
from onceproof.scenarios import word_count
import pyflink.datastream
print(json.dumps([word_count.name, word_count.Count.__mro__[1] is pyflink.datastream.KeyedProcessFunction]))
"""
    assert run(lines) == ["word_count", True]


def test_name_that_pyflink_lacks_is_an_error_where_it_is_used(run):
    lines = """
from onceproof.engine import CoGroupFunction
said = []
for use in (CoGroupFunction, lambda: CoGroupFunction.of):
    try:
        use()
    except engine_names.NoCounterpart as error:
        said.append(str(error))
class Join(CoGroupFunction): ...
try:
    Join()
except engine_names.NoCounterpart as error:
    said.append(str(error))
print(json.dumps(said))
"""
    assert run(lines) == ["PyFlink has no CoGroupFunction"] * 3


def test_names_of_the_harness_stand_for_nothing(run):
    lines = """
from onceproof import Workload
from onceproof.harness.model.chance import Chance
print(json.dumps([type(each).__name__ for each in (Workload({}), Chance(1).chance(0.5))]))
"""
    assert run(lines) == ["Inert"] * 2


def test_source_of_a_family_around_that_of_the_scenario_is_read_to_its_end(run):
    lines = """
import plain_sources
from onceproof.scenarios._keyed_job import LabelledSource
from onceproof.scenarios._streams import StreamSource
records = {"log-0": [(("a", 1), 10), (("b", 2), 20)], "log-1": [], "other-0": [(("c", 3), 5)]}
source = LabelledSource(StreamSource(plain_sources.RecordsOfScenario(records), "log"))
print(json.dumps(plain_sources.read_all(source)))
"""
    assert run(lines) == {"log-0": [[["log-0", "a", 1], 10], [["log-0", "b", 2], 20]], "log-1": []}


def test_strategy_of_a_family_travels_without_java_and_is_made_when_it_is_taken(run):
    lines = """
import pickle
from onceproof.scenarios import _event_time
strategy = pickle.loads(pickle.dumps(_event_time.WATERMARKS))
print(json.dumps([strategy.real(), _event_time.BOUND_MS]))
"""
    (kind, (origin, bound)), expected = run(lines)
    assert (kind, origin, bound) == ("bounded", "real", expected)


def test_job_for_flink_is_taken_where_a_family_has_one(run):
    lines = """
from types import SimpleNamespace
from onceproof.scenarios import word_count
from onceproof import FamilyOptions
own = FamilyOptions(declares=True, jobs={"flink": print})
both = SimpleNamespace(job=word_count.job, options=own)
earlier = SimpleNamespace(job=word_count.job, flink_job=repr)
found = [engine_names.job_of(family) for family in (word_count, both, earlier)]
print(json.dumps([found[0] is word_count.job, found[1] is print, found[2] is repr]))
"""
    assert run(lines) == [True, True, True]
