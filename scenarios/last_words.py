"""The last words of each key, where any word may be missing: None in a list, as a map's key, and in a pickle.

A list holds the last three words, a map counts each word, and a state of type PICKLED_BYTE_ARRAY holds a
tuple of plain values, which is stored without pickle and must come back as a tuple.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.chance import Chance

Word = str | None
LastWords = tuple[str, str, str, int, str]
"""Split, key, the last three words, how often there was the last one, and the one before it."""

name = "last_words"
generator_version = 1
tasks: dict[str, Role] = {"words": "source", "last": "keyed", "table": "sink"}
record_schema = "key STRING, word STRING"
row_schema = "split STRING, key STRING, words STRING, seen BIGINT, before STRING"
oracle_sql = """
WITH shown AS (SELECT *, coalesce(word, '-') AS text FROM records)
SELECT scenario_id, split, key,
  array_join(collect_list(text) OVER (
    PARTITION BY scenario_id, split, key ORDER BY offset ROWS BETWEEN 2 PRECEDING AND CURRENT ROW
  ), ' ') AS words,
  count(*) OVER (PARTITION BY scenario_id, split, key, text ORDER BY offset) AS seen,
  coalesce(
    'tuple ' || lag(text) OVER (PARTITION BY scenario_id, split, key ORDER BY offset), 'nothing'
  ) AS before
FROM shown
"""
KEYS: Final = ("a", "b", "c")
WORDS: Final[tuple[Word, ...]] = (None, "ash", "elm", "oak")


def generate(random: Random) -> Workload:
    """Draw words, and None among them."""
    return draw_keyed(random, KEYS, _word)


def _word(chance: Chance, key: str, now: int) -> tuple[str, Word]:
    return key, chance.choice(WORDS)


def _text(word: Word) -> str:
    return "-" if word is None else word


class LastThree(KeyedProcessFunction):
    """Emits the last three words of a key with each word."""

    def open(self, runtime_context: RuntimeContext) -> None:
        words = Types.LIST(Types.STRING())
        self._words = runtime_context.get_state(ValueStateDescriptor("words", words))
        self._seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))
        memory = ValueStateDescriptor("memory", Types.PICKLED_BYTE_ARRAY())
        self._memory = runtime_context.get_state(memory)

    def process_element(
        self, value: tuple[str, str, Word], ctx: KeyedProcessFunction.Context
    ) -> Iterator[LastWords]:
        split, key, word = value
        words = [*(self._words.value() or []), word][-3:]
        self._words.update(words)
        seen = (self._seen.get(word) or 0) + 1
        self._seen.put(word, seen)
        memory = self._memory.value()
        self._memory.update((word, seen))
        before = "nothing" if memory is None else f"{type(memory).__name__} {_text(memory[0])}"
        yield split, key, " ".join(map(_text, words)), seen, before


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build words -> last -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
    into_table(named(keyed_records(env, io, "words").process(LastThree(), row), "last", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Keep all words of each key of each split."""
    rows = []
    for split, values in records.items():
        heard: defaultdict[object, list[str]] = defaultdict(list)
        for _, value in values:
            assert isinstance(value, tuple)
            key, word = value
            texts = heard[key]
            before = f"tuple {texts[-1]}" if texts else "nothing"
            texts.append("-" if word is None else str(word))
            rows.append((split, str(key), " ".join(texts[-3:]), Counter(texts)[texts[-1]], before))
    return rows


options = FamilyOptions(any_backend=True)
