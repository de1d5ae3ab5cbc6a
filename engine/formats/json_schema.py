"""The types of rows that a JSON schema describes (Flink: JsonRowSchemaConverter).

The rules this module lives by:

- An object is a row with names, an array a list, an array with a list of ``items`` a row without names.
- Numbers and integers are decimals, as in Flink; texts with the format date, time or date-time are such.
- A type may be joined with null, by a list of types or ``oneOf``. Any other union is refused, and so are
  ``allOf``, ``anyOf`` and ``not``.
- A reference leads into the same document. One that leads back to itself is refused, and so is a schema
  nested deeper than ``MOST_LEVELS`` or with more than ``MOST_PARTS``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.types import TypeInformation, Types

LONGEST_SCHEMA: Final = 1 << 20
MOST_LEVELS: Final = 50
MOST_PARTS: Final = 10_000
"""Parts of a schema, each counted as often as references lead to it."""

_UNIONS: Final = ("allOf", "anyOf", "not", "extends", "disallow")
_FORMATS: Final = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


class InvalidJsonSchema(UnrecoverableError, ValueError):
    """A text is not JSON schema of rows. The message is one line."""


def row_type_of_json_schema(json_schema: str) -> TypeInformation:
    """Return the type that a JSON schema describes.

    Raises:
        TypeError: it is not text.
        InvalidJsonSchema: it is not JSON, or describes what no row has.
    """
    if not isinstance(json_schema, str):
        raise TypeError(f"the JSON schema must be text, not {json_schema!r}")
    if len(json_schema) > LONGEST_SCHEMA:
        raise InvalidJsonSchema(f"the JSON schema is longer than {LONGEST_SCHEMA} characters")
    try:
        root = json.loads(json_schema)
    except RecursionError:
        raise InvalidJsonSchema("the JSON schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidJsonSchema(f"the JSON schema is not JSON: {' '.join(str(error).split())}") from None
    return _Converter(root).type_of(root, "<root>", 0)


class _Converter:
    """Converts the parts of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._parts = 0

    def type_of(self, node: Any, place: str, level: int) -> TypeInformation:
        """Return the type of a part. Raises InvalidJsonSchema."""
        if level > MOST_LEVELS:
            raise InvalidJsonSchema(
                f"the JSON schema is deeper than {MOST_LEVELS} levels at {place[:80]}, or refers to itself"
            )
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise InvalidJsonSchema(f"the JSON schema has more than {MOST_PARTS} parts, references followed")
        if not isinstance(node, dict):
            raise InvalidJsonSchema(f"{place} of the JSON schema is not an object")
        for word in _UNIONS:
            if word in node:
                raise InvalidJsonSchema(
                    f"{place} of the JSON schema has {word!r}: give one type, or one and null"
                )
        found = self._declared(node, place, level)
        kinds = [kind for kind in dict.fromkeys(found) if kind is not Types.VOID()]
        if not found:
            raise InvalidJsonSchema(f"{place} of the JSON schema has no type")
        if len(kinds) > 1:
            raise InvalidJsonSchema(
                f"{place} of the JSON schema has {len(kinds)} types: give one, or one and null"
            )
        return kinds[0] if kinds else Types.VOID()

    def _declared(self, node: dict[str, Any], place: str, level: int) -> list[TypeInformation]:
        found: list[TypeInformation] = []
        referred = self._referred(node["$ref"], place) if isinstance(node.get("$ref"), str) else {}
        declared = node.get("type")
        if declared is not None:
            for word in declared if isinstance(declared, list) else [declared]:
                found.append(self._of_word(word, node, place, level))
        elif "type" in referred:
            found.append(self.type_of(referred, str(node["$ref"]), level + 1))
        choices = node.get("oneOf", referred.get("oneOf") if "type" not in referred else None)
        if isinstance(choices, list):
            found += [
                self.type_of(choice, f"{place}/oneOf[{number}]", level + 1)
                for number, choice in enumerate(choices)
            ]
        return found

    def _of_word(self, word: Any, node: dict[str, Any], place: str, level: int) -> TypeInformation:
        match word:
            case "null":
                return Types.VOID()
            case "boolean":
                return Types.BOOLEAN()
            case "number" | "integer":
                return Types.BIG_DEC()
            case "string":
                return self._text(node, place)
            case "object":
                return self._object(node, place, level)
            case "array":
                return self._array(node, place, level)
        raise InvalidJsonSchema(f"{place} of the JSON schema has the unknown type {str(word)[:60]!r}")

    def _text(self, node: dict[str, Any], place: str) -> TypeInformation:
        if "format" in node:
            return _FORMATS.get(str(node["format"]), Types.STRING)()
        encoding = node.get("contentEncoding")
        if encoding is None:
            return Types.STRING()
        if encoding != "base64":
            raise InvalidJsonSchema(
                f"{place} of the JSON schema has the encoding {str(encoding)[:60]!r}: only base64 is known"
            )
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    def _object(self, node: dict[str, Any], place: str, level: int) -> TypeInformation:
        members = node.get("properties")
        if members is None:
            return Types.ROW([])
        if not isinstance(members, dict):
            raise InvalidJsonSchema(f"{place}/properties of the JSON schema is not an object")
        if node.get("additionalProperties") is True:
            raise InvalidJsonSchema(
                f"{place} of the JSON schema allows additional properties, which no row has"
            )
        kinds = [self.type_of(member, f"{place}/{name}", level + 1) for name, member in members.items()]
        return Types.ROW_NAMED(list(members), kinds)

    def _array(self, node: dict[str, Any], place: str, level: int) -> TypeInformation:
        items = node.get("items")
        if isinstance(items, dict):
            return Types.OBJECT_ARRAY(self.type_of(items, f"{place}/items", level + 1))
        if not isinstance(items, list):
            raise InvalidJsonSchema(f"{place} of the JSON schema is an array without items: name their type")
        if node.get("additionalItems") is True:
            raise InvalidJsonSchema(f"{place} of the JSON schema allows additional items, which no row has")
        return Types.ROW(
            [self.type_of(item, f"{place}/items[{number}]", level + 1) for number, item in enumerate(items)]
        )

    def _referred(self, reference: str, place: str) -> dict[str, Any]:
        """Return the part that a reference leads to."""
        if not reference.startswith("#"):
            raise InvalidJsonSchema(
                f"{place} of the JSON schema refers to {reference[:60]!r}: refer to a part of it"
            )
        part: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, list) and name.isdecimal() and int(name) < len(part):
                part = part[int(name)]
            elif isinstance(part, dict) and name in part:
                part = part[name]
            else:
                raise InvalidJsonSchema(
                    f"{place} of the JSON schema refers to {reference[:60]!r}, which is not there"
                )
        return part if isinstance(part, dict) else {}
