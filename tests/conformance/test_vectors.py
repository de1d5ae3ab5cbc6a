"""Each recorded fact that the engine can be asked about."""


def test_engine_answers_as_flink_did(vector, adapters, canonical_forms):
    expected, actual = canonical_forms(vector.expected, adapters[vector.area](vector))
    assert actual == expected, f"area {vector.area}, vector {vector.id}"
