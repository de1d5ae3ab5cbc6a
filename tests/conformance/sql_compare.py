"""Compares what the engine made of a vector with the recording.

Rules, from the ``meta`` of the vectors:

- Each step has the same changes. Flink promises no order between different keys within a step.
- Within a step the changes of a key come in the recorded order, where the vector's order is ``exact``. The
  key is the upsert key that the planner found, else the row itself.
- Where the order is ``table``, only the table at the end counts.
- An error has the recorded phase, class and first line; numbers that vary are ``$N``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.sql_run import Run

VARYING: Final = re.compile(r"\$\d+")
NODE_OF_EXPLAIN: Final = re.compile(r"^([ :]*)(?:[+:]- )?(\w+)\(.*changelogMode=(\[[^\]]*\])")
INDENT: Final = 3
"""Spaces for a level; the recording counts no other signs of the tree."""


def difference_of_run(expected: Mapping[str, Any], run: Run, sink_keys: Mapping[str, Sequence[int]]) -> str:
    """Return how a run differs from the recording; "" if it does not."""
    if "error" in expected:
        return _difference_of_failure(expected, run)
    if run.error is not None:
        return f"it failed: {type(run.error).__name__}: {run.error}"
    sinks = expected.get("sinks", {"": expected})
    if set(sinks) != set(run.changes):
        return f"sinks {sorted(run.changes)}, not {sorted(sinks)}"
    for name, recorded in sinks.items():
        order = expected.get("order", "exact")
        found = _difference_of_changes(
            recorded, run.changes[name], run.keys[name], order, sink_keys.get(name)
        )
        if found:
            return f"{name}: {found}" if name else found
    return ""


def _difference_of_changes(
    recorded: Mapping[str, Any],
    changes: Sequence[Sequence[Any]],
    keys: Sequence[int] | None,
    order: str,
    sink_keys: Sequence[int] | None,
) -> str:
    if order == "table":
        table = table_of(changes, sink_keys)
        return "" if table == recorded["table"] else f"the table is {table}, not {recorded['table']}"
    wanted = [[each.get("after"), each["op"], each["row"]] for each in recorded["changelog"]]
    if all(step is None for step, _, _ in wanted):
        changes = [[None, kind, row] for _, kind, row in changes]
    for step in dict.fromkeys([each[0] for each in [*wanted, *changes]]):
        ours = [each[1:] for each in changes if each[0] == step]
        theirs = [each[1:] for each in wanted if each[0] == step]
        same = _by_key(ours, keys) == _by_key(theirs, keys)
        if order == "per_step":
            same = sorted(map(json.dumps, ours)) == sorted(map(json.dumps, theirs))
        if not same:
            return f"after {step}: {_shown(ours)}, not {_shown(theirs)}"
    return ""


def _by_key(changes: Sequence[Sequence[Any]], keys: Sequence[int] | None) -> dict[str, list[str]]:
    """Return the changes of each key, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for kind, row in changes:
        key = row if keys is None else [row[place] for place in keys]
        found[json.dumps(key)].append(json.dumps([kind, row]))
    return found


def _shown(changes: Sequence[Sequence[Any]]) -> str:
    return " ".join(f"{kind}{json.dumps(row)}" for kind, row in changes) or "nothing"


def table_of(changes: Sequence[Sequence[Any]], keys: Sequence[int] | None) -> list[Any]:
    """Return the table that a changelog leaves: a multiset, or by key for a sink with a primary key."""
    if keys is not None:
        upserted: dict[str, Any] = {}
        for _, kind, row in changes:
            key = json.dumps([row[place] for place in keys])
            if kind in ("+I", "+U"):
                upserted[key] = row
            elif kind == "-D":
                upserted.pop(key, None)
        return sorted(upserted.values(), key=json.dumps)
    rows: list[Any] = []
    for _, kind, row in changes:
        if kind in ("+I", "+U"):
            rows.append(row)
        elif row in rows:
            rows.remove(row)
    return sorted(rows, key=json.dumps)


def _difference_of_failure(expected: Mapping[str, Any], run: Run) -> str:
    error = expected["error"]
    if error["phase"] != "runtime":
        return f"the planner took it; expected: {error['message']}"
    if run.error is None:
        return f"it did not fail; expected: {error['message']}"
    thrown = getattr(run.error, "java_class", type(run.error).__name__)
    if (thrown, str(run.error)) != (error["class"], error["message"]):
        return f"it failed with {thrown}: {run.error}; expected {error['class']}: {error['message']}"
    sinks = expected.get("before_error_sinks", {"": expected.get("before_error", [])})
    for name, recorded in sinks.items():
        changes = recorded["changelog"] if isinstance(recorded, Mapping) else recorded
        ours = [[kind, row] for _, kind, row in run.changes.get(name, ())]
        theirs = [[each["op"], each["row"]] for each in changes]
        if ours[: len(theirs)] != theirs:
            return f"before the error came {_shown(ours)}, not {_shown(theirs)}"
    return ""


def difference_of_refusal(expected: Mapping[str, Any], error: Mapping[str, Any]) -> str:
    """Return how the planner's refusal differs from the recorded error; "" if it does not."""
    wanted = expected.get("error")
    if wanted is None:
        return f"the planner refuses it: {error['message']}"
    for name in ("phase", "class", "message"):
        if VARYING.sub("$N", error[name]) != VARYING.sub("$N", wanted[name]):
            return f"{name} {error[name]!r}, not {wanted[name]!r}"
    return ""


def explained(text: str) -> list[list[Any]]:
    """Return the nodes of an explained plan with their changelog modes, top first."""
    nodes = []
    for line in text.splitlines():
        if match := NODE_OF_EXPLAIN.match(line):
            nodes.append([match[1].count(" ") // INDENT, match[2], match[3]])
    return nodes
