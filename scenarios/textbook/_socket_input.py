"""How the programs that read a socket are started: ``program.py HOST PORT``; ``nc -lk 9999`` is a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onceproof.engine import DataStream

HOST: Final = "localhost"
PORT: Final = 9999


def run(name: str, build: Callable[[DataStream], DataStream], arguments: Sequence[str]) -> None:
    """Run a program at parallelism 1 on the lines of a socket, and print what it emits.

    Args:
        name: the name of the job.
        build: the operators of the program.
        arguments: host and port; ``localhost`` and 9999 if there are none.
    """
    from onceproof.engine import StreamExecutionEnvironment

    if len(arguments) not in (0, 2) or not all(port.isdigit() for port in arguments[1:]):
        sys.exit(f"{name}: give a host and a port, such as localhost 9999")
    host, port = arguments or (HOST, str(PORT))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.socket_text_stream(host, int(port))).print()
    env.execute(name)
