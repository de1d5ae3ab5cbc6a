"""The second oracle of random jobs: a query that folds over the vertices of each scenario's graph.

The rules this module lives by:

- The graph is data here as well: its lines come from the view ``parameters``. One query judges all graphs, in
  one expression, for a query of six levels with all kinds would take Spark a minute to plan.
- ``aggregate`` goes through the vertices in their order. What it carries is a map of the streams so far, each
  an array of structs; a vertex adds its output. An array keeps the order of the values of a lane.
- It is written apart from ``_reference.py``: totals are sums over a prefix, sessions are found by their first
  record, windows by their starts.
"""

from __future__ import annotations

from typing import Final

from onceproof.scenarios.random_graphs._reference import (
    GAP_MS,
    MODULUS,
    NEAR_MS,
    SIZE_MS,
    SLIDE_MS,
    STEP_MS,
    TALLIES,
)

_VALUE: Final = "STRUCT<lane: STRING, key: STRING, origin: STRING, number: BIGINT, at: BIGINT>"
_STREAM: Final = f"ARRAY<{_VALUE}>"


def _value(lane: str, key: str, origin: str, number: str, at: str) -> str:
    return (
        f"named_struct('lane', {lane}, 'key', {key}, 'origin', {origin}, 'number', CAST({number} AS BIGINT),"
        f" 'at', CAST({at} AS BIGINT))"
    )


def _changed(number: str) -> str:
    """Return a value with another number, one step further."""
    return _value("concat(r.lane, step)", "r.key", "r.origin", number, "r.at")


def _sum(values: str) -> str:
    return f"aggregate({values}, CAST(0 AS BIGINT), (sum, each) -> sum + each.number)"


def _origins(values: str) -> str:
    return f"array_join(transform({values}, each -> each.origin), ' ')"


def _sorted_origins(values: str) -> str:
    return f"array_join(array_sort(split({_origins(values)}, ' ')), ' ')"


_LANE: Final = "p.lane = r.lane AND p.key = r.key"
_BEFORE: Final = f"filter(slice(one, 1, i + 1), p -> {_LANE})"
"""The values of the lane and key up to this one."""


def _with_before(value: str) -> str:
    """Return an array of the value for each value of ``one``; ``so_far`` are those of its lane up to it."""
    return f"transform(transform(one, (r, i) -> named_struct('r', r, 'so_far', {_BEFORE})), x -> {value})"


def _joined(condition: str) -> str:
    pair = _value(
        "step",
        "l.key",
        "concat(l.origin, '+', r.origin)",
        f"pmod(31 * l.number + r.number, {MODULUS})",
        "greatest(l.at, r.at)",
    )
    matching = f"filter(two, r -> l.key = r.key AND {condition})"
    return f"flatten(transform(one, l -> transform({matching}, r -> {pair})))"


def _windowed(starts: str, end: str, inside: str) -> str:
    """Return the windows of ``one``: ``starts`` is an array for a value r, w has a window's key and start."""
    window = "named_struct('key', r.key, 'start', start)"
    windows = f"array_distinct(flatten(transform(one, r -> transform({starts}, start -> {window}))))"
    value = _value(
        "step", "x.key", _sorted_origins("x.inside"), f"pmod({_sum('x.inside')}, {MODULUS})", "x.last"
    )
    with_inside = (
        f"named_struct('key', w.key, 'last', {end}, 'inside', filter(one, p -> p.key = w.key AND {inside}))"
    )
    return f"transform(transform({windows}, w -> {with_inside}), x -> {value})"


_IN_WINDOW: Final = f"p.at >= w.start AND p.at < w.start + {SIZE_MS}"
_TUMBLING: Final = f"array(r.at - pmod(r.at, {SIZE_MS}))"
_BACK: Final = f"sequence(0L, ({SIZE_MS - 1} - pmod(r.at, {SLIDE_MS})) DIV {SLIDE_MS})"
_SLIDING: Final = f"transform({_BACK}, back -> r.at - pmod(r.at, {SLIDE_MS}) - {SLIDE_MS} * back)"
_SESSION_STARTS: Final = (
    f"IF(exists(one, p -> p.key = r.key AND p.at < r.at AND p.at + {GAP_MS} >= r.at), array(), array(r.at))"
)
"""A session starts at a record that no earlier one is near."""
_NEXT_SESSION: Final = f"""
  array_min(transform(
    filter(one, q -> q.key = w.key AND q.at > w.start
      AND NOT exists(one, b -> b.key = q.key AND b.at < q.at AND b.at + {GAP_MS} >= q.at)),
    q -> q.at))"""
