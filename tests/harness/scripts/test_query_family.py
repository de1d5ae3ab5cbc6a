"""A query as a family: which records it gets, and how its rows are judged by what a driver computes."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest

from onceproof.harness.model.family import Declared, FamilyError
from onceproof.harness.model.family_places import address_of, default_system, load_family
from onceproof.harness.scripts.query_family import QueryFamily
from onceproof.harness.systems.structured.queries.event_times import late_among, own_records, time_of
from onceproof.harness.systems.structured.queries.query_answer import Answer, Look, LookedSource

RECORDS = {"views.0": ((0, "a"),)}


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "query.py"
    path.write_text("def views(clicks):\n    from pyspark.sql import functions\n", encoding="utf-8")
    return load_family(str(path))


def expected(family, rows, answer):
    family.keep(RECORDS, answer)
    return sorted(family.expected(RECORDS, Declared(rows)))


def test_a_file_that_imports_pyspark_is_a_query_with_a_system_of_its_own(family):
    assert isinstance(family, QueryFamily)
    assert default_system(family) == "structured_streaming"
    assert address_of(family) == str(family.path)


def test_a_word_that_an_address_of_a_query_does_not_know_is_refused(family):
    with pytest.raises(FamilyError, match=r"unknown 'smaple'; did you mean sample\?"):
        load_family(f"{family.path}?smaple=views=views.jsonl")


def test_records_are_never_later_than_the_watermark_allows(family):
    texts = [f'{{"at": "2026-03-02T09:{number % 6}{number % 10}:00"}}' for number in range(40)]
    family.look = Look({"views": LookedSource(texts, "of views.jsonl")}, "append", "kafka", 120_000)
    has_moved = False
    for seed in range(200):
        records = own_records(family.generate(Random(seed)).records, "views")
        times = [time_of(text) for _, text in records]
        latest = list(accumulate(times, max))
        assert all(late - time <= 120_000 for late, time in zip(latest, times, strict=True))
        has_moved |= latest != times
    assert has_moved


def test_one_record_is_late_where_it_is_known_what_becomes_of_it(family):
    texts = [f'{{"at": "2026-03-02T09:{number:02}:00"}}' for number in range(40)]
    family.look = Look({"views": LookedSource(texts, "of views.jsonl")}, "append", "kafka", 120_000, True)
    drawn = [own_records(family.generate(Random(seed)).records, "views") for seed in range(200)]
    assert {len(late_among(records, 120_000)) for records in drawn} == {0, 1}


def test_rows_with_a_late_record_and_without_it_are_right(family):
    answer = Answer([[("a", 3), ("b", 1)], [("a", 2), ("b", 1)]])
    for count in (2, 3):
        assert expected(family, [("a", count), ("b", 1)], answer) == [("a", count), ("b", 1)]
    assert expected(family, [("a", 3)], answer) == [("a", 3), ("b", 1)]


def test_rows_of_closing_records_may_be_missing(family):
    answer = Answer([[("a", 1)]], [("a", 9)])
    assert expected(family, [("a", 1)], answer) == [("a", 1)]
    assert expected(family, [("a", 1), ("a", 9)], answer) == [("a", 1), ("a", 9)]
    assert expected(family, [("a", 9)], answer) == [("a", 1), ("a", 9)]
    assert expected(family, [("a", 1), ("a", 1)], answer) == [("a", 1)]


def test_update_mode_may_show_earlier_rows_and_must_show_the_last_ones(family):
    answer = Answer([[("a", 3)]], is_open=True)
    assert expected(family, [("a", 1), ("a", 3)], answer) == [("a", 1), ("a", 3)]
    assert expected(family, [("a", 1)], answer) == [("a", 1), ("a", 3)]


def test_columns_that_follow_the_order_of_arrival_are_not_judged(family):
    answer = Answer([[("a", 1), ("b", 1)], [("a", 2), ("b", 2)]])
    assert expected(family, [("a", 7), ("b", 1)], answer) == [("a", 7), ("b", 1)]
    assert expected(family, [("a", 7), ("c", 1)], answer) == [("a", 7), ("b", 1)]


def test_rows_of_a_run_that_has_no_answer_are_not_judged(family):
    assert family.expected(RECORDS, Declared([("a", 1)])) == [("a", 1)]
