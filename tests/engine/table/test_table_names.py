"""Every name of PyFlink's tables is there, or has a reason why it is not."""

import pytest

from onceproof.engine.table.api.expression import METHODS, PROPERTIES
from onceproof.engine.table.api.names import NAMES, missing_names, why_missing
from tests.engine.pyflink_surface import surface

OTHERS = ("sources", "sinks", "serializers", "utils", "descriptors")
"""Modules of the Table API before 1.14, and those that serve PyFlink itself."""


def recorded():
    """Iterate over the names of the newest PyFlink, members as Class.member."""
    found = surface()
    for module, names in found.names.items():
        if module.startswith("pyflink.table") and not module.endswith(OTHERS):
            for name, (_, last) in names.items():
                if last == found.versions[-1]:
                    yield name


def is_ours(name):
    first, *rest = name.split(".")
    value = NAMES.get(first)
    if first == "Expression" and rest:
        return rest[0] in PROPERTIES | METHODS
    for each in rest:
        value = getattr(value, each, None)
    return value is not None


def test_every_name_of_pyflinks_tables_is_there_or_has_a_reason():
    names = set(recorded())
    assert len(names) > 700
    classes = {name for name in names if "." not in name}
    assert not sorted(name for name in classes if not is_ours(name) and name not in missing_names())
    members = [name for name in names if "." in name and name.split(".")[0] in NAMES]
    assert not sorted(name for name in members if not is_ours(name) and name not in missing_names())


def test_no_name_that_is_there_counts_as_missing():
    assert not [name for name in missing_names() if is_ours(name)]


@pytest.mark.parametrize(("name", "words"), [("HiveCatalog", "CREATE TABLE"), ("DataView", "a dict")])
def test_missing_name_says_what_to_use_instead(name, words):
    assert words in why_missing(name)
    assert why_missing("Table") is None
