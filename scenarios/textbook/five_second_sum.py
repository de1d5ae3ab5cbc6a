"""The sum of the numbers that a socket sends in five seconds, by the clock.

The spelling is the textbook's, deprecated since: ``time_window`` means the time of the clock unless
``set_stream_time_characteristic`` says otherwise. Today it is ``key_by`` with a function, and then ``window``
with ``TumblingProcessingTimeWindows``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceproof.engine import Time, Types
from onceproof.scenarios.textbook import _socket_input as socket_input

if TYPE_CHECKING:
    from onceproof.engine import DataStream

SIZE = Time.seconds(5)
NUMBER = Types.TUPLE([Types.LONG(), Types.LONG()])


def under_one_key(line: str) -> tuple[int, int]:
    """Return the number of a line under the key 1."""
    return 1, int(line)


def add(so_far: tuple[int, int], pair: tuple[int, int]) -> tuple[int, int]:
    """Add the numbers of one key."""
    return so_far[0], so_far[1] + pair[1]


def build(lines: DataStream, size: Time = SIZE) -> DataStream:
    """Add the numbers of each window."""
    return lines.map(under_one_key, NUMBER).key_by(0).time_window(size).reduce(add)


def main(arguments: Sequence[str] = ()) -> None:
    """Add the numbers of a socket."""
    socket_input.run("five-second sum", build, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
