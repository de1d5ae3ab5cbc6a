"""Records in flight when a checkpoint was taken, and their stored form (Flink: channel state).

The rules this module lives by:

- A record in flight has no declared type. Self-describing values are stored as they are; other values are
  pickled if the job allows pickled state, and refused otherwise.
- They form a second part of their task's file, behind its state, with a checksum of its own. A restore can
  read either part without the other.
- They are copied when they are recorded, because they are encoded later: by then the operator that processed
  them may have changed them (for example by merging into the first of two accumulators).
- Only records are stored, neither watermarks nor barriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from onceproof.engine.elements import Buffer, Record
from onceproof.engine.owned import own
from onceproof.engine.state.file_envelope import (
    CHANNELS_MAGIC,
    DamagedFile,
    StateError,
    pickle_refused,
    seal,
    unseal,
)
from onceproof.engine.types.dynamic import (
    PICKLED,
    NotDescribable,
    PickleForbidden,
    decode_extension,
    pack,
    pickled,
    unpickled,
)

INPUT: Final = "input"
OUTPUT: Final = "output"


class ChannelId(msgspec.Struct, frozen=True, array_like=True):
    """Names one channel in a checkpoint, and the ``side`` whose queue was stored.

    ``source`` and ``target`` are the ids of the operators that the channel connects, ``number`` is the index
    of its edge among those between the two; ``sender`` and ``receiver`` are subtasks.
    """

    side: Literal["input", "output"]
    source: str
    target: str
    number: int
    sender: int
    receiver: int


ChannelRecords: TypeAlias = Mapping[ChannelId, Sequence[Buffer]]
"""The buffers in flight by channel, in order."""

NO_RECORDS: Final[ChannelRecords] = {}


class ChannelIndex(msgspec.Struct, frozen=True, array_like=True):
    """Describes the records in flight of a file: its last ``length`` bytes, and the records by channel."""

    length: int
    sha256: str
    channels: tuple[tuple[ChannelId, int], ...]

    @property
    def records(self) -> int:
        """The number of records in all channels."""
        return sum([count for _, count in self.channels])


class _StoredChannel(msgspec.Struct, frozen=True, array_like=True):
    channel: ChannelId
    records: bytes


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[_StoredChannel])


def detached(buffer: Buffer) -> Buffer:
    """Copy a buffer so that later changes of its values do not reach the copy."""
    return [record if (value := own(record[0])) is record[0] else (value, record[1]) for record in buffer]


def encode_channels(records: ChannelRecords, *, allow_pickle: bool) -> tuple[bytes, ChannelIndex]:
    """Return the part of a file that holds records in flight, and its index for the metadata.

    Raises StateError if a record cannot be stored.
    """
    stored: list[_StoredChannel] = []
    counts: list[tuple[ChannelId, int]] = []
    for channel, buffers in records.items():
        packed = [
            (_pack(value, channel, allow_pickle), timestamp)
            for buffer in buffers
            for value, timestamp in buffer
        ]
        stored.append(_StoredChannel(channel, _ENCODER.encode(packed)))
        counts.append((channel, len(packed)))
    data, digest = seal(CHANNELS_MAGIC, _ENCODER.encode(stored))
    return data, ChannelIndex(len(data), digest, tuple(counts))


def _pack(value: Any, channel: ChannelId, allow_pickle: bool) -> Any:
    try:
        return pack(value)
    except (NotDescribable, RecursionError) as error:
        opaque = error.value if isinstance(error, NotDescribable) else value
        if allow_pickle:
            try:
                return pickled(value)
            except Exception as refused:
                raise StateError(
                    f"a record in flight is a {type(opaque).__qualname__}, and pickle refuses it: {refused}:"
                    " let the job exchange other values"
                ) from refused
        raise StateError(
            f"a record in flight is a {type(opaque).__qualname__}, which has no typed form: let the job"
            " exchange plain values, tuples, rows, lists, dicts, sets, dates,"
            " and dataclasses, named tuples and enums of them, set pipeline.allow-pickled-state to true,"
            " or leave execution.checkpointing.unaligned.enabled off"
        ) from error


def decode_channels(
    data: bytes, index: ChannelIndex, path: str, *, allow_pickle: bool
) -> dict[ChannelId, list[Record]]:
    """Read the records in flight at the end of the file ``data``; ``index`` comes from the metadata.

    Raises DamagedFile, or PickleRefused if they are pickled and the job does not allow that.
    """
    body, digest = unseal(CHANNELS_MAGIC, data[len(data) - index.length :], path)
    if digest != index.sha256:
        raise DamagedFile(path, "its records in flight are others than those that the metadata lists")

    def extension(code: int, content: memoryview) -> Any:
        if code != PICKLED:
            return decode_extension(code, content)
        if not allow_pickle:
            raise PickleForbidden
        return unpickled(content)

    try:
        decoder = msgspec.msgpack.Decoder(list[tuple[Any, int | None]], ext_hook=extension)
        return {stored.channel: decoder.decode(stored.records) for stored in _DECODER.decode(body)}
    except PickleForbidden:
        raise pickle_refused(f"{path}: a record in flight") from None
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, f"its records in flight cannot be read ({error})") from error
