"""Runs recorded facts about Flink: ``pytest tests/conformance [--vectors FILE] [--jobs FILE]``.

A vector is an input and what Flink's own classes answered to it. Each area of vectors needs an adapter: a
function from a vector's input to an answer, which drives the engine's classes and implements nothing itself.
Every module under ``adapters/`` offers a dict ADAPTERS of them. Areas without one are reported as not
covered, in the summary and in the JSON, and never count as passed.

What Flink leaves unspecified, such as the order of a hash map, the vectors state in their expected answer:
an adapter is handed the names that it lists in its module's GIVEN. Where there is no way to say so, as for
what one watermark fires for several keys, its module's UNORDERED has a function from the vector's input and
an answer to that answer in an order of its own, which is asked about both answers.

Where the engine departs from Flink on purpose, its module's DEPARTURES has a function from the vector's
input to the sentence of engine/docs/compared.md that gives the reason, or None. Such a vector is covered if
the page has the sentence and the answers differ. It is counted apart from those that pass.

A vector of SQL is a statement and the changelog that came of it (``sql_vectors``): ``--sql-vectors FILE``,
and ``--sql-areas join,topn`` for some areas. One that needs what the engine lacks is counted as missing with
what it needs. In a file that is named it may; of the project's own, those that may are listed (``test_sql``).
Those that look like defects of Flink are left out.

A job is a program and the rows that it had on Flink (``recorded_jobs``). The jobs of a kind, which their id
begins with, are an area. Where a file is named on the command line, only files that are named there are run.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.recorded_jobs import RecordedJob, read_jobs
from tests.conformance.sql_vectors import DEFAULT_SQL_VECTORS, SqlVector, read_sql_vectors

HERE = Path(__file__).parent
DEFAULT_VECTORS = (HERE / "vectors.json", HERE / "vectors-2.json")
DEFAULT_JOBS = HERE / "jobs.json"
EXTREMES = {"MIN": -(1 << 63), "MAX": (1 << 63) - 1}
OPTIONAL = ("stored_keys",)
PAGE_OF_DEPARTURES = HERE.parents[1] / "engine" / "docs" / "compared.md"
PAGE_OF_DIFFERENCES = HERE.parents[1] / "engine" / "docs" / "flink.md"


@dataclass(frozen=True)
class Vector:
    """One recorded fact."""

    id: str
    area: str
    input: Any
    expected: Any


@dataclass(frozen=True)
class Adapter:
    """Runs an area's vectors; ``given``: parts of the expected answer that the adapter gets."""

    answer: Callable[..., Any]
    given: tuple[str, ...] = ()
    unordered: Callable[[Any, Any], Any] = lambda given, answer: answer
    departure: Callable[[Any], str | None] = lambda given: None
    """Gives the recorded reason for another answer than Flink's to a vector's input; None: there is none."""

    def __call__(self, vector: Vector) -> Any:
        """Give the engine's answer."""
        given = {name: vector.expected[name] for name in self.given if name in vector.expected}
        return self.answer(vector.input, **given)


@dataclass
class Results:
    """What came out, by area; filled on the process that reports."""

    vectors: list[Vector]
    covered: frozenset[str]
    jobs: list[RecordedJob]
    sql_vectors: list[SqlVector] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """By vector of SQL, what the engine lacks for it."""
    passed: set[str] = field(default_factory=set)
    departed: set[str] = field(default_factory=set)
    """Those whose answer differs, for a reason that is recorded."""
    reported: set[str] = field(default_factory=set)
    """``vector`` and ``job``, where one of them ran."""
    named: set[str] = field(default_factory=set)
    """``vector`` and ``job``, where the command line names the file."""

    def facts(self) -> list[tuple[str, str]]:
        """Give id and area of what is to be reported: what ran or was asked for, else all."""
        kinds = self.reported | self.named or {"vector", "job", "sql_vector"}
        vectors = [(vector.id, vector.area) for vector in self.vectors if "vector" in kinds]
        jobs = [(job.id, f"job.{job.kind}") for job in self.jobs if "job" in kinds]
        sql = [(vector.id, vector.area) for vector in self.sql_vectors if "sql_vector" in kinds]
        return vectors + jobs + sql

    def by_area(self) -> dict[str, dict[str, Any]]:
        """Give the figures of each area; what did not run has not passed."""
        areas: dict[str, dict[str, Any]] = {}
        for fact, name in self.facts():
            area = areas.setdefault(
                name, {"passed": 0, "total": 0, "failed": [], "departs": [], "covered": name in self.covered}
            )
            area["total"] += 1
            if fact in self.passed:
                area["passed"] += 1
            elif fact in self.departed:
                area["departs"].append(fact)
            elif fact in self.missing:
                area.setdefault("missing", {})[fact] = self.missing[fact]
                area["failed"].append(fact)
            else:
                area["failed"].append(fact)
        return dict(sorted(areas.items()))


