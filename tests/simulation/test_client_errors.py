"""Faults raise the errors that the engine's adapters make of those of the installed clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import psycopg
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.postgres.timed_connection import translated
from onceproof.engine.connectors.s3_calls import S3Calls
from onceproof.engine.errors import repeatable
from onceproof.harness.generation import drawn_faults
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import KAFKA, POSTGRES, S3
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import CLIENT_ANSWERS, Means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import InjectedError, is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.shrinking.reductions import simpler_faults
from onceproof.harness.systems.simulation.client_errors import (
    KAFKA_ERRORS,
    OUTSIDE,
    POSTGRES_ERRORS,
    S3_ERRORS,
    SYSTEM_ERRORS,
    client_error,
    reported_by,
)
from onceproof.harness.trials.trial import try_scenario


class Refusing:
    """A client each of whose calls raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> NoReturn:
            raise self._error

        return call


def reports(fault: Fault) -> bool:
    return FAULTS[fault.kind].means == CLIENT_ANSWERS


def through_kafka(means: Means) -> None:
    error = KafkaException(KafkaError(KAFKA_ERRORS[means]))
    RowProducer({"bootstrap.servers": "a:1"}, lambda settings: Refusing(error)).commit(1.0)  # type: ignore[arg-type,return-value]


def through_postgres(means: Means) -> None:
    with translated("the commit"):
        raise psycopg.errors.lookup(POSTGRES_ERRORS[means])("refused")


def through_s3(means: Means) -> None:
    error = ClientError(
        {"Error": {"Code": S3_ERRORS[means], "Message": "refused"}}, "CompleteMultipartUpload"
    )
    S3Calls("bucket", Refusing(error)).complete_upload("part", "upload", ["tag"])


def through_the_system(means: Means) -> None:
    raise OSError(SYSTEM_ERRORS[means], "refused")


SAID_BY_KAFKA = "cannot be committed"
ADAPTERS = {KAFKA: through_kafka, POSTGRES: through_postgres, S3: through_s3, OUTSIDE: through_the_system}
CODES: Mapping[str, Mapping[Means, object]] = {
    KAFKA: KAFKA_ERRORS,
    POSTGRES: POSTGRES_ERRORS,
    S3: S3_ERRORS,
    OUTSIDE: SYSTEM_ERRORS,
}


@pytest.mark.parametrize("end", ADAPTERS)
@pytest.mark.parametrize("means", CLIENT_ANSWERS)
def test_an_injected_error_is_what_the_adapter_makes_of_the_clients(end: str, means: Means) -> None:
    with pytest.raises(OSError, match="refused|" + SAID_BY_KAFKA) as real:
        ADAPTERS[end](means)
    with pytest.raises(OSError, match="refused") as injected, reported_by(end):
        raise InjectedError("refused", means=means)
    assert type(injected.value) is type(real.value)
    assert injected.value.errno == real.value.errno
    assert is_injected(injected.value)
    assert not repeatable(injected.value)


def test_each_answer_has_an_error_of_its_own_at_each_end() -> None:
    for codes in CODES.values():
        assert set(codes) == set(CLIENT_ANSWERS)
        assert len(set(codes.values())) == len(codes)


def test_kafka_knows_the_codes_by_the_names_in_the_table() -> None:
    names = [KafkaError(code).name() for code in KAFKA_ERRORS.values()]
    assert names == [
        "_TIMED_OUT",
        "_TRANSPORT",
        "COORDINATOR_NOT_AVAILABLE",
        "THROTTLING_QUOTA_EXCEEDED",
        "CONCURRENT_TRANSACTIONS",
    ]


def test_a_fault_that_does_not_say_how_it_is_reported_stays_as_it_is() -> None:
    plain = InjectedError("refused")
    assert client_error(plain, KAFKA) is None
    with pytest.raises(InjectedError) as raised, reported_by(KAFKA):
        raise plain
    assert raised.value is plain


def test_some_failed_commits_are_drawn_with_an_answer_and_all_else_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = load_family("postgres_rows")
    drawn = [generate(family, seed) for seed in range(500)]
    answers = [fault.means for each in drawn for fault in each.faults if reports(fault)]
    assert set(answers) == {"", *CLIENT_ANSWERS}
    assert 0.4 < sum(bool(means) for means in answers) / len(answers) < 0.8
    with_one = next(each for each in drawn if any(fault.means in CLIENT_ANSWERS for fault in each.faults))
    plain = [each for each in simpler_faults(with_one) if all(not fault.means for fault in each.faults)]
    assert plain
    monkeypatch.setattr(drawn_faults, "ANSWERS", 0.0)
    for seed, each in enumerate(drawn):
        without = generate(family, seed)
        assert [(fault.kind, fault.point) for fault in without.faults] == [
            (fault.kind, fault.point) for fault in each.faults
        ]


@pytest.mark.parametrize(
    "name", ["postgres_rows", "kafka_rows", "objects_rolling", "word_commits", "word_batches"]
)
def test_jobs_survive_each_answer_of_each_end(name: str) -> None:
    family = load_family(name)
    drawn = (generate(family, seed) for seed in range(500))
    struck = next(each for each in drawn if any(map(reports, each.faults)))
    for means in CLIENT_ANSWERS:
        faults = tuple([replace(each, means=means if reports(each) else "") for each in struck.faults])
        trial = try_scenario(family, replace(struck, faults=faults))
        assert trial.verdict.violations == (), means
