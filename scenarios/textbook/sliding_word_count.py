"""Words of a socket in the last ten seconds, every five seconds, by the clock.

The spelling is the textbook's, deprecated since: ``time_window`` means the time of the clock unless
``set_stream_time_characteristic`` says otherwise. Today it is ``key_by`` with a function, and then ``window``
with ``SlidingProcessingTimeWindows``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceproof.engine import Time
from onceproof.scenarios.textbook import _socket_input as socket_input
from onceproof.scenarios.textbook.word_counts import COUNT, words_of

if TYPE_CHECKING:
    from onceproof.engine import DataStream

SIZE = Time.seconds(10)
SLIDE = Time.seconds(5)


def build(lines: DataStream, size: Time = SIZE, slide: Time = SLIDE) -> DataStream:
    """Count the words of sliding windows."""
    return lines.flat_map(words_of, COUNT).key_by(0).time_window(size, slide).sum(1)


def main(arguments: Sequence[str] = ()) -> None:
    """Count the words of a socket."""
    socket_input.run("sliding word count", build, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
