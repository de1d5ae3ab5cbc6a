"""The same word count three ways: a file as a batch, the file as a stream, a socket without end.

A batch gives one final count for each word, a stream each running count::

    python scenarios/textbook/word_counts.py batch FILE
    python scenarios/textbook/word_counts.py stream FILE
    python scenarios/textbook/word_counts.py socket HOST PORT

With ``onceproof job run`` the mode can be set from outside: ``execution.runtime-mode`` is ``BATCH``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceproof.engine import RuntimeExecutionMode, StreamExecutionEnvironment, Types
from onceproof.scenarios.textbook import _socket_input as socket_input

if TYPE_CHECKING:
    from onceproof.engine import DataStream

COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])


def words_of(line: str) -> list[tuple[str, int]]:
    """Return each word of a line with the number 1."""
    return [(word, 1) for word in line.split()]


def word_of(pair: tuple[str, int]) -> str:
    """Return the word of a pair."""
    return pair[0]


def build(lines: DataStream) -> DataStream:
    """Count the words of all lines."""
    return lines.flat_map(words_of, COUNT).key_by(word_of, Types.STRING()).sum(1)


def main(arguments: Sequence[str]) -> None:
    """Count words in the way that the arguments say."""
    match arguments:
        case ["socket", *place]:
            socket_input.run("word counts", build, place)
        case ["batch" | "stream" as mode, path]:
            env = StreamExecutionEnvironment.get_execution_environment()
            env.set_parallelism(1)
            if mode == "batch":
                env.set_runtime_mode(RuntimeExecutionMode.BATCH)
            build(env.read_text_file(path)).print()
            env.execute("word counts")
        case _:
            sys.exit("word counts: give `batch FILE`, `stream FILE` or `socket HOST PORT`")


if __name__ == "__main__":
    main(sys.argv[1:])