_IN_SESSION: Final = f"p.at >= w.start AND p.at < coalesce({_NEXT_SESSION}, {2**62})"
_SESSION_END: Final = (
    f"array_max(transform(filter(one, p -> p.key = w.key AND {_IN_SESSION}), p -> p.at)) + {GAP_MS - 1}"
)

_LATEST: Final = "slice(x.so_far, -least(3, size(x.so_far)), 3)"
_RESIDUE: Final = "filter(x.so_far, p -> pmod(p.number, 3) = pmod(x.r.number, 3))"
_LANED: Final = ("concat(x.r.lane, step)", "x.r.key")

_PASSED_ON: Final = f"transform(one, r -> {_changed('r.number')})"
_RULES: Final = {
    "map": f"transform(one, r -> {_changed(f'pmod(3 * r.number + 1, {MODULUS})')})",
    "async": f"transform(one, r -> {_changed(f'pmod(7 * r.number + 3, {MODULUS})')})",
    "filter": f"transform(filter(one, r -> pmod(r.number, 3) <> 0), r -> {_changed('r.number')})",
    "doubled": f"flatten(transform(one, r -> array({_changed('r.number')}, {_changed('r.number')})))",
    "twice": f"flatten(transform(one, r -> array({_changed('r.number')},"
    f" {_changed(f'pmod(r.number + 1, {MODULUS})')})))",
    "parity": f"transform(filter(one, r -> pmod(r.number, 2) = 0), r -> {_changed('r.number')})",
    "odd": "transform(filter(one, r -> pmod(r.number, 2) = 1), r -> "
    + _value("concat(r.lane, step, 's')", "r.key", "r.origin", "r.number", "r.at")
    + ")",
    "total": _with_before(_value(*_LANED, "x.r.origin", _sum("x.so_far"), "x.r.at")),
    "latest": _with_before(_value(*_LANED, _origins(_LATEST), f"pmod({_sum(_LATEST)}, {MODULUS})", "x.r.at")),
    "residues": _with_before(
        _value(
            *_LANED,
            "x.r.origin",
            f"10 * size({_RESIDUE}) + size(array_distinct(transform(x.so_far, p -> pmod(p.number, 3))))",
            "x.r.at",
        )
    ),
    "triples": f"""flatten({
        _with_before(
            "IF(pmod(size(x.so_far), 3) = 0, array("
            + _value(
                *_LANED,
                _origins("slice(x.so_far, -3, 3)"),
                f"pmod({_sum('slice(x.so_far, -3, 3)')}, {MODULUS})",
                "0",
            )
            + "), array())"
        )
    })""",
    "count": "transform(one, (r, i) -> "
    + _value("step", "r.key", "''", "size(filter(slice(one, 1, i + 1), p -> p.key = r.key))", "0")
    + ")",
    "tally": "transform(one, (r, i) -> "
    + _value(
        "step",
        "r.key",
        "''",
        f"{TALLIES} * size(filter(slice(one, 1, i + 1), p -> p.key = r.key"
        f" AND pmod(p.number, {TALLIES}) = pmod(r.number, {TALLIES}))) + pmod(r.number, {TALLIES})",
        "0",
    )
    + ")",
    "distinct": "array_distinct(transform(one, r -> "
    + _value("step", "r.key", "r.origin", "r.number", "r.at")
    + "))",
    "pairs": _joined("true"),
    "twins": _joined("l.origin = r.origin"),
    "near": _joined(f"abs(l.at - r.at) <= {NEAR_MS}"),
    "tumbling": _windowed(_TUMBLING, f"w.start + {SIZE_MS - 1}", _IN_WINDOW),
    "sliding": _windowed(_SLIDING, f"w.start + {SIZE_MS - 1}", _IN_WINDOW),
    "session": _windowed(_SESSION_STARTS, _SESSION_END, _IN_SESSION),
    "lateness": _PASSED_ON,
    "calls": _PASSED_ON,
    "panes": _PASSED_ON,
    "punctual": f"transform(one, r -> {_changed(f'pmod(r.number + r.at, {MODULUS})')})",
    "whole": "transform(transform(array_distinct(transform(one, r -> r.key)), key -> "
    "named_struct('key', key, 'inside', filter(one, p -> p.key = key))), x -> "
    + _value("step", "x.key", _sorted_origins("x.inside"), f"pmod({_sum('x.inside')}, {MODULUS})", "0")
    + ")",
    "sink": "one",
}

