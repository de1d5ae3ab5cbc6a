"""Key groups: drives onceproof.engine.key_groups and the types' hash codes."""

from typing import Any

from onceproof.engine.java_hashes import java_hash
from onceproof.engine.key_groups import (
    default_max_parallelism,
    key_group,
    key_group_range,
    murmur,
    operator_id,
    operator_index,
)
from onceproof.engine.types import TypeInformation, Types

SCALARS = {
    "string": Types.STRING(),
    "char": Types.CHAR(),
    "byte": Types.BYTE(),
    "short": Types.SHORT(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "bool": Types.BOOLEAN(),
    "boolean": Types.BOOLEAN(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
}


def typed(key: list[Any]) -> tuple[TypeInformation, Any]:
    """Read ``[type, value]``; a tuple is ``[tupleN, field...]``."""
    name, *parts = key
    if name.startswith("tuple"):
        fields = [typed(part) for part in parts]
        return Types.TUPLE([kind for kind, _ in fields]), tuple(value for _, value in fields)
    (value,) = parts
    if name in ("float", "double"):
        return SCALARS[name], float(value)
    if name == "bytes":
        return Types.PRIMITIVE_ARRAY(Types.BYTE()), bytes(byte % 256 for byte in value)
    return SCALARS[name], value


def java_code(kind: TypeInformation, key: Any) -> int:
    """Ask for Java's hash code, before the engine makes equal floats one key."""
    return java_hash(key, kind.java_hash_kind) if kind in SCALARS.values() else kind.java_hash(key)


def assign(given: dict[str, Any]) -> dict[str, Any]:
    hashes = [java_code(kind, key) for kind, key in map(typed, given["keys"])]
    groups = [key_group(code, given["max_parallelism"]) for code in hashes]
    return {
        "java_hash": hashes,
        "key_group": groups,
        "subtask": [
            operator_index(given["max_parallelism"], given["parallelism"], group) for group in groups
        ],
    }


ADAPTERS = {
    "keygroup.murmur": lambda given: {"murmur": [murmur(code) for code in given["hash_codes"]]},
    "keygroup.assign": assign,
    "keygroup.range": lambda given: {
        "ranges": [
            key_group_range(given["max_parallelism"], given["parallelism"], subtask)
            for subtask in range(given["parallelism"])
        ]
    },
    "keygroup.operator_index": lambda given: {
        "subtask": [
            operator_index(given["max_parallelism"], given["parallelism"], group)
            for group in given["key_groups"]
        ]
    },
    "keygroup.default_max_parallelism": lambda given: {
        "max_parallelism": [default_max_parallelism(parallelism) for parallelism in given["parallelisms"]]
    },
    "operator_id.from_uid": lambda given: {"operator_id": {uid: operator_id(uid) for uid in given["uids"]}},
}
