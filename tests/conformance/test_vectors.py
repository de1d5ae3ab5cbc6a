"""Runs every conformance vector that has an adapter."""


def test_engine_answers_as_flink_did(vector, adapters, canonical_forms):
    adapter = adapters[vector.area]
    answers = [adapter.unordered(vector.input, answer) for answer in (vector.expected, adapter(vector))]
    expected, actual = canonical_forms(*answers)
    assert actual == expected, f"area {vector.area}, vector {vector.id}"
