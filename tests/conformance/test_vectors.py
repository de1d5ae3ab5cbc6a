"""Runs every conformance vector that has an adapter."""


def test_engine_answers_as_flink_did(vector, adapters, canonical_forms, recorded_departures, record_property):
    adapter = adapters[vector.area]
    answers = [adapter.unordered(vector.input, answer) for answer in (vector.expected, adapter(vector))]
    expected, actual = canonical_forms(*answers)
    reason = adapter.departure(vector.input)
    if reason is None:
        assert actual == expected, f"area {vector.area}, vector {vector.id}"
        return
    assert actual != expected, f"area {vector.area}, vector {vector.id}: there is no departure any more"
    assert reason in recorded_departures, f"engine/docs/compared.md does not give the reason: {reason}"
    record_property("departs", vector.id)
