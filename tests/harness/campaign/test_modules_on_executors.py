"""A job and a family that import the modules beside them, on executors that have none of these modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]

PROGRAM = """
from pathlib import Path

from onceproof.engine import Configuration, CsvSource, Encoder, FileSink, StreamExecutionEnvironment, Types
from onceproof.engine.runtime.spark_session import spark_context
from onceproof.harness.campaign.executor import FamilySource, load

from beside.shops import shop

options = {
    "execution.target": "spark",
    "execution.checkpointing.interval-records": 20,
    "execution.checkpointing.dir": "checkpoints",
}
# Executors work in folders of their own, so paths of data are absolute.
here = Path.cwd()

# A Spark of its own: it does not know where the modules of this program are.
with spark_context("local-cluster[1,1,1024]") as context:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    schema = [("shop", Types.STRING()), ("cents", Types.LONG())]
    sales = env.from_source(CsvSource(str(here / "sales.csv"), schema), None, "sales").uid("sales")
    totals = sales.key_by(shop, Types.STRING()).sum(1).uid("totals")
    totals.sink_to(FileSink.for_row_format(str(here / "totals"), Encoder.csv_encoder()).build()).uid("files")
    print(env.execute("shop totals").records_read)
    source = FamilySource.of("family/words.py")
    print(context.parallelize([source], 1).map(lambda each: load(each).name).collect())
"""

FAMILY = """
from scenarios_of_mine import words
from onceproof.scenarios.word_count import *
from onceproof.scenarios.word_count import record_schema, row_schema, oracle_sql

name = words()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_and_a_family_bring_the_modules_beside_them_to_other_processes(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("shop,cents\n" + "".join(f"s{n % 3},{n}\n" for n in range(50)))
    program = tmp_path / "program"
    (program / "beside").mkdir(parents=True)
    (program / "main.py").write_text(PROGRAM)
    (program / "beside" / "__init__.py").touch()
    (program / "beside" / "shops.py").write_text("def shop(sale):\n    return sale[0]\n")
    family = tmp_path / "family"
    family.mkdir()
    (family / "words.py").write_text(FAMILY)
    (family / "scenarios_of_mine.py").write_text("def words():\n    return 'words'\n")
    done = subprocess.run(
        [sys.executable, str(program / "main.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "50\n['words']\n"), done.stderr
