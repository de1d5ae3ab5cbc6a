"""Programs of which nothing is known, in real processes: fed, killed, started again, judged by rows."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.checkers.watched import watched_in
from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.program_faults import with_program_faults
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    FAULT_FIRED,
    JOB_FAILED,
    JOB_STOPPED,
    ROWS_FOUND,
    ROWS_GONE,
    TASK_FAILED,
)
from onceproof.harness.model.history import KILL as KILL_BETWEEN
from onceproof.harness.model.program_ends import BYTES_MARK
from onceproof.harness.model.program_measures import SetUpProblem
from onceproof.harness.model.scenario import Fault, Operation
from onceproof.harness.systems.program.preparation import prepare
from onceproof.harness.systems.program.system import CommandSystem
from tests.harness.systems.program.programs import (
    COPIES_LINES,
    FILES,
    RECORDS,
    REMEMBERS,
    events_of,
    program,
    scenario_of,
    tried,
)

pytestmark = pytest.mark.local_kill

KILL = Fault("kill_process", "committed", occurrence=3)
QUIET = "[done]\nquiet_seconds = 3\n"
"""Long enough for the first row of a program that a busy machine starts."""


def anomalies(verdict: Verdict) -> list[tuple[str, str]]:
    return [(each.property, each.anomaly) for each in verdict.violations]


def test_an_undisturbed_program_passes(tmp_path: Path) -> None:
    history, verdict = tried(program(tmp_path, COPIES_LINES))
    assert verdict.passed, verdict.violations
    assert sum(len(payload["rows"]) for _, payload in events_of(history, ROWS_FOUND)) == 6


def test_a_program_that_forgets_repeats_rows_after_a_kill(tmp_path: Path) -> None:
    history, verdict = tried(program(tmp_path, COPIES_LINES, FILES + QUIET), faults=(KILL,))
    assert anomalies(verdict) == [("exactly_once", "duplicated")]
    assert [subject for subject, _ in events_of(history, ATTEMPT_STARTED)] == ["1", "2"]
    (recovery,) = history.statistics.recoveries
    assert recovery.seconds is not None
    assert recovery.seconds > 0


def test_a_program_that_remembers_passes_under_many_kills(tmp_path: Path) -> None:
    kills = [Fault("kill_process", "element", occurrence=n, delay=n) for n in (1, 3, 5)]
    history, verdict = tried(program(tmp_path, REMEMBERS), faults=(*kills, KILL))
    assert verdict.passed, verdict.violations
    assert len(events_of(history, FAULT_FIRED)) == 4


def test_a_promise_of_at_least_once_allows_repeated_rows(tmp_path: Path) -> None:
    path = program(tmp_path, COPIES_LINES, begin='promise = "at_least_once"')
    family = load_family(str(path))
    mode = with_program_faults(family, scenario_of(path)).mode
    _, verdict = tried(path, faults=(KILL,), mode=mode)
    assert verdict.passed, verdict.violations


def test_rows_that_never_come_are_lost_after_the_quiet_time(tmp_path: Path) -> None:
    skips = COPIES_LINES.replace("written.write(line)", "written.write('' if '\"id\":3' in line else line)")
    path = program(tmp_path, skips, FILES + QUIET)
    _, verdict = tried(path)
    assert anomalies(verdict) == [("exactly_once", "lost")]


def test_a_file_that_is_begun_anew_hides_rows_that_were_seen(tmp_path: Path) -> None:
    # Its second start writes when the last records of both splits are there. One is given after the other,
    # and the output is looked at between them.
    truncates = """
        import sys, time
        given = [open(f"{sys.argv[1]}/{split}.jsonl") for split in ("left", "right")]
        written = open(sys.argv[2] + "/rows.jsonl", "w")
        print("up", flush=True)
        lines = []
        while True:
            lines += [line for file in given if (line := file.readline())]
            if sys.argv[3] == "1" or len(lines) == 6:
                written.writelines(lines)
                written.flush()
                lines.clear()
            time.sleep(0.005)
    """
    path = program(tmp_path, truncates, more='ready = "up"')
    path.write_text(path.read_text().replace('"{output}"', '"{output}", "{start}"'))
    records = {"left": RECORDS["numbers"][:3], "right": RECORDS["numbers"][3:]}
    history, verdict = tried(path, records=records, faults=(KILL,))
    assert ("fencing", "hidden") in anomalies(verdict)
    assert events_of(history, ROWS_GONE)


def test_half_a_line_that_a_death_leaves_is_reported(tmp_path: Path) -> None:
    halves = """
        import sys, time
        written = open(sys.argv[2] + f"/rows-{time.monotonic_ns()}.jsonl", "w")
        written.write('{"id": 0}\\n{"id": ')
        written.flush()
        time.sleep(3600)
    """
    path = program(tmp_path, halves, FILES + QUIET)
    records = {"numbers": RECORDS["numbers"][:1]}
    _, verdict = tried(path, records=records)
    assert anomalies(verdict) == [("no_leaks", "line without an end")]


def test_a_line_that_is_no_row_is_reported_as_a_row(tmp_path: Path) -> None:
    shouts = COPIES_LINES.replace("written.write(line)", "written.write(line.replace('\"id\":2', 'oh'))")
    path = program(tmp_path, shouts, FILES + QUIET)
    _, verdict = tried(path)
    assert anomalies(verdict) == [("exactly_once", "wrong value")]
    assert "oh" in str(verdict.violations[0].witness["rows"][0]["row"])


def test_a_program_that_cannot_run_fails_with_its_last_words(tmp_path: Path) -> None:
    path = program(tmp_path, "raise SystemExit('no such account')")
    history, verdict = tried(path)
    assert ("liveness", "job failed") in anomalies(verdict)
    assert events_of(history, JOB_FAILED) == [("job", {"cause": "exit code 1: no such account"})]


def test_a_command_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    path.write_text(path.read_text().replace("{python}", "no-such-program"))
    with pytest.raises(FamilyError, match=r"job\.toml: program\.command: no-such-program: No such file"):
        tried(path)


def test_what_stands_beside_its_python_needs_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = program(tmp_path, COPIES_LINES)
    path.write_text(path.read_text().replace("{python}", Path(sys.executable).name))
    _, verdict = tried(path)
    assert verdict.passed, verdict.violations


def test_a_program_that_dies_of_a_fault_later_is_started_again(tmp_path: Path) -> None:
    ends_once = REMEMBERS.replace(
        "while True:",
        "if sys.argv[3] == '2': time.sleep(0.05); raise SystemExit('lock is held')\n    while True:",
    )
    path = program(tmp_path, ends_once)
    path.write_text(path.read_text().replace('"{output}"', '"{output}", "{start}"'))
    history, verdict = tried(path, faults=(KILL,))
    assert verdict.passed, verdict.violations
    causes = [payload["cause"] for _, payload in events_of(history, TASK_FAILED)]
    assert causes == ["killed", "exit code 1: lock is held"]


def test_a_program_that_takes_too_long_is_cut_off(tmp_path: Path) -> None:
    # All records are there before the start, so it is killed as soon as it runs.
    at_once = '[input]\nkind = "files"\npace_ms = 0\n[output]\nkind = "files"\n'
    path = program(tmp_path, REMEMBERS, at_once + '[done]\nwhen = "exit"\nmost_seconds = 5\n')
    _, verdict = tried(path, faults=(Fault("kill_process", "element"),))
    assert anomalies(verdict) == [("liveness", "stuck")]


@pytest.mark.parametrize(
    ("text", "done", "missing"),
    [
        (
            COPIES_LINES,
            'when = "exit"\nmost_seconds = 0.5',
            "the (end of the program|first row|missing rows)",
        ),
        ("import time; time.sleep(600)", "quiet_seconds = 0.3", "the first row"),
    ],
)
def test_a_program_that_is_stuck_before_any_fault_is_a_set_up_problem(
    tmp_path: Path, text: str, done: str, missing: str
) -> None:
    path = program(tmp_path, text, f"{FILES}[done]\n{done}\n")
    said = (
        rf"the set-up does not work: {missing} did not come in \S+ s, before any fault\. In the control run"
    )
    with pytest.raises(SetUpProblem, match=said):
        tried(path)


def test_lines_reach_standard_input_again_after_a_kill(tmp_path: Path) -> None:
    # What its starts have printed is all that it knows: there is no moment between a row and its note.
    counts = """
        import glob, json, sys
        done = sum(len(open(printed).readlines()) for printed in glob.glob("output/*.txt"))
        for number, line in enumerate(sys.stdin):
            if number >= done:
                print(json.loads(line)["id"], flush=True)
    """
    ends = '[input]\nkind = "stdin"\n[output]\nkind = "stdout"\nformat = "text"\n[done]\nwhen = "exit"\n'
    # At a record that no row has answered yet: the program waits for the next one.
    faults = (Fault("kill_process", "element", occurrence=4, delay=3),)
    path = program(tmp_path, counts, ends)
    history, verdict = tried(path, faults=faults)
    assert verdict.passed, verdict.violations
    assert len(events_of(history, ATTEMPT_STARTED)) == 2


def test_a_socket_gives_each_connection_all_lines(tmp_path: Path) -> None:
    reads = """
        import socket, sys
        host, port = sys.argv[1].split(":")
        lines = socket.create_connection((host, int(port))).makefile()
        with open(sys.argv[2] + "/rows.csv", "a") as rows:
            for line in lines:
                rows.write(line.split(",")[0] + "\\n")
                rows.flush()
    """
    ends = '[input]\nkind = "socket"\nformat = "csv"\n[output]\nkind = "files"\nformat = "csv"\n'
    path = program(tmp_path, reads, ends + '[done]\nwhen = "exit"\n')
    _, verdict = tried(path)
    assert verdict.passed, verdict.violations
    _, verdict = tried(path, faults=(Fault("kill_process", "committed", occurrence=2),))
    assert anomalies(verdict) == [("exactly_once", "duplicated")]


def test_a_paused_program_writes_nothing_until_it_goes_on(tmp_path: Path) -> None:
    pause = Fault("pause_process", "committed", occurrence=2, delay=400)
    history, verdict = tried(program(tmp_path, COPIES_LINES), faults=(pause,))
    assert verdict.passed, verdict.violations
    assert [subject for subject, _ in events_of(history, FAULT_FIRED)] == ["pause_process"]
    assert history.statistics.milliseconds > 400
    assert len(events_of(history, ATTEMPT_STARTED)) == 1


def test_a_part_of_a_program_is_killed_alone(tmp_path: Path) -> None:
    supervises = """
        import subprocess, sys
        if sys.argv[-1] != "worker":
            while subprocess.run([sys.executable, *sys.argv, "worker"]).returncode:
                pass
            raise SystemExit
        sys.argv.pop()
    """
    path = program(tmp_path, dedent(supervises) + dedent(REMEMBERS), more='parts = ["worker$"]')
    history, verdict = tried(path, faults=(Fault("kill_task", "committed", occurrence=2),))
    assert verdict.passed, verdict.violations
    assert [payload["task"] for _, payload in events_of(history, FAULT_FIRED)] == ["worker$"]
    assert len(events_of(history, ATTEMPT_STARTED)) == 1


def test_a_kill_leaves_no_process_of_the_program(tmp_path: Path) -> None:
    children = f"""
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {str(tmp_path)!r}])
    """
    tried(program(tmp_path, dedent(children) + dedent(COPIES_LINES)), faults=(KILL,))
    assert not [each for each in psutil.process_iter() if str(tmp_path) in " ".join(command_of(each))]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_stop_ends_a_program_in_order_and_starts_it_again(tmp_path: Path) -> None:
    stores_at_end = """
        import os, signal, sys, time
        given, written = open(sys.argv[1] + "/numbers.jsonl"), open(sys.argv[2] + "/rows.jsonl", "a")
        if os.path.exists("place"):
            given.seek(int(open("place").read()))
        asked = []
        signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
        while not asked:
            line = given.readline()
            written.write(line)
            written.flush()
            time.sleep(0 if line else 0.005)
        open("place", "w").write(str(given.tell()))
    """
    stop = Operation("terminate", "element", occurrence=3)
    history, verdict = tried(program(tmp_path, stores_at_end), operations=(stop,))
    assert verdict.passed, verdict.violations
    assert len(events_of(history, JOB_STOPPED)) == 1


def test_marks_in_what_it_prints_are_points_of_kills(tmp_path: Path) -> None:
    prints = COPIES_LINES.replace(
        "written.flush()", "written.flush(); print('stored', len(line), flush=True)"
    )
    path = program(tmp_path, prints, FILES + QUIET + '[marks]\ncompleted = "^stored [1-9]"\n')
    kill = Fault("kill_process", "completed", occurrence=2)
    history, verdict = tried(path, faults=(kill,))
    assert anomalies(verdict) == [("exactly_once", "duplicated")]
    assert history.statistics.coverage == {("kill_process", "completed"): 1}


def test_a_mark_of_any_name_is_a_point_of_kills(tmp_path: Path) -> None:
    prints = COPIES_LINES.replace("written.flush()", "written.flush(); line and print('flushed', flush=True)")
    path = program(tmp_path, prints, FILES + QUIET + '[marks]\nflushed = "^flushed"\n')
    history, verdict = tried(path, faults=(Fault("kill_process", "mark", occurrence=2, mark="flushed"),))
    assert anomalies(verdict) == [("exactly_once", "duplicated")]
    [(_, payload)] = events_of(history, FAULT_FIRED)
    assert payload["point"] == "flushed"


def test_bytes_that_a_program_writes_are_points_of_kills(tmp_path: Path) -> None:
    kill = Fault("kill_process", "mark", occurrence=30, mark=BYTES_MARK)
    history, verdict = tried(program(tmp_path, COPIES_LINES, FILES + QUIET), faults=(kill,))
    assert anomalies(verdict) == [("exactly_once", "duplicated")]
    assert history.statistics.coverage == {("kill_process", "mark"): 1}
    assert history.statistics.points[BYTES_MARK] >= 30


def test_what_waits_for_more_rows_than_there_are_strikes_before_the_last(tmp_path: Path) -> None:
    kills = [Fault("kill_process", "committed", occurrence=n) for n in (900, 1000)]
    history, verdict = tried(program(tmp_path, REMEMBERS), faults=kills)
    assert verdict.passed, verdict.violations
    assert len(events_of(history, FAULT_FIRED)) == 2
    assert watched_in(history)[KILL_BETWEEN]
    last = [payload for _, kind, _, payload in history.events if kind == ROWS_FOUND][-1]
    assert last == {"attempt": "3", "rows": [(5,)]}


def test_a_kill_with_a_rescale_changes_the_parallelism(tmp_path: Path) -> None:
    asks = REMEMBERS.replace("while True:", "print('parallel', sys.argv[3], flush=True)\n    while True:")
    path = program(tmp_path, asks)
    path.write_text(path.read_text().replace('"{output}"', '"{output}", "{parallelism}"'))
    kept = tmp_path / "kept"
    kept.mkdir()
    history, verdict = tried(
        path, CommandSystem(kept), faults=(Fault("kill_process", "committed", occurrence=2, rescale_to=3),)
    )
    assert verdict.passed, verdict.violations
    assert [payload["parallelism"] for _, payload in events_of(history, ATTEMPT_STARTED)] == [1, 3]
    (folder,) = kept.iterdir()
    assert (folder / "start-2.txt").read_text() == "parallel 3\n"


def test_a_rescale_that_the_command_does_not_take_is_not_applicable(tmp_path: Path) -> None:
    kill = Fault("kill_process", "committed", occurrence=2, rescale_to=3)
    history, verdict = tried(program(tmp_path, REMEMBERS), faults=(kill,))
    assert verdict.passed, verdict.violations
    assert history.statistics.not_applicable == {("kill_process", "committed"): 1}
    assert not history.statistics.coverage


@pytest.mark.parametrize("place", ["environment = { JAVA = '{java}' }", "resume = ['{java}']"])
def test_java_is_filled_in_wherever_it_stands(tmp_path: Path, place: str) -> None:
    path = program(tmp_path, COPIES_LINES, more=place)
    assert Path(prepare(load_family(str(path)))["java"]).is_file()


def test_a_program_is_built_once_before_its_first_start(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        COPIES_LINES,
        more="prepare = ['{python}', '-c', 'open(\"built\", \"a\").write(\"once\")']",
    )
    system = CommandSystem()
    for _ in range(2):
        assert tried(path, system)[1].passed
    assert (tmp_path / "built").read_text() == "once"


def test_a_program_that_cannot_be_built_is_one_line(tmp_path: Path) -> None:
    path = program(
        tmp_path, COPIES_LINES, more="prepare = ['{python}', '-c', 'raise SystemExit(\"no gcc\")']"
    )
    with pytest.raises(FamilyError, match=r"job\.toml: program\.prepare: exit code 1: no gcc"):
        tried(path)


def test_a_family_that_is_no_program_is_refused(tmp_path: Path) -> None:
    family = load_family("word_count")
    with pytest.raises(FamilyError, match=r"--system command runs a program: give its FILE\.toml"):
        CommandSystem(tmp_path).run(family, generate(family, 0))


SHUFFLES = """
    import sys, time
    given, written = open(sys.argv[1] + "/numbers.jsonl"), open(sys.argv[2] + "/rows.jsonl", "a")
    held = []
    while True:
        line = given.readline()
        held += [line] * bool(line)
        if len(held) == 2:
            written.write(held.pop() + held.pop())
            written.flush()
        time.sleep(0 if line else 0.005)
