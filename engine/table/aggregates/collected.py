"""LISTAGG, COLLECT, ARRAY_AGG, JSON_OBJECTAGG and JSON_ARRAYAGG: all values of a group.

With retractions a list takes away the first equal element. One that is not there yet waits in a second list
for a merge (Flink: ListAggWithRetractAggFunction, ArrayAggFunction).
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from onceproof.engine.table.aggregates.counts import change_count
from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.hash_order import in_hash_map
from onceproof.engine.table.ordering import key_codec
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import Row

_COMMA: Final = ","
Entries: TypeAlias = "dict[str, str | None]"
Text: TypeAlias = tuple[str | None, str]
_TABLE_EXCEPTION: Final = "org.apache.flink.table.api.TableException"


class ConcatenatedTexts(Aggregate):
    """LISTAGG without retractions (Flink: ListAggFunction); the accumulator is the text and the separator."""

    def create(self) -> Text:
        return None, _COMMA

    def add(self, accumulator: Text, values: Row) -> Text:
        separator = values[1] if len(values) > 1 else _COMMA
        return self.merge(accumulator, (values[0], separator))

    def merge(self, accumulator: Text, other: Text) -> Text:
        (text, _), (more, separator) = accumulator, other
        if more is None or text is None:
            return (more, separator) if text is None else accumulator
        return f"{text}{separator}{more}", separator

    def result(self, accumulator: Text) -> str | None:
        return accumulator[0]


class Elements(Aggregate):
    """ARRAY_AGG: the values in order. The accumulator is the values, and those retracted early."""

    def __init__(self, *, skips_nulls: bool) -> None:
        self._skips_nulls = skips_nulls

    def create(self) -> list[list[Any]]:
        return [[], []]

    def add(self, accumulator: list[list[Any]], values: Row) -> list[list[Any]]:
        if not (values[0] is None and self._skips_nulls):
            accumulator[0].append(values[0])
        return accumulator

    def retract(self, accumulator: list[list[Any]], values: Row) -> list[list[Any]]:
        if not (values[0] is None and self._skips_nulls):
            present, early = accumulator
            if values[0] in present:
                present.remove(values[0])
            else:
                early.append(values[0])
        return accumulator

    def merge(self, accumulator: list[list[Any]], other: list[list[Any]]) -> list[list[Any]]:
        present, early = accumulator[0] + other[0], []
        for value in accumulator[1] + other[1]:
            if value in present:
                present.remove(value)
            else:
                early.append(value)
        return [present, early]

    def result(self, accumulator: list[list[Any]]) -> Any:
        return tuple(accumulator[0]) or None


class ListedTexts(Elements):
    """LISTAGG with retractions; the accumulator also has the separator of the last row."""

    def __init__(self) -> None:
        super().__init__(skips_nulls=True)

    def create(self) -> list[Any]:
        return [[], [], _COMMA]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        return super().add(self._separated(accumulator, values), values)

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        lists = self._separated(accumulator, values)
        return [*super().retract(lists[:2], values), lists[2]]

    @staticmethod
    def _separated(accumulator: list[Any], values: Row) -> list[Any]:
        if len(values) > 1 and values[0] is not None:
            accumulator[2] = values[1]
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        separator = other[2] if other[0] or other[1] else accumulator[2]
        return [*super().merge(accumulator[:2], other[:2]), separator]

    def result(self, accumulator: list[Any]) -> str | None:
        texts, _, separator = accumulator
        if separator is None:
            return None
        return str(separator).join(texts) if texts else None


@aggregate("$LISTAGG$1")
def _listagg(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return ListedTexts() if call.retracts else ConcatenatedTexts()


@aggregate("$ARRAY_AGG$1")
def _array_agg(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Elements(skips_nulls=call.ignores_nulls)


class Collection(Aggregate):
    """COLLECT: a multiset of what is not NULL, in the order of a map of Java; counts below zero are kept.

    Flink: CollectAggFunction.
    """

    def __init__(self, call: AggregateCall) -> None:
        self._type = call.argument_types[0]
        self._encode, self._decode = key_codec(self._type)

    def create(self) -> dict[Any, int]:
        return {}

    def add(self, accumulator: dict[Any, int], values: Row) -> dict[Any, int]:
        if values[0] is not None:
            key = self._encode(values[0])
            # One that comes after its retraction stays, counted 0 times.
            accumulator[key] = accumulator.get(key, 0) + 1
        return accumulator

    def retract(self, accumulator: dict[Any, int], values: Row) -> dict[Any, int]:
        if values[0] is not None:
            change_count(accumulator, self._encode(values[0]), -1)
        return accumulator

    def merge(self, accumulator: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for key, count in other.items():
            change_count(accumulator, key, count)
        return accumulator

    def result(self, accumulator: dict[Any, int]) -> Any:
        entries = [(self._decode(key), count) for key, count in accumulator.items()]
        return tuple(in_hash_map(self._type, entries))


@aggregate("$COLLECT$1")
def _collect(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Collection(call)


# ---- JSON: the planner wraps values into JSON_STRING, so they are texts in JSON already


class JsonArray(Aggregate):
    """JSON_ARRAYAGG (Flink: JsonArrayAggFunction); as there it cannot merge."""

    def __init__(self, *, skips_nulls: bool) -> None:
        self._skips_nulls = skips_nulls

    def create(self) -> list[str]:
        return []

    def add(self, accumulator: list[str], values: Row) -> list[str]:
        if values[0] is not None:
            accumulator.append(values[0])
        elif not self._skips_nulls:
            accumulator.append("null")
        return accumulator

    def retract(self, accumulator: list[str], values: Row) -> list[str]:
        item = "null" if values[0] is None else values[0]
        if item in accumulator:
            accumulator.remove(item)
        return accumulator

    def result(self, accumulator: list[str]) -> str:
        return f"[{','.join(accumulator)}]"


class JsonObject(Aggregate):
    """JSON_OBJECTAGG (Flink: JsonObjectAggFunction): the entries, and those retracted early."""

    def __init__(self, *, skips_nulls: bool) -> None:
        self._skips_nulls = skips_nulls

    def create(self) -> list[Entries]:
        return [{}, {}]

    def add(self, accumulator: list[Entries], values: Row) -> list[Entries]:
        key, value = values
        entries = accumulator[0]
        _check_new(entries, key)
        if not (value is None and self._skips_nulls):
            entries[key] = value
        return accumulator

    def retract(self, accumulator: list[Entries], values: Row) -> list[Entries]:
        key, value = values
        entries, early = accumulator
        if key in entries and entries[key] == value:
            del entries[key]
        else:
            early[key] = value
        return accumulator

    def merge(self, accumulator: list[Entries], other: list[Entries]) -> list[Entries]:
        entries, early = accumulator
        for key, value in other[1].items():
            self.retract(accumulator, (key, value))
        for key, value in other[0].items():
            if key in early and early[key] == value:
                del early[key]
            else:
                _check_new(entries, key)
                entries[key] = value
        return accumulator

    def result(self, accumulator: list[Entries]) -> str:
        entries = [
            f"{json.dumps(key, ensure_ascii=False)}:{'null' if value is None else value}"
            for key, value in accumulator[0].items()
        ]
        return f"{{{','.join(entries)}}}"


def _check_new(entries: Entries, key: str) -> None:
    if key in entries:
        raise FunctionFailed(
            f"Key '{key}' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure"
            " that keys are unique.",
            _TABLE_EXCEPTION,
        )


@aggregate("$JSON_ARRAYAGG_NULL_ON_NULL$1", "$JSON_ARRAYAGG_ABSENT_ON_NULL$1")
def _json_array(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return JsonArray(skips_nulls="ABSENT" in call.function)


@aggregate("$JSON_OBJECTAGG_NULL_ON_NULL$1", "$JSON_OBJECTAGG_ABSENT_ON_NULL$1")
def _json_object(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return JsonObject(skips_nulls="ABSENT" in call.function)