RESULTS: pytest.StashKey[Results] = pytest.StashKey()


def load_vectors(paths: Iterable[Path]) -> list[Vector]:
    """Read files of vectors. Raises UsageError for an id that occurs twice."""
    vectors: dict[str, Vector] = {}
    for path in paths:
        for vector in read_vectors(path):
            if vector.id in vectors:
                raise pytest.UsageError(f"{path}: the id {vector.id!r} occurs twice")
            vectors[vector.id] = vector
    return list(vectors.values())


def read_vectors(path: Path) -> list[Vector]:
    """Read a file of vectors; refuse one that cannot be read in a line that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [
            Vector(item["id"], item["area"], item["input"], item["expected"]) for item in content["vectors"]
        ]
    except OSError as error:
        raise pytest.UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(f"{path}: no file of vectors: {type(error).__name__}: {error}") from error


def load_jobs(path: Path) -> list[RecordedJob]:
    """Read a file of jobs. Raises UsageError with a line that names it, also for an id that occurs twice."""
    try:
        jobs = read_jobs(path)
    except OSError as error:
        raise pytest.UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"{path}: no file of jobs: {type(error).__name__}: {error}") from error
    for id_, times in Counter(job.id for job in jobs).items():
        if times > 1:
            raise pytest.UsageError(f"{path}: the id {id_!r} occurs twice")
    return jobs


def load_sql_vectors(path: Path) -> list[SqlVector]:
    """Read a file of vectors of SQL, without those that look like defects of Flink. Raises UsageError."""
    try:
        return [vector for vector in read_sql_vectors(path) if not vector.suspect]
    except OSError as error:
        raise pytest.UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(f"{path}: no file of vectors: {type(error).__name__}: {error}") from error


def load_adapters() -> dict[str, Adapter]:
    """Collect the adapters of all modules under ``adapters/``."""
    adapters: dict[str, Adapter] = {}
    for path in sorted((HERE / "adapters").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"conformance_adapters_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        given: Mapping[str, tuple[str, ...]] = getattr(module, "GIVEN", {})
        for area, answer in module.ADAPTERS.items():
            assert area not in adapters, f"{path}: a second adapter for {area}"
            unordered = getattr(module, "UNORDERED", {}).get(area, Adapter.unordered)
            departure = getattr(module, "DEPARTURES", {}).get(area, Adapter.departure)
            adapters[area] = Adapter(answer, given.get(area, ()), unordered, departure)
    return adapters


def canonical(value: Any, other: Any = None) -> Any:
    """Bring an answer into the form in which answers are compared, by the conventions of the vectors."""
    if isinstance(value, str):
        return EXTREMES.get(value, value)
    if isinstance(value, list | tuple):
        others = (
            other if isinstance(other, list | tuple) and len(other) == len(value) else [None] * len(value)
        )
        return [canonical(item, peer) for item, peer in zip(value, others, strict=True)]
    if isinstance(value, dict):
        peers = other if isinstance(other, dict) else {}
        return {
            key: canonical(item, peers.get(key))
            for key, item in value.items()
            if key not in OPTIONAL or key in peers
        }
    return value


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--vectors", metavar="FILE", help="vectors to run, instead of the project's copies")
    group.addoption("--jobs", metavar="FILE", help="jobs to run, instead of the project's copies")
    group.addoption("--sql-vectors", metavar="FILE", help="vectors of SQL to run, instead of the project's")
    group.addoption("--sql-areas", metavar="A,B", help="only the vectors of SQL of these areas")
    group.addoption("--conformance-json", metavar="FILE", help="write passed and failed by area to FILE")


def pytest_configure(config: pytest.Config) -> None:
    named = {
        kind: Path(path)
        for kind, option in (("vector", "--vectors"), ("job", "--jobs"), ("sql_vector", "--sql-vectors"))
        if (path := config.getoption(option, default=None)) is not None
    }
    if named:
        vectors = load_vectors([named["vector"]]) if "vector" in named else []
        jobs = load_jobs(named["job"]) if "job" in named else []
        sql_vectors = load_sql_vectors(named["sql_vector"]) if "sql_vector" in named else []
    else:
        vectors, jobs = load_vectors(DEFAULT_VECTORS), load_jobs(DEFAULT_JOBS)
        sql_vectors = load_sql_vectors(DEFAULT_SQL_VECTORS)
    if areas := config.getoption("--sql-areas", default=None):
        named.setdefault("sql_vector", DEFAULT_SQL_VECTORS)
        vectors, jobs = [], []
        sql_vectors = [vector for vector in sql_vectors if vector.area in areas.split(",")]
    covered = frozenset(load_adapters()) | {f"job.{job.kind}" for job in jobs}
    covered |= {vector.area for vector in sql_vectors}
    results = config.stash[RESULTS] = Results(vectors, covered, jobs, sql_vectors, named=set(named))
    if not hasattr(config, "workerinput"):
        reporter = Reporter(results, config.getoption("--conformance-json", default=None))
        config.pluginmanager.register(reporter, "conformance-reporter")


@pytest.fixture(scope="session")
def adapters() -> dict[str, Adapter]:
    return load_adapters()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vector" in metafunc.fixturenames:
        results = metafunc.config.stash[RESULTS]
        vectors = [vector for vector in results.vectors if vector.area in results.covered]
        metafunc.parametrize(
            "vector", vectors or [None], ids=[vector.id for vector in vectors] or ["no area is covered"]
        )
    if "job" in metafunc.fixturenames:
        jobs = metafunc.config.stash[RESULTS].jobs
        metafunc.parametrize("job", jobs or [None], ids=[job.id for job in jobs] or ["no job is asked for"])
    if "sql_vector" in metafunc.fixturenames:
        sql_vectors = metafunc.config.stash[RESULTS].sql_vectors
        ids = [f"{vector.area}:{vector.id}" for vector in sql_vectors]
        metafunc.parametrize("sql_vector", sql_vectors or [None], ids=ids or ["no job is asked for"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the placeholders that stand where no vector of the file can run, or no job is asked for."""
    placeholders = ("[no area is covered]", "[no job is asked for]")
    items[:] = [item for item in items if not item.name.endswith(placeholders)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        for kind, fact in callspec.params.items():
            if isinstance(fact, Vector | RecordedJob | SqlVector):
                report.user_properties.append((kind, fact.id))
    return report


@pytest.fixture(scope="session")
def recorded_departures() -> str:
    """The page that gives the reason of each departure, with its line breaks taken out."""
    return one_line(PAGE_OF_DEPARTURES)


@pytest.fixture(scope="session")
def recorded_differences() -> str:
    """The page that gives the reason of each job's departure, with its line breaks taken out."""
    return one_line(PAGE_OF_DIFFERENCES)


def one_line(page: Path) -> str:
    """Read a page without its line breaks."""
    return " ".join(page.read_text(encoding="utf-8").split())


@pytest.fixture(scope="session")
def canonical_forms() -> Callable[[Any, Any], tuple[Any, Any]]:
    """Give both answers in the form in which they are compared."""
    return lambda expected, actual: (canonical(expected, actual), canonical(actual, expected))


class Reporter:
    """Collects the results and prints them, here or on the controller of pytest-xdist."""

    def __init__(self, results: Results, json_path: str | None) -> None:
        self.results = results
        self.json_path = json_path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "misses" and report.when == "call":
                vector, _, what = str(value).partition("\n")
                self.results.missing[vector] = what
            if name in ("vector", "job", "sql_vector") and report.when == "call":
                self.results.reported.add(name)
                if report.passed and not hasattr(report, "wasxfail"):
                    departs = ("departs", value) in report.user_properties
                    (self.results.departed if departs else self.results.passed).add(str(value))

    def pytest_sessionfinish(self) -> None:
        if self.json_path is not None:
            areas = self.results.by_area()
            Path(self.json_path).write_text(json.dumps(areas, indent=1) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.results.reported and self.json_path is None:
            return
        areas = self.results.by_area()
        terminalreporter.section("conformance to Flink")
        for area, figures in areas.items():
            if figures["covered"]:
                words = [f"{area} {figures['passed']}/{figures['total']}"]
                words += [
                    f"{what}: {', '.join(figures[what])}" for what in ("failed", "departs") if figures[what]
                ]
                # Of what is missing, the count and the names of what is needed.
                lacks = Counter(figures.get("missing", {}).values())
                words += [f"{count} without {what}" for what, count in lacks.most_common()]
                terminalreporter.line("  ".join(words))
        missing = [
            f"{area} 0/{figures['total']}" for area, figures in areas.items() if not figures["covered"]
        ]
        if missing:
            terminalreporter.line(f"not covered: {', '.join(missing)}")
        passed = sum(figures["passed"] for figures in areas.values())
        departed = sum(len(figures["departs"]) for figures in areas.values())
        aside = f", and {departed} that departs for a recorded reason" if departed else ""
        terminalreporter.line(f"{passed} of {len(self.results.facts())}{aside}")
