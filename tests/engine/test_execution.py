"""Whole jobs in this process, through the public API alone."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.engine import (
    Configuration,
    CsvSource,
    Encoder,
    FileSink,
    JsonLinesSource,
    KeyedProcessFunction,
    OutputFileConfig,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)


def environment(**options):
    options = {key.replace("_", "-").replace("--", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))


def word_count(env, words):
    pairs = env.from_collection(words, Types.STRING()).map(lambda word: (word, 1))
    return pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_rows_are_collected_once_with_and_without_checkpoints(parallelism, checkpointed):
    env = environment().set_parallelism(parallelism)
    if checkpointed:
        env.enable_checkpointing(10)
    with word_count(env, ["a", "b", "a", "c", "a"]).execute_and_collect() as rows:
        assert sorted(rows) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


def test_limit_returns_a_list_of_that_many_rows():
    assert word_count(environment(), ["a", "a", "a"]).execute_and_collect("words", 2) == [("a", 1), ("a", 2)]


def test_a_stream_can_be_collected_twice():
    counts = word_count(environment(), ["a", "a"])
    assert list(counts.execute_and_collect()) == list(counts.execute_and_collect()) == [("a", 1), ("a", 2)]


def test_collected_rows_do_not_depend_on_an_earlier_process(tmp_path):
    for _ in range(2):
        env = environment(**{"execution--checkpointing--dir": str(tmp_path)}).enable_checkpointing(10)
        assert list(word_count(env, ["a"]).execute_and_collect("same name")) == [("a", 1)]
        assert env.get_configuration().contains_key("execution.checkpointing.dir")
    assert list(tmp_path.iterdir()) == []


class FailsOnce(KeyedProcessFunction):
    """Counts; the first attempt dies in the middle of the input."""

    deaths = 0

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == 70 and FailsOnce.deaths == 0:
            FailsOnce.deaths += 1
            raise RuntimeError("planned")
        yield value[0], count


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_job_over_files_writes_every_row_once_although_a_task_dies(tmp_path, kind):
    FailsOnce.deaths = 0
    words = [f"w{number % 5}" for number in range(500)]
    schema = [("word", Types.STRING()), ("n", Types.LONG())]
    if kind == "csv":
        lines = [f"{word},{number}\n" for number, word in enumerate(words)]
        source = CsvSource(tmp_path / "input", schema, header=False, bytes_per_split=900, block_bytes=100)
    else:
        lines = [f'{{"word":"{word}","n":{number}}}\n' for number, word in enumerate(words)]
        source = JsonLinesSource(tmp_path / "input", schema, bytes_per_split=3000, block_bytes=300)
    (tmp_path / "input").write_text("".join(lines))
    env = environment(
        **{
            "execution--checkpointing--interval-records": 50,
            "execution--checkpointing--dir": str(tmp_path / "checkpoints"),
            "restart-strategy--type": "fixed-delay",
            "restart-strategy--fixed-delay--attempts": 1,
            "restart-strategy--fixed-delay--delay": 0,
            "pipeline--buffer-records": 10,
        }
    ).set_parallelism(2)
    config = OutputFileConfig.builder().with_part_prefix("counts").with_part_suffix(".csv").build()
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.csv_encoder())
    counted = env.from_source(source, None, "words").key_by(lambda value: value[0], Types.STRING())
    counted.process(FailsOnce()).sink_to(sink.with_output_file_config(config).build())
    result = env.execute("counts")
    assert result.attempts == 2
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert all(name.startswith("counts-") and name.endswith(".csv") for name in names)
    rows = Counter(line for name in names for line in (tmp_path / "out" / name).read_text().splitlines())
    assert rows == Counter(f"w{word},{count}" for word in range(5) for count in range(1, 101))


def test_a_malformed_row_ends_the_job_with_its_file_and_line(tmp_path):
    (tmp_path / "input.csv").write_text("word,n\na,1\nb,two\n")
    env = environment().enable_checkpointing(10)
    schema = [("word", Types.STRING()), ("n", Types.LONG())]
    env.from_source(CsvSource(tmp_path / "input.csv", schema)).print()
    with pytest.raises(RuntimeError, match=r"/input\.csv, line 3: column 'n': 'two' is no LONG") as caught:
        env.execute()
    assert "\n" not in str(caught.value)


def test_an_output_folder_that_cannot_be_used_ends_the_job_with_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    env = environment().enable_checkpointing(10)
    sink = FileSink.for_row_format(str(tmp_path / "file" / "out"), Encoder.simple_string_encoder()).build()
    env.from_collection(["a"]).sink_to(sink)
    with pytest.raises(RuntimeError, match=r"/file/out of the file sink cannot be used: Not a directory"):
        env.execute()


def test_a_missing_input_ends_the_job_with_one_line(tmp_path):
    env = environment().enable_checkpointing(10)
    env.from_source(JsonLinesSource(tmp_path / "none.jsonl")).print()
    with pytest.raises(RuntimeError, match=r"none\.jsonl cannot be read: No such file"):
        env.execute()
