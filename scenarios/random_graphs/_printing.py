"""Prints a random job as a program of its own, which runs on its records and prints its rows.

The rules this module lives by:

- The program imports the engine's public names alone. It carries the source of the functions that it uses,
  taken from the modules of this package, and nothing else of them.
- It says by the same calls what ``_building.py`` does: each vertex is one statement, so a reader sees the
  graph.
- Sinks print, and there are no checkpoints and no faults: the program shows the job, not the failure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import Records
from onceproof.harness.model.scenario import Parameter
from onceproof.scenarios.random_graphs._building import (
    ANSWER_MS,
    BOUND_MS,
    BROADCAST,
    BUNDLE,
    CAPACITY,
    FUNCTIONS,
    LATENCY_MS,
    arguments_of,
)
from onceproof.scenarios.random_graphs._graph import (
    KINDS,
    SIDE,
    SINK,
    Graph,
    Vertex,
    graph_of,
    in_front_of,
    is_never_chained,
)
from onceproof.scenarios.random_graphs._meeting_functions import Inside, Near, Pairs
from onceproof.scenarios.random_graphs._reference import last_of_step

_SOURCES: Final = (
    "_functions",
    "_keyed_functions",
    "_meeting_functions",
    "_calling_functions",
    "_pane_functions",
)
_ENGINE: Final = "onceproof.engine"
_HEAD: Final = '''class At(TimestampAssigner):
    """Takes the timestamp that stands beside a value."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[0]


