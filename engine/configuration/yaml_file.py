"""Options in a file: Flink's config.yaml, nested or with keys joined by dots, and its former flat file.

The rules this module lives by:

- The file is data. It is parsed into nodes and never into objects, so no tag in it can run code.
- A value stays the text that was written: the option decides what ``off`` or ``1e3`` means, not YAML.
- Every error names FILE:LINE: a duplicate key, a missing value, an unknown option.
- A file has at most 1 MB, and mappings in mappings at most 50 deep.
- Anchors and tags are refused: no option needs one, and with anchors a small file can expand to a huge one.
- The flat file, flink-conf.yaml, never was YAML. A line is KEY: VALUE, split at the first colon with a space
  behind it; what follows a # is a comment. Flink skips a line that is neither, here it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, Final

from onceproof.engine.configuration.option import ConfigurationError
from onceproof.engine.outside_files import read_at_most

MOST_BYTES: Final = 1_000_000
MOST_NESTED: Final = 50


def read_yaml_file(path: str | PathLike[str]) -> list[tuple[str, str, str]]:
    """Read the settings of a file in order: key, value as written, and "FILE:LINE".

    Raises ConfigurationError if the file cannot be read or is not a mapping of options.
    """
    # Imported late: few jobs have a file, and all would wait for the parser.
    import yaml

    text = _text_of(path)
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_NESTED:
                line = event.start_mark.line + 1
                raise ConfigurationError(f"{path}:{line}: nested more than {MOST_NESTED} deep: no option is")
            if getattr(event, "anchor", None) or getattr(event, "tag", None):
                line = event.start_mark.line + 1
                raise ConfigurationError(f"{path}:{line}: anchors, aliases and tags mean nothing here")
        document = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = path if mark is None else f"{path}:{mark.line + 1}"
        raise ConfigurationError(f"{place}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return []
    return _placed(path, _flat(str(path), "", document))


def read_flat_file(path: str | PathLike[str]) -> list[tuple[str, str, str]]:
    """Read the settings of a flat file in order, as ``read_yaml_file`` does.

    Raises ConfigurationError if the file cannot be read or a line is no setting.
    """
    return _placed(path, _lines(str(path), _text_of(path)))


def _text_of(path: str | PathLike[str]) -> str:
    try:
        return read_at_most(path, MOST_BYTES).decode()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: it is not UTF-8 text") from error


def _lines(path: str, text: str) -> Iterator[tuple[str, str, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        setting = line.partition("#")[0].strip()
        if not setting:
            continue
        key, colon, value = setting.partition(": ")
        if not colon:
            raise ConfigurationError(f"{path}:{number}: not an option: write KEY: VALUE, or remove the line")
        yield key.strip(), value.strip(), number


def _placed(path: str | PathLike[str], found: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, str]]:
    """Return the settings with their places. Raises ConfigurationError for a key that comes twice."""
    settings: list[tuple[str, str, str]] = []
    lines: dict[str, int] = {}
    for key, value, line in found:
        if key in lines:
            raise ConfigurationError(f"{path}:{line}: option {key!r} stands in line {lines[key]} already")
        lines[key] = line
        settings.append((key, value, f"{path}:{line}"))
    return settings


def _flat(path: str, prefix: str, node: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the leaves of a mapping: the keys joined by dots, the value, and the line."""
    line = node.start_mark.line + 1
    if node.id != "mapping":
        what = f"option {prefix!r}" if prefix else "the file"
        raise ConfigurationError(f"{path}:{line}: {what} must be a mapping of keys to values")
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.id != "scalar" or not key_node.value:
            raise ConfigurationError(f"{path}:{line}: a key must be a text")
        key = f"{prefix}.{key_node.value}" if prefix else key_node.value
        if value_node.id == "mapping":
            yield from _flat(path, key, value_node)
        elif value_node.id != "scalar":
            raise ConfigurationError(f"{path}:{line}: option {key!r} has a list; it takes one value")
        elif value_node.tag == "tag:yaml.org,2002:null":
            raise ConfigurationError(f"{path}:{line}: option {key!r} has no value: give it one, or remove it")
        else:
            yield key, value_node.value, line