"""
"""Writes two lines at a time, the later one first."""


@pytest.mark.parametrize(
    ("ordered_by", "found"),
    [("", []), ('ordered_by = { key = ["key"] }\n', [("exactly_once", "out of order")])],
)
def test_the_order_of_rows_counts_where_the_file_says_so(
    tmp_path: Path, ordered_by: str, found: list[tuple[str, str]]
) -> None:
    _, verdict = tried(program(tmp_path, SHUFFLES, FILES + ordered_by))
    assert anomalies(verdict) == found


MEANS = """
    import json, sys, time
    given, written = open(sys.argv[1] + "/numbers.jsonl"), open(sys.argv[2] + "/rows.jsonl", "a")
    while line := given.readline() or time.sleep(0.005) or "-":
        if line != "-":
            written.write(json.dumps({"mean": json.loads(line)["id"] * 0.1}) + "\\n")
            written.flush()
"""
TENTHS = """
    from onceproof import Workload

    record_schema, row_schema = "id BIGINT, key STRING", "mean DOUBLE"

    def generate(random):
        return Workload({"numbers": [(0, (int(random.random() * 9), "k0"))]})

    def expected(records, declared):
        return [(value[0] / 10,) for _, value in records["numbers"]]
"""


@pytest.mark.parametrize(
    ("tolerance", "found"),
    [("", [("exactly_once", "near miss")]), ("tolerance = { mean = 1e-9 }\n", [])],
)
def test_rounding_is_a_near_miss_without_a_tolerance(
    tmp_path: Path, tolerance: str, found: list[tuple[str, str]]
) -> None:
    (tmp_path / "tenths.py").write_text(dedent(TENTHS), encoding="utf-8")
    path = program(tmp_path, MEANS, FILES + tolerance, begin='oracle = "tenths.py"')
    # Rows that differ by rounding are not waited for: the trial would take longer than this.
    path.write_text(path.read_text() + "[done]\nquiet_seconds = 900\n")
    _, verdict = tried(path)
    assert anomalies(verdict) == found
