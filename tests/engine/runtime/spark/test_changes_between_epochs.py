"""Each epoch opens its files anew, at a position that knows their content."""

from __future__ import annotations

import os

import pytest

from onceproof.engine import FileSource, StreamFormat
from onceproof.engine.runtime.job_result import JobExecutionFailed


def as_tuple(line):
    return (line,)


@pytest.mark.parametrize("change", ["cut", "replaced"])
def test_file_that_changes_between_two_epochs_fails_the_job_for_good(job, here, tmp_path, change):
    path = tmp_path / "words"
    path.write_text("".join(f"{word}\n" for word in job.words))
    text = StreamFormat.text_line_format()
    job.source = FileSource.for_record_stream_format(text, str(path)).build()
    read = []

    class Changing(here.execution):
        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            if not read:
                if change == "cut":
                    os.truncate(path, 10)
                else:
                    path.write_text("other\n" * 10_000)
            read.append(self.records_read)

    env = job.environment(execution__checkpointing__interval_records=100)
    job.describe(env, 1, before=lambda lines: lines.map(as_tuple))
    with pytest.raises(JobExecutionFailed, match=r"file .*words is not the one that was read up to byte"):
        here(env.get_job_graph("words"), execution_class=Changing)
    assert 0 < read[0] < len(job.words)
    assert read[1:] == []
