"""Texts for values: invisible characters as escapes, and distinct texts for distinct values."""

import pytest

from onceproof.reports.text import cell, counted, duration, joined, number, shortened, visible, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("straße 北京 😀", "straße 北京 😀"),
        ("a\x00b", "a\\x00b"),
        ("line\nline", "line\\nline"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("half \ud800", "half \\ud800"),
        ("\ufffe", "\\ufffe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
    ],
)
def test_invisible_characters_are_written_as_escapes(text, shown):
    assert visible(text) == shown
    shown.encode("utf-8")


def test_values_that_differ_look_different():
    values = [1, "1", 1.5, "1.5", None, "null", True, "true", "", " ", "k1", " k1"]
    shown = [cell(value) for value in values]
    assert len(set(shown)) == len(values)
    assert cell("k1") == "k1"


def test_numbers_and_durations_are_formatted():
    assert [number(value) for value in (0, 1234567, 0.5, 12.34, 1500.4, 0.0123)] == [
        "0",
        "1,234,567",
        "0.50",
        "12.3",
        "1,500",
        "0.012",
    ]
    assert number(float("nan")) == "nan"
    assert [duration(value) for value in (0.004, 0.21, 9.96, 59.6, 61.3, 3700)] == [
        "4 ms",
        "0.2 s",
        "10 s",
        "1 min 00 s",
        "1 min 01 s",
        "1 h 01 min",
    ]
    assert counted(1, "family", "families") == "1 family"
    assert counted(2000, "record") == "2,000 records"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined([]) == ""


def test_shortened_keeps_both_ends_and_never_grows():
    name = "very-long-name-of-an-operator-number-17"
    short = shortened(name, 20)
    assert len(short) == 20
    assert short.startswith("very")
    assert short.endswith("-17")
    assert shortened("short", 20) == "short"


def test_wide_characters_take_more_room():
    assert width("北京", 11) > width("ab", 11) > width("il", 11)
