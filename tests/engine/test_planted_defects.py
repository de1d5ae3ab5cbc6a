"""Each defect that an attack has found is caught by its test when it is planted again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.engine.planted_defects import PLANTED
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def test_each_test_of_an_attack_fails_when_its_defect_is_planted_again() -> None:
    tests = [f"tests/engine/{test}" for test in PLANTED]
    # At -v a failed comparison shows a diff of all that it compares, which takes longer than all the tests.
    brief = ["-v", "-rf", "--override-ini", "verbosity_assertions=0", "-p", "no:cacheprovider"]
    command = ["-m", "pytest", *brief, "-p", "tests.engine.planted_defects"]
    ended = subprocess.run(
        [sys.executable, *command, *tests],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=4 * PATIENCE_SECONDS,
    )
    failed = {found.partition("[")[0] for found in re.findall(r"^FAILED (\S+)", ended.stdout, re.MULTILINE)}
    # Tests of a server that this machine does not have.
    unserved = {
        found.partition("[")[0]
        for found in re.findall(
            r"^(tests/engine/connectors/(?:kafka|postgres)/\S+).* SKIPPED", ended.stdout, re.M
        )
    }
    assert failed == set(tests) - (unserved - failed), ended.stdout[-3000:] + ended.stderr
