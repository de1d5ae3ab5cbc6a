"""engine/docs/flink.md lists what PyFlink has and the engine lacks, all of it and nothing else.

What only hands objects to Java (``get_java_function`` and the like) is left out, and what a class lacks is
not listed again for the classes that inherit from it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from onceproof import engine

PYFLINK = json.loads(Path(__file__).with_name("pyflink_api.json").read_text())["classes"]
PAGE = Path(engine.__file__).parent / "docs" / "flink.md"
TITLE = "## What PyFlink has and the engine lacks\n"
FOR_JAVA = re.compile(r"java|get_transformer")


def lacks_of(name: str) -> set[str]:
    """The public members of PyFlink's class that ours does not have."""
    ours = getattr(engine, name)
    members = {each for each in PYFLINK[name] if not hasattr(ours, each) and not FOR_JAVA.search(each)}
    inherited = (base.__name__ for base in ours.__mro__[1:] if base.__name__ in PYFLINK)
    return members.difference(*(PYFLINK[base] for base in inherited))


def lacking() -> dict[str, set[str]]:
    """By class, what it lacks; under "classes" those that are not there at all."""
    offered = {name for name in PYFLINK if hasattr(engine, name)}
    found = {"classes": set(PYFLINK) - offered}
    found.update((name, lacks_of(name)) for name in offered)
    return {name: lacks for name, lacks in found.items() if lacks}


def listed() -> dict[str, set[str]]:
    """What the page says: lines such as "- `DataStream`: `cache`, `shuffle`"."""
    section = PAGE.read_text().split(TITLE)[1].split("\n## ")[0]
    found = {}
    for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        name, members = item.split(":", 1)
        found[name.strip("`").lower() if name == "Classes" else name.strip("`")] = set(
            re.findall(r"`(\w+)`", members)
        )
    return found


def test_page_lists_what_the_engine_lacks() -> None:
    assert listed() == lacking()
