"""Hashes, encodings, identifiers, and functions that look at the types or the time of the job."""

from __future__ import annotations

import base64
import binascii
import codecs
import hashlib
import random
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.java_hashes import hash_bool, hash_decimal, hash_double, hash_float, hash_long
from onceproof.engine.table.expressions.java_strings import java_hash
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    FunctionFailed,
    Scope,
    builder,
    constant,
    strict,
)
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import INTEGERS, TEXTS, LogicalType
from onceproof.engine.table.values import NANOS_PER_MS, Row

# ---- hashes and encodings

_HASHES: Final = {
    "$MD5$1": "md5",
    "$SHA1$1": "sha1",
    "$SHA224$1": "sha224",
    "$SHA256$1": "sha256",
    "$SHA384$1": "sha384",
    "$SHA512$1": "sha512",
}


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@strict(*_HASHES)
def _hash(call: Call, scope: Scope) -> Callable[[Any], str]:
    name = _HASHES[call.name]
    return lambda value: hashlib.new(name, _bytes(value)).hexdigest()


@strict("$SHA2$1")
def _sha2(call: Call, scope: Scope) -> Callable[[Any, int], str]:
    def digest(value: Any, bits: int) -> str:
        if bits not in (224, 256, 384, 512):
            raise FunctionFailed("Unsupported algorithm.", "org.apache.flink.table.codegen.CodeGenException")
        return hashlib.new(f"sha{bits}", _bytes(value)).hexdigest()

    return digest


@strict("$TO_BASE64$1")
def _to_base64(call: Call, scope: Scope) -> Callable[[Any], str]:
    return lambda value: base64.b64encode(_bytes(value)).decode()


@strict("$FROM_BASE64$1")
def _from_base64(call: Call, scope: Scope) -> Callable[[Any], Any]:
    text = call.type.root in TEXTS

    def decode(value: Any) -> Any:
        data = _bytes(value)
        try:
            found = base64.b64decode(data + b"=" * (-len(data) % 4), validate=True)
        except binascii.Error:
            raise FunctionFailed("Illegal base64 character", "java.lang.IllegalArgumentException") from None
        return found.decode("utf-8", "replace") if text else found

    return decode


@strict("$HEX$1")
def _hex(call: Call, scope: Scope) -> Callable[[Any], str]:
    if call.operands[0].type.root in INTEGERS:
        return lambda value: f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"
    return lambda value: _bytes(value).hex().upper()


@strict("$UNHEX$1")
def _unhex(call: Call, scope: Scope) -> Callable[[str], bytes | None]:
    def decode(text: str) -> bytes | None:
        if re.fullmatch(r"[0-9a-fA-F]*", text) is None:
            return None
        # Flink checks a first digit without a pair, and takes a zero for it.
        return bytes.fromhex(text if len(text) % 2 == 0 else f"00{text[1:]}")

    return decode


def _charset(name: str, message: str) -> str:
    try:
        return codecs.lookup("utf-16" if name.upper() == "UTF-16" else name).name
    except LookupError:
        raise FunctionFailed(message, "java.io.UnsupportedEncodingException") from None


@strict("$ENCODE$1")
def _encode(call: Call, scope: Scope) -> Callable[[str, str], bytes]:
    def encode(text: str, charset: str) -> bytes:
        name = _charset(charset, f"Unsupported encoding: {charset}")
        if name == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(name, "replace")

    return encode


@strict("$DECODE$1")
def _decode(call: Call, scope: Scope) -> Callable[[bytes, str], str]:
    return lambda data, charset: data.decode(_charset(charset, f"Unsupported encoding: {charset}"), "replace")


@builder("$UUID$1")
def _uuid(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    source = random.SystemRandom()
    return lambda row: str(uuid.UUID(int=source.getrandbits(128), version=4))


_HASH_CODES: Final[dict[str, Callable[[Any], int]]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "DATE", "TIME"), int),
    "BIGINT": hash_long,
    "BOOLEAN": hash_bool,
    "FLOAT": hash_float,
    "DOUBLE": hash_double,
    "DECIMAL": hash_decimal,
}
"""The hash codes by which the planner splits an aggregate with DISTINCT into buckets."""


@strict("$HASH_CODE$1")
def _hash_code(call: Call, scope: Scope) -> Callable[[Any], int]:
    root = call.operands[0].type.root
    if root in _HASH_CODES:
        return _HASH_CODES[root]
    if root not in TEXTS:
        raise UnsupportedPlan(f"function $HASH_CODE$1 of {root}")
    return lambda text: abs(java_hash(text))


@strict("$INET_ATON$1")
def _inet_aton(call: Call, scope: Scope) -> Callable[[str], int | None]:
    """Return the number of an IPv4 address; one of fewer parts has its last part at the end, as in MySQL."""

    def number(text: str) -> int | None:
        parts = text.split(".")
        if not 1 <= len(parts) <= 4 or not all(re.fullmatch("[0-9]+", part) for part in parts):
            return None
        numbers = [int(part) for part in parts]
        if any(each > 255 for each in numbers):
            return None
        *first, last = numbers
        return sum([each << (24 - 8 * place) for place, each in enumerate(first)]) + last

    return number


@strict("$INET_NTOA$1")
def _inet_ntoa(call: Call, scope: Scope) -> Callable[[int], str | None]:
    def text(number: int) -> str | None:
        if not 0 <= number <= 0xFFFF_FFFF:
            return None
        return ".".join([str(each) for each in number.to_bytes(4, "big")])

    return text


# ---- the job


@builder("$AS$1")
def _as(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """A name changes nothing."""
    return operands[0]


@builder("$TYPEOF$1")
def _typeof(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    kind = call.operands[0].type
    force = len(operands) > 1 and bool(operands[1](()))
    text = serializable_text(kind) if force else str(kind)
    of = operands[0]

    def evaluate(row: Row) -> str:
        # A value that fails the job does so in Flink although only its type is asked for.
        of(row)
        return text

    return evaluate


def serializable_text(kind: LogicalType) -> str:
    """Return a type as it is written in SQL (Flink: asSerializableString)."""
    text = str(kind).replace("STRING", "VARCHAR(2147483647)").replace("BYTES", "VARBINARY(2147483647)")
    text = re.sub(r"TIMESTAMP_LTZ\((\d)\)(?: \*\w+\*)?", r"TIMESTAMP(\1) WITH LOCAL TIME ZONE", text)
    return re.sub(r" \*\w+\*", "", text)


_SESSION: Final = {
    "$CURRENT_DATABASE$1": ("$current-database", "default_database"),
    "$CURRENT_CATALOG$1": ("$current-catalog", "default_catalog"),
}


@builder(*_SESSION)
def _session(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    key, usual = _SESSION[call.name]
    return constant(scope.options.get(key, usual))


@builder("$CURRENT_WATERMARK$1")
def _current_watermark(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    moment = scope.moment

    def evaluate(row: Row) -> int | None:
        return None if moment.watermark == MIN_WATERMARK else moment.watermark * NANOS_PER_MS

    return evaluate


@builder("$DEFAULT$1")
def _default(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """An optional argument that is not given."""
    return constant(None)
