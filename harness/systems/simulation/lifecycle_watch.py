"""Looks whether the functions of a simulated run are opened, notified and closed, live.

Rules:

- An operator opens each of its functions once and closes it once. It notifies its function of checkpoints if
  that listens.
- The same holds for functions that the engine's own functions hold, such as that of a window join; they are
  found among its attributes. What a user's function holds is the user's business.
- Only the calls count that the operator makes in the step of that name: a function may close itself.
- Only what an operator does to its end is judged: nothing closes the functions of a process that is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from onceproof.engine.functions import CheckpointListener, Function
from onceproof.engine.operators.base import FunctionOperator, Operator
from onceproof.engine.operators.window import WindowOperator
from onceproof.harness.systems.simulation.deviations import Deviations

_OPENED: Final = ("open", "close")
_NOTICES: Final = ("notify_checkpoint_complete", "notify_checkpoint_aborted")
_ENGINE: Final = "onceproof.engine."


class LifecycleWatch:
    """The watched operators of an attempt."""

    def __init__(self) -> None:
        self._hooked: list[Any] = []

    def watched(self, watch: Deviations, operator: Operator) -> Operator:
        """Return an operator; it is watched if it has functions."""
        if isinstance(operator, FunctionOperator):
            functions = _Functions(watch, operator, self._hooked)
            for name in (*_OPENED, *_NOTICES):
                _hook(operator, name, partial(functions.asked, name))
            self._hooked.append(operator)
        return operator

    def let_go(self) -> None:
        """Give operators and functions their own methods back, which hold what holds them."""
        for each in self._hooked:
            for name in (*_OPENED, *_NOTICES):
                vars(each).pop(name, None)
        self._hooked.clear()


class _Functions:
    """The functions of one operator, and how often each was called."""

    def __init__(self, watch: Deviations, operator: FunctionOperator, hooked: list[Any]) -> None:
        self._watch = watch
        self._operator = operator
        self._hooked = hooked
        self._functions: list[Function] = []
        self._calls: Counter[tuple[int, str]] = Counter()
        """By function and method."""
        self._notices: list[tuple[str, int]] = []
        """What the function of the operator was notified of, since it was judged."""
        self._step = ""
        """What the operator is asked now."""

    def asked(self, name: str, answer: Callable[..., Any], *arguments: Any) -> Any:
        """Answer as the operator does, and judge what it has called."""
        if name == "open":
            self._hook_functions()
        self._step = name
        try:
            answered = answer(*arguments)
        finally:
            self._step = ""
        if name in _NOTICES:
            listens = isinstance(self._operator.function, CheckpointListener)
            self._compare(name, [(name, *arguments)] * listens, self._notices)
            self._notices.clear()
        else:
            counts = [self._calls[id(each), name] for each in self._functions]
            self._compare(name, [1] * len(counts), counts)
        return answered

    def _hook_functions(self) -> None:
        self._functions = list(_with_held(_own_functions(self._operator)))
        for function in self._functions:
            for name in _OPENED:
                _hook(function, name, partial(self._called, id(function), name))
            # As in Flink, an operator notifies its function, and no other that this one holds.
            if function is self._operator.function and isinstance(function, CheckpointListener):
                for name in _NOTICES:
                    _hook(function, name, partial(self._noticed, name))
            self._hooked.append(function)

    def _called(self, function: int, name: str, answer: Callable[..., Any], *arguments: Any) -> Any:
        self._calls[function, name] += name == self._step
        return answer(*arguments)

    def _noticed(self, name: str, answer: Callable[..., Any], checkpoint_id: int) -> Any:
        if name == self._step:
            self._notices.append((name, checkpoint_id))
        return answer(checkpoint_id)

    def _compare(self, event: str, expected: list[Any], got: list[Any]) -> None:
        if got != expected and not self._watch.has_deviated:
            name = f"functions of an operator with {type(self._operator.function).__name__}"
            self._watch.deviate(name, event, f"calls {expected}", f"calls {got}")


def _own_functions(operator: FunctionOperator) -> Sequence[Function]:
    return operator.functions.all() if isinstance(operator, WindowOperator) else [operator.function]


def _with_held(functions: Sequence[Function]) -> Iterator[Function]:
    """Yield functions, and those that the attributes of the engine's own ones hold."""
    for function in functions:
        yield function
        if type(function).__module__.startswith(_ENGINE):
            yield from _with_held([each for each in vars(function).values() if isinstance(each, Function)])


def _hook(owner: Any, name: str, asked: Callable[..., Any]) -> None:
    answer = getattr(owner, name)

    # A plain function: the explanation of failures looks at all other attributes of a user's function.
    def hooked(*arguments: Any) -> Any:
        return asked(answer, *arguments)

    vars(owner)[name] = hooked
