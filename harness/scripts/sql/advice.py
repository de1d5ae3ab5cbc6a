"""What a user should know of a script beside its verdict: state that only grows, and what its sinks promise.

Rules:

- The harness replaces the ends, so it cannot fail a sink that writes rows again. What a connector promises is
  said instead, with the option that makes it exactly-once.
- State counts as growing where a node keeps whole rows and nothing removes them: a regular join, and a Top-N
  over changes. One accumulator for each key is the price of any GROUP BY, and is not mentioned.
- What depends on chance or on the clock is other after a restart. Runs without faults differ in it, so the
  verdict leaves it out.
- Advice is one sentence that names the table or the node, and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from onceproof.engine.table.plans import Node, Plan
from onceproof.harness.scripts.sql.plans import PlannedScript
from onceproof.harness.scripts.sql.sql_ends import SinkTable
from onceproof.harness.scripts.sql.statements import Statements

_TTL: Final = "table.exec.state.ttl"
_GUARANTEE: Final = "sink.delivery-guarantee"
_CHANGELOGS: Final = ("debezium", "canal", "maxwell", "ogg", "changelog")
_RETRACTING: Final = "Retract"
_BY_CHANCE: Final = re.compile(r"\$(RAND|RAND_INTEGER|UUID|NOW|CURRENT_(?!WATERMARK)\w+|LOCALTIME\w*)\$\d")
_DRAWN: Final = frozenset({"RAND", "RAND_INTEGER", "UUID"})
_PROCESSING: Final = re.compile(r"'timeAttributeType': [^}]*'PROCTIME'")


def advice(planned: PlannedScript, sinks: Mapping[str, SinkTable]) -> Iterator[str]:
    """Yield all that is said of a script."""
    statements = planned.statements or Statements({}, (), ())
    for name, end in sinks.items():
        if promise := promise_of(name, statements.given.get(name, {}), bool(end.end.primary_key)):
            yield promise
    yield from growing_state(planned.plan, statements.options)
    yield from undetermined(planned.plan)


def growing_state(plan: Plan, options: Mapping[str, str]) -> Iterator[str]:
    """Yield what is said of each node whose state only grows."""
    if options.get(_TTL, "0")[:1] != "0":
        return
    nodes = {node.id: node for node in plan.nodes}
    for node in plan.nodes:
        sources = list(dict.fromkeys(name for each in node.inputs for name in _read_by(nodes[each], nodes)))
        names = " and ".join(sources)
        if node.type == "join" and not any(node.ttl_ms(side) for side in range(len(node.inputs))):
            yield _growing(f"the join of {names}", "every row of both")
        if node.type == "rank" and _RETRACTING in str(node.attributes["rankStrategy"]) and not node.ttl_ms():
            yield _growing("the Top-N", f"every row of {names}")


def draws_chance(plan: Plan) -> bool:
    """Return whether two runs of one scenario may differ; its clock is that of the scenario."""
    return any(set(_BY_CHANCE.findall(str(node.attributes))) & _DRAWN for node in plan.nodes)


def undetermined(plan: Plan) -> Iterator[str]:
    """Yield what is said of rows that the records do not determine."""
    texts = [str(node.attributes) for node in plan.nodes]
    if names := sorted({name for text in texts for name in _BY_CHANCE.findall(text)}):
        yield (
            f"values: {', '.join(names)} gives another one when a record is read again after a restart, so"
            " rows may change, or come again under another key: take the value from the record"
        )
    if any(_PROCESSING.search(text) for text in texts):
        yield (
            "windows: in processing time a record that is read again after a restart falls into another"
            " window: declare a WATERMARK, and use its column"
        )


def _growing(node: str, what: str) -> str:
    return (
        f"state: {node} keeps {what} forever; SET '{_TTL}', or bound it by a condition on time, as an"
        " interval join does"
    )


def _read_by(node: Node, nodes: Mapping[int, Node]) -> Iterator[str]:
    """Yield the names of the tables that a node reads, directly or through others."""
    if node.type == "table-source-scan":
        yield node.attributes["scanTableSource"]["table"]["identifier"].rpartition(".")[2].strip("`")
    for each in node.inputs:
        yield from _read_by(nodes[each], nodes)


def promise_of(name: str, given: Mapping[str, str], has_key: bool) -> str:
    """Return what is said of a sink that writes rows again after a restart; "" of any other.

    Args:
        name: that of its table.
        given: the options that the script gives it.
        has_key: whether the table has a primary key.
    """
    connector = given.get("connector", "")
    if connector == "kafka" and given.get(_GUARANTEE) != "exactly-once":
        formats = " ".join([value for key, value in given.items() if key.endswith("format")])
        what = "changes" if any(each in formats for each in _CHANGELOGS) else "rows"
        return (
            f"sink {name}: outside this trial it repeats {what} after a restart, because it writes at least"
            f" once: set '{_GUARANTEE}' = 'exactly-once' and 'sink.transactional-id-prefix'"
        )
    if connector == "jdbc" and not has_key:
        return (
            f"sink {name}: outside this trial it inserts rows again after a restart, because it has no key:"
            " declare a PRIMARY KEY"
        )
    return ""
