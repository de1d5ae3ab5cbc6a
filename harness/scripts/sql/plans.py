"""The plan of a script: asked of Flink's planner once, and kept.

Rules:

- A plan is kept under a digest of the statements, the options and Flink's version, in the cache of the user.
  Then neither Flink nor Java is needed: workers, replays and other commands read it. A cache that cannot be
  written keeps none.
- A kept plan may stand beside its script, as ``revenue.plan.json`` of ``revenue.sql``, so that a machine
  without Flink has it; ``plans.json.gz`` holds those of all scripts of a folder. A kept plan counts if its
  digest is that of the script.
- A file of JSON is a compiled plan itself, and is taken as it is.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from onceproof.engine.table.planner.planner_process import (
    Planner,
    PlannerBroken,
    PlanningFailed,
    PlanRequest,
)
from onceproof.engine.table.plans import InvalidPlan, Plan, UnsupportedPlan, read_plan
from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.sql.statements import Statement, Statements, read_statements
from onceproof.harness.services.service import ServiceError, user_cache
from onceproof.harness.systems.flink.home import VERSION
from onceproof.harness.systems.flink.planner import find_planner
from onceproof.harness.systems.flink.sql_script import SqlScriptError

PLAN_SUFFIX: Final = ".plan.json"
PLANS_OF_FOLDER: Final = "plans.json.gz"
PLANS: Final = "sql-plans"
"""The folder of kept plans in the cache of the user."""
_TIME_ATTRIBUTE: Final = re.compile(r" \*\w+\*")
"""What the planner writes behind the type of a time attribute."""


class KeptPlan(msgspec.Struct, frozen=True):
    """What a file of a kept plan holds."""

    digest: str
    flink: str
    plan: dict[str, Any]


class PlannedScript(msgspec.Struct, frozen=True):
    """A script with its plan."""

    statements: Statements | None
    """None: a plan was given without them."""
    plan: Plan
    compiled: Mapping[str, Any]
    """The plan as the planner wrote it."""
    place: Path
    """Where the plan is kept; the script if nowhere."""


def plan_of(path: Path) -> PlannedScript:
    """Return the plan of a script, or of a file that holds one. Raises FamilyError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FamilyError(f"{path}: cannot be read: {error}") from None
    if path.suffix == ".json":
        return _planned(path, None, _as_json(path, text), path)
    try:
        statements = read_statements(text)
    except SqlScriptError as error:
        raise FamilyError(f"{path}: {error}") from None
    digest = digest_of(statements)
    kept = user_cache() / PLANS / f"{digest}.json"
    for place in (path.with_suffix(PLAN_SUFFIX), path.with_name(PLANS_OF_FOLDER), kept):
        found = _kept(place, digest)
        if found is not None:
            return _planned(path, statements, found.plan, place)
    plan = _asked(path, statements)
    place = kept if keep(kept, KeptPlan(digest, VERSION, plan)) else path
    return _planned(path, statements, plan, place)


def digest_of(statements: Statements) -> str:
    """Return another text for other statements, options or another version."""
    texts = [[each.text for each in part] for part in (statements.ddl, statements.inserts)]
    if statements.query_sinks:
        texts.append([f"{name} {each.options}" for name, each in statements.query_sinks.items()])
    content = msgspec.json.encode([VERSION, sorted(statements.options.items()), texts])
    return hashlib.sha256(content).hexdigest()[:16]


def _kept(place: Path, digest: str) -> KeptPlan | None:
    """Return the plan with a digest from a file that holds one or several."""
    try:
        if place.suffix == ".gz":
            plans = msgspec.json.decode(gzip.decompress(place.read_bytes()), type=list[KeptPlan])
        else:
            plans = [msgspec.json.decode(place.read_bytes(), type=KeptPlan)]
    except (OSError, EOFError, zlib.error, msgspec.DecodeError):
        return None
    return next((each for each in plans if each.digest == digest), None)


def keep(place: Path, kept: msgspec.Struct) -> bool:
    """Write what the planner has said, whole or not at all; return whether it is kept."""
    content = msgspec.json.format(msgspec.json.encode(kept), indent=1)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            writing = Path(folder) / place.name
            writing.write_bytes(content)
            writing.replace(place)
    except OSError:
        return False
    return True


def _as_json(path: Path, text: str) -> dict[str, Any]:
    try:
        plan = msgspec.json.decode(text, type=dict[str, Any])
        # Its ids stay: by them the job finds its state.
        found: dict[str, Any] = plan.get("plan", plan)
        return found
    except msgspec.DecodeError as error:
        raise FamilyError(f"{path}: it is no compiled plan: {error}") from None


def _planned(
    path: Path, statements: Statements | None, compiled: Mapping[str, Any], place: Path
) -> PlannedScript:
    try:
        return PlannedScript(statements, read_plan(compiled), compiled, place)
    except (UnsupportedPlan, InvalidPlan) as error:
        raise FamilyError(f"{path}: {error}") from None


def request_of(statements: Statements) -> PlanRequest:
    """Return what asks the planner for the plan of a script."""
    ddl, inserts = [[each.text for each in part] for part in (statements.ddl, statements.inserts)]
    return PlanRequest(ddl=ddl, options=statements.options, statements=inserts)


def _asked(path: Path, statements: Statements) -> dict[str, Any]:
    """Ask the planner. Raises FamilyError with its words and the line of the statement."""
    try:
        with Planner(find_planner()) as planner:
            try:
                request = request_of(_with_query_sinks(planner, statements))
                plan: dict[str, Any] = planner.plan(request)["plan"]
                return plan
            except PlanningFailed as error:
                place = _line_of(planner, statements)
                raise FamilyError(f"{path}:{place}: {' '.join(str(error).split())}") from None
    except (ServiceError, PlannerBroken) as error:
        raise FamilyError(f"{path}: its plan is not kept, and cannot be made: {error}") from None


def _with_query_sinks(planner: Planner, statements: Statements) -> Statements:
    """Declare the sinks that have the columns of their queries. Raises PlanningFailed."""
    ddl = list(statements.ddl)
    for name, each in statements.query_sinks.items():
        before = [one.text for one in ddl]
        request = PlanRequest(ddl=before, options=statements.options, statement=each.query.text)
        columns = [
            f"`{column.replace('`', '``')}` {_TIME_ATTRIBUTE.sub('', kind)}"
            for column, kind in planner.plan(request)["schema"]
        ]
        text = f"CREATE TABLE `{name}` ({', '.join(columns)}) WITH ({each.options})"
        ddl.append(Statement(each.query.line, text))
    return replace(statements, ddl=tuple(ddl), query_sinks={})


def _line_of(planner: Planner, statements: Statements) -> int:
    """Return the line of the first statement that the planner refuses."""
    before: list[str] = []
    for each in statements.ddl:
        before.append(each.text)
        if _is_refused(planner, PlanRequest(ddl=before, options=statements.options, statement="SHOW TABLES")):
            return each.line
    for sink in statements.query_sinks.values():
        if _is_refused(
            planner, PlanRequest(ddl=before, options=statements.options, statement=sink.query.text)
        ):
            return sink.query.line
    for each in statements.inserts:
        if _is_refused(planner, PlanRequest(ddl=before, options=statements.options, statements=[each.text])):
            return each.line
    return statements.inserts[0].line


def _is_refused(planner: Planner, request: PlanRequest) -> bool:
    try:
        planner.plan(request)
    except PlanningFailed:
        return True
    return False