_KINDS: Final = "\n".join(
    f"      WHEN '{kind}' THEN {rule}" for kind, rule in _RULES.items() if kind != "odd"
)
_STREAMS: Final = f"MAP<STRING, {_STREAM}>"
_INPUT: Final = "coalesce(try_element_at(streams, try_element_at(vertex.inputs, {})), array())"


def _let(name: str, value: str, body: str) -> str:
    """Return the body, in which a name stands for a value: SQL has no other way to say so."""
    return f"transform(array({value}), {name} -> {body})[0]"


_UNION: Final = "flatten(transform(vertex.inputs, name -> coalesce(try_element_at(streams, name), array())))"
_ONE: Final = f"IF(vertex.kind IN ('pairs', 'twins', 'near'), {_INPUT.format(1)}, {_UNION})"
_OUTPUTS: Final = _let(
    "one",
    f"CAST({_ONE} AS {_STREAM})",
    _let(
        "two",
        f"CAST({_INPUT.format(2)} AS {_STREAM})",
        _let(
            "step",
            "substr(vertex.name, 2)",
            f"""map(
      vertex.name, CAST(CASE vertex.kind
{_KINDS}
      END AS {_STREAM}),
      concat(vertex.name, 's'), CAST(IF(vertex.kind = 'parity', {_RULES["odd"]}, array()) AS {_STREAM})
    )""",
        ),
    ),
)

ORACLE_SQL: Final = f"""
WITH lines AS (
  SELECT scenario_id, name, split(value, ' ') AS words FROM parameters WHERE rlike(name, '^(v[1-6]|s[1-3])$')
), graphs AS (
  SELECT scenario_id, array_sort(collect_list(named_struct(
    'is_sink', startswith(name, 's'), 'name', name, 'kind', words[0],
    'inputs', split(substr(filter(words, word -> startswith(word, 'of='))[0], 4), ',')
  ))) AS vertices
  FROM lines GROUP BY scenario_id
), read AS (
  SELECT scenario_id, transform(
    array_sort(collect_list(named_struct(
      'split', split, 'offset', offset, 'at', timestamp - pmod(timestamp, {STEP_MS}) + {STEP_MS - 1},
      'key', key, 'origin', origin, 'number', number
    ))),
    each -> {_value("each.split", "each.key", "each.origin", "each.number", "each.at")}
  ) AS everything
  FROM records GROUP BY scenario_id
), folded AS (
  SELECT scenario_id, vertices, aggregate(
    vertices,
    CAST(map(
      'left', filter(coalesce(everything, array()), r -> startswith(r.lane, 'left-')),
      'right', filter(coalesce(everything, array()), r -> startswith(r.lane, 'right-'))
    ) AS {_STREAMS}),
    (streams, vertex) -> CAST(map_concat(streams, {_OUTPUTS}) AS {_STREAMS})
  ) AS streams
  FROM graphs LEFT JOIN read USING (scenario_id)
), written AS (
  SELECT scenario_id, explode(flatten(transform(
    filter(vertices, each -> each.is_sink), each -> element_at(streams, each.name)
  ))) AS row
  FROM folded
)
SELECT scenario_id, row.lane, row.key, row.origin, row.number FROM written
"""