def read(env: StreamExecutionEnvironment, records: list[Any], name: str) -> Any:
    """Read records (timestamp, value), of which none is late."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    stream = env.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(At())
    )
    return stream.map(lambda record: record[1], VALUE).name(name)
'''


_ASSIGNERS: Final = {
    "tumbling": "TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))",
    "sliding": "SlidingEventTimeWindows.of(Time.milliseconds(SIZE_MS), Time.milliseconds(SLIDE_MS))",
    "session": "EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))",
}


def as_program(records: Records, parameters: Mapping[str, Parameter]) -> str:
    """Return the job of a scenario as the text of a Python program."""
    graph = graph_of(parameters)
    lines = ["env = StreamExecutionEnvironment.get_execution_environment()"]
    if graph.in_batch:
        lines.append("env.set_runtime_mode(RuntimeExecutionMode.BATCH)")
    for source in graph.sources:
        lines.append(f"{source} = read(env, {source.upper()}, {source!r})")
    for vertex in graph.vertices:
        lines += _statements(vertex)
    lines.append("env.execute('random_job')")
    main = "\n".join(lines)
    constants = f"BOUND_MS = {BOUND_MS}\n" + "\n".join(_records_of(records, graph))
    functions = "\n\n\n".join(_definitions_for(f"{_HEAD}\n{main}"))
    body = f"{constants}\n\n\n{functions}\n\n\n{_HEAD}\n\n{main}\n"
    shown = "\n".join(f"    {name}: {line}" for name, line in graph.parameters().items())
    return f'"""A random job.\n\n{shown}\n"""\n\n{_imports_for(body)}\n\n{body}'


def _records_of(records: Records, graph: Graph) -> Iterator[str]:
    """Yield a constant for each source: its records, each with its split before the value."""
    for source in graph.sources:
        read: list[tuple[int, str]] = []
        for split, own in records.items():
            newest = 0
            for timestamp, value in own if split.startswith(f"{source}-") else ():
                assert isinstance(value, tuple)
                # Those of a split keep their order, and none is late by the newest one of any split.
                at = last_of_step(timestamp)
                newest = max(newest, at)
                read.append((newest, f"    {(at, (split, *value))!r},\n"))
        rows = "".join(row for _, row in sorted(read, key=lambda row: row[0]))
        yield f"{source.upper()} = [\n{rows}]"


def _statements(vertex: Vertex) -> Iterator[str]:
    """Yield the statements of a vertex: what stands in front of it, the vertex, and its side output."""
    name = vertex.name
    if vertex.kind == SINK:
        yield f"{_sent(vertex)}.print()"
        return
    stream = _sent(vertex)
    match vertex.kind, vertex.form:
        case "filter", _:
            stream = f"{_settled(f'{stream}.filter(NoMultipleOfThree())', vertex, in_front_of(vertex)[0])}"
            applied = f"{stream}.map(Step({name!r}), VALUE)"
        case "total", "reduce":
            stream = _settled(f"{stream}.reduce(total_of)", vertex, in_front_of(vertex)[0])
            applied = f"{stream}.map(Step({name!r}), VALUE)"
        case "distinct", "copies":
            copies = _settled(
                f"{_united(vertex)}.broadcast().map(Copy(), VALUE)", vertex, in_front_of(vertex)[0]
            )
            applied = (
                f"{copies}.key_by(key_of, Types.STRING()).process(Distinct{arguments_of(vertex)!r}, VALUE)"
            )
        case "lateness", _:
            yield from _with_latecomers(vertex)
            return
        case "panes", _:
            yield from _beside_windows(vertex)
            return
        case "whole", _:
            yield from _whole(vertex)
            return
        case "async", form:
            time = f"Time.milliseconds({ANSWER_MS})"
            applied = f"AsyncDataStream.{form}_wait({stream}, Ask({name!r}), {time}, {CAPACITY}, VALUE)"
        case "triples", _:
            applied = f"{stream}.count_window(3).process(Triple({name!r}), VALUE)"
        case "pairs" | "twins" | "near", _:
            applied = _joined(vertex)
        case "tumbling" | "sliding" | "session", form if (vertex.kind, form) not in FUNCTIONS:
            applied = _windowed(vertex)
        case _:
            method, function = FUNCTIONS[vertex.kind, vertex.form]
            arguments = ", ".join(map(repr, arguments_of(vertex)))
            applied = f"{stream}.{method}({_class(vertex, function)}({arguments}), {_type(vertex)})"
    if vertex.emits:
        applied = f"{_settled(applied, vertex, in_front_of(vertex)[0])}.map(Settle(), VALUE)"
    yield f"{name} = {_settled(applied, vertex, name)}"
    if vertex.kind == "parity":
        yield f"{name}{SIDE} = {name}.get_side_output(side_of({name!r}))"


def _with_latecomers(vertex: Vertex) -> Iterator[str]:
    """Yield the statements of windows with late data; both outputs come together behind them."""
    name, (stamped, windows) = vertex.name, in_front_of(vertex)
    text = f"{_united(vertex)}.rebalance().assign_timestamps_and_watermarks(STAMPED)"
    yield f"{name} = {_settled(text, vertex, stamped)}"
    each = f"EachOfSessions({name!r})" if vertex.form == "session" else "Each()"
    text = (
        f"{name}.key_by(key_of, Types.STRING()).window({_ASSIGNERS[vertex.form]})"
        ".trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(LATENESS_MS)"
        f".side_output_late_data(late_of({name!r})).process({each}, VALUE)"
    )
    yield f"{name} = {_settled(text, vertex, windows)}"
    text = f"{name}.union({name}.get_side_output(late_of({name!r}))).map(Step({name!r}), VALUE)"
    yield f"{name} = {_settled(text, vertex, name)}"


def _beside_windows(vertex: Vertex) -> Iterator[str]:
    """Yield the statements of windows that emit what is wrong with them, beside the values."""
    name, (stamped, windows) = vertex.name, in_front_of(vertex)
    strategy = f"watermarks_of({vertex.panes!r})"
    text = f"{_united(vertex)}.rebalance().assign_timestamps_and_watermarks({strategy})"
    yield f"{name} = {_settled(text, vertex, stamped)}"
    text = f"panes_of({name}.key_by(key_of, Types.STRING()), {vertex.panes!r}, {name!r})"
    yield f"{name} = {_settled(text, vertex, windows)}"
    united = f"{_united(vertex)}.union({name}).map(Step({name!r}), VALUE)"
    yield f"{name} = {_settled(united, vertex, name)}"


def _whole(vertex: Vertex) -> Iterator[str]:
    """Yield the statements of a fold in bundles, and of what emits its last results."""
    name, (copied, bundled) = vertex.name, in_front_of(vertex)
    latency = f", Duration.of_millis({LATENCY_MS})" * (vertex.form == "brief_bundles")
    yield f"{name} = {_settled(f'{_united(vertex)}.rebalance().map(Copy(), VALUE)', vertex, copied)}"
    text = f"{name}.key_by(key_of, Types.STRING()).bundle({BUNDLE}{latency}).reduce(together)"
    yield f"{name} = {_settled(text, vertex, bundled)}"
    text = f"{name}.key_by(key_of, Types.STRING()).process(LastAtEnd({name!r}), VALUE)"
    yield f"{name} = {_settled(text, vertex, name)}"


def _settled(stream: str, vertex: Vertex, name: str) -> str:
    """Return a stream with its name and what the vertex says of parallelism and chaining."""
    text = f"{stream}.name({name!r})"
    if vertex.parallelism.isdigit():
        most = vertex.max_parallelism or int(vertex.parallelism)
        text += f".set_parallelism({min(int(vertex.parallelism), most)})"
    if vertex.max_parallelism:
        text += f".set_max_parallelism({vertex.max_parallelism})"
    return text + ".disable_chaining()" * is_never_chained(vertex, name)


def _united(vertex: Vertex) -> str:
    first, *others = vertex.inputs * (2 if vertex.kind == "doubled" else 1)
    return f"{first}.union({', '.join(others)})" if others else first


def _sent(vertex: Vertex) -> str:
    """Return the input of a vertex, over its edge."""
    stream = _united(vertex)
    match vertex.edge:
        case "hash" if KINDS[vertex.kind].key == "key":
            return f"{stream}.key_by(key_of, Types.STRING())"
        case "hash":
            return f"{stream}.key_by(lane_and_key, LANE_AND_KEY)"
        case "custom":
            return f"{stream}.partition_custom(ByLetters(), lane_and_key)"
        case "global":
            return f"{stream}.global_()"
        case "forward" if set(vertex.inputs) & {"left", "right"}:
            # A collection is read by one subtask, so there is no forward edge to several.
            return stream
        case edge:
            return f"{stream}.{edge}()"


def _joined(vertex: Vertex) -> str:
    name = vertex.name
    one, two = [f"{each}.key_by(key_of, Types.STRING())" for each in vertex.inputs]
    if vertex.form in BROADCAST:
        broadcast = f"{vertex.inputs[1]}.broadcast(broadcast_of({name!r}))"
        function = _class(vertex, BROADCAST[vertex.form])
        return f"{one}.connect({broadcast}).process({function}({name!r}), {_type(vertex)})"
    if vertex.kind == "near":
        bounds = "Time.milliseconds(-NEAR_MS), Time.milliseconds(NEAR_MS)"
        near = f"{_class(vertex, Near)}({name!r}), {_type(vertex)}"
        return f"{one}.interval_join({two}).between({bounds}).process({near})"
    pairs = f"{_class(vertex, Pairs)}({name!r}, {vertex.kind == 'twins'}), {_type(vertex)}"
    return f"{one}.connect({two}).process({pairs})"


def _windowed(vertex: Vertex) -> str:
    windows = f"{_sent(vertex)}.window({_ASSIGNERS[vertex.kind]})"
    inside, output = f"{_class(vertex, Inside)}({vertex.name!r})", _type(vertex)
    match vertex.form:
        case "reduce":
            return f"{windows}.reduce(together, {inside}, {output})"
        case "aggregate":
            gathered = "Types.TUPLE([Types.LIST(Types.STRING()), Types.LONG()])"
            return f"{windows}.aggregate(Gather(), {inside}, {gathered}, {output})"
        case _:
            return f"{windows}.process({inside}, {output})"


def _class(vertex: Vertex, function: type) -> str:
    """Return what makes the function of a vertex, but for its arguments."""
    return f"changing({function.__name__}, {vertex.emits!r})" if vertex.emits else function.__name__


def _type(vertex: Vertex) -> str:
    return f"EMITTED_TYPES[{vertex.emits!r}]" if vertex.emits else "VALUE"


# The functions that a program carries, and the names that it imports.


@cache
def _definitions() -> dict[str, str]:
    """Return by name the source of what the modules of functions define, in their order."""
    found = {}
    for module in _SOURCES:
        text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            names: list[str] = []
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    names = [name]
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names = [name]
                case ast.Assign(targets=[ast.Name(id=name)]):
                    names = [name]
            source = ast.get_source_segment(text, node)
            for name in names:
                found[name] = source or ""
    return found


@cache
def _imports() -> dict[str, str]:
    """Return by name the module that the modules of functions import it from."""
    found = {"asyncio": ""}
    for module in _SOURCES:
        text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and not node.module.startswith("onceproof.scen")
            ):
                found.update({each.name: node.module for each in node.names})
    of_main = (
        "AsyncDataStream",
        "Duration",
        "EventTimeSessionWindows",
        "EventTimeTrigger",
        "PurgingTrigger",
        "RuntimeExecutionMode",
        "SlidingEventTimeWindows",
        "StreamExecutionEnvironment",
        "TimestampAssigner",
        "TumblingEventTimeWindows",
        "WatermarkStrategy",
    )
    return {**found, **dict.fromkeys(of_main, _ENGINE)}


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _definitions_for(text: str) -> Iterable[str]:
    """Return the definitions that a text needs, directly or not, in their order."""
    definitions = _definitions()
    needed: set[str] = set()
    open_names = _names_in(text) & definitions.keys()
    while open_names:
        needed |= open_names
        used = set[str]().union(*(_names_in(definitions[name]) for name in open_names))
        open_names = (used & definitions.keys()) - needed
    return [source for name, source in definitions.items() if name in needed]


def _imports_for(body: str) -> str:
    """Return the import statements for the names that a program uses."""
    used = _names_in(body)
    modules: dict[str, list[str]] = {}
    for name, module in sorted(_imports().items()):
        if name in used:
            modules.setdefault(module, []).append(name)
    lines = ["from __future__ import annotations", ""]
    lines += ["import asyncio"] * ("" in modules)
    for module in sorted(name for name in modules if name and name != "__future__"):
        names = ",\n    ".join(modules[module])
        lines.append(f"from {module} import (\n    {names},\n)")
    return "\n".join(lines)
