"""The form in which processes of one program pass values to each other: records, messages, states.

Pickle is read here. So this is for pipes that only a program and its own forks hold: what comes from a
file, from another program or over a network is never decoded here.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

_PROTOCOL: Final = 5


def encode(value: Any) -> bytes:
    """Return the bytes of a value. Raises NotExchangeable."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise NotExchangeable(
            f"a value cannot pass to another process: {error}: let the job exchange values that pickle takes,"
            " or set execution.local.workers to 1"
        ) from error


def decode(data: bytes) -> Any:
    """Return the value that another process of this program has encoded."""
    return pickle.loads(data)


class NotExchangeable(TypeError):
    """A value has no form in which another process can read it."""
