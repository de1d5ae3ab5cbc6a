"""engine/docs/pyflink.md lists what PyFlink has and the engine lacks, all of it and nothing else.

The public surface of `pyflink.datastream` and `pyflink.common` is read from the wheel: classes, members of
classes, functions. What a class lacks is not listed again for those that inherit from it, and a class that is
absent stands for its members.
"""

from __future__ import annotations

import re
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any

from onceproof import engine
from tests.engine.pyflink_wheel import classes, members, public_classes, public_functions

PAGE = Path(engine.__file__).parent / "docs" / "pyflink.md"
ITEM = re.compile(r"^- (?:`([\w.]+)`: )?(.+?)(?=^[-#]|^$|\Z)", re.MULTILINE | re.DOTALL)


def ours(name: str) -> Any:
    try:
        return attrgetter(name)(engine)
    except AttributeError:
        return None


def lacks_of(name: str) -> set[str]:
    """The public members of PyFlink's class that ours does not have."""
    missing = {each for each in members(name) if not hasattr(ours(name), each)}
    bases = (base.__name__ for base in ours(name).__mro__[1:])
    return missing.difference(*(members(base) for base in bases if base in classes() and ours(base)))


def lacking() -> set[str]:
    """Absent classes and functions by name, absent members as `Class.member`."""
    absent = {name for name in public_classes() if "." not in name and ours(name) is None}
    absent |= {name for name in public_functions() if ours(name) is None}
    return absent | {
        f"{name}.{member}" for name in public_classes() if ours(name) is not None for member in lacks_of(name)
    }


def listed() -> list[str]:
    """What the page says: lines such as "- `DataStream`: `cache`" and "- `KafkaSource`, `KafkaSink`"."""
    found = []
    for owner, names in ITEM.findall(PAGE.read_text(encoding="utf-8")):
        found += [f"{owner}.{name}" if owner else name for name in re.findall(r"`([\w.]+)`", names)]
    return found


def test_page_lists_all_that_the_engine_lacks() -> None:
    assert sorted(lacking() - set(listed())) == []


def test_page_lists_nothing_that_the_engine_has() -> None:
    assert sorted(set(listed()) - lacking()) == []


def test_page_lists_nothing_twice() -> None:
    assert [name for name, times in Counter(listed()).items() if times > 1] == []


def test_each_group_of_the_page_gives_its_reason_before_its_list() -> None:
    _, *groups = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(groups) > 4
    for group in groups:
        title, _, rest = group.partition("\n\n")
        assert len(rest.split("\n- ")[0].split()) >= 5, title
