"""State backends of the user's own, named by their class in an option (Flink: StateBackendFactory).

Rules:

- `state.backend.type` names the class of a factory, as `package.module.Class`. It is imported in each process
  that runs tasks, so naming a class is running its module.
- A factory is made without arguments, and makes a keyed backend for each subtask with keyed state.
- Snapshots are those of the backend that it makes. One that inherits from a backend of the engine can restore
  its savepoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module

from onceproof.engine.configuration.backend_options import STATE_BACKEND
from onceproof.engine.configuration.option import ConfigurationError
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.types import TypeInformation


class StateBackendFactory(ABC):
    """Makes the keyed state of subtasks (Flink: StateBackendFactory, StateBackend)."""

    @abstractmethod
    def create_keyed_state_backend(
        self,
        max_parallelism: int,
        key_groups: tuple[int, int],
        key_type: TypeInformation | None,
        clock: Callable[[], int],
    ) -> KeyedStateBackend:
        """Return an empty keyed backend; the engine restores its state afterwards.

        Args:
            max_parallelism: the number of key groups of the operator.
            key_groups: the first and the last key group of the subtask.
            key_type: the declared type of keys, or None.
            clock: returns the wall clock in milliseconds.
        """


def backend_factory(path: str) -> StateBackendFactory:
    """Return a factory of the class that ``path`` names.

    Raises:
        ConfigurationError: there is no such class, it is no StateBackendFactory, or it cannot be made.
    """
    module_name, _, class_name = path.rpartition(".")
    said = f"option {STATE_BACKEND.key!r} is {path}"
    try:
        factory_class = vars(import_module(module_name)).get(class_name)
    except ImportError as error:
        raise ConfigurationError(
            f"{said}, and {module_name} cannot be imported: {error}: make it importable, or name another"
        ) from error
    if not isinstance(factory_class, type) or not issubclass(factory_class, StateBackendFactory):
        raise ConfigurationError(
            f"{said}, and {module_name} has no StateBackendFactory of this name: name a class that inherits"
            " from onceproof.engine.StateBackendFactory"
        )
    try:
        return factory_class()
    except TypeError as error:
        raise ConfigurationError(f"{said}, which cannot be made without arguments: {error}") from error
